"""Every watch ends: with what it was told of, with its time, or with the patience of the relay."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.integration.relay.place import Kind, Place
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.local_apiserver import LocalApiServerProcess
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.relay import RelayProcess
from tools.harness.pods.wire.caller import Caller, Watching
from tools.harness.relay_objects import Contents

PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
# Far from any version that there will be.
FUTURE = 10**9
# More than the kernel takes for a reader that does not read, less than the relay's buffer.
UNREAD = 24
SIZE = 400_000


@pytest.fixture
def relay() -> Iterator[RelayProcess]:
    flags = ["--max-watchers=2", f"--watch-buffer={2 * UNREAD * SIZE}"]
    with (
        LocalApiServerProcess() as cloud,
        RelayProcess([f"--server={cloud.server}", *flags]) as process,
    ):
        process.wait_link(up=True)
        yield process


def test_a_watch_that_waits_for_its_version_is_counted_until_it_ends(relay: RelayProcess) -> None:
    def is_counted(watchers: int) -> bool:
        status = relay.status()
        by_stream = sum(it["watchers"] for it in status["streams"])
        return bool(status["watchers"] == by_stream == watchers)

    caller = Caller(relay.url)
    first = int(caller.get(CONFIG_MAPS).version)
    with caller.watch(CONFIG_MAPS, {"resourceVersion": first + 2, "timeoutSeconds": 120}) as late:
        wait_for(lambda: is_counted(1), timeout=10, what="the watch")
        for name in ("passed", "told"):
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
            caller.post(CONFIG_MAPS, {**body, "data": {"x": name}}).expect(201)
        caller.patch(f"{CONFIG_MAPS}/told", {"data": {"x": "again"}}).expect()
        late.wait_for(lambda it: bool(it.events()), what="what came after")
        assert is_counted(1)
        with caller.watch(CONFIG_MAPS, {"resourceVersion": FUTURE, "timeoutSeconds": 120}):
            wait_for(lambda: is_counted(2), timeout=10, what="the second watch")
        wait_for(lambda: is_counted(1), timeout=10, what="the second watch's end")
    wait_for(lambda: is_counted(0), timeout=10, what="the end")


def test_r8_a_reader_that_never_reads_has_its_place_until_the_time_is_over(
    relay: RelayProcess,
) -> None:
    caller = Caller(relay.url)
    query = "watch=true&timeoutSeconds=3&resourceVersion=0"
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", relay.port))
        connection.sendall(
            f"GET {CONFIG_MAPS}?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        )
        wait_for(lambda: relay.status()["watchers"] == 1, timeout=10, what="the watch")
        for number in range(UNREAD):
            named = {"name": f"cm-{number}"}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named}
            caller.post(CONFIG_MAPS, {**body, "data": {"of": "x" * SIZE}}).expect(201)

        def both_are_served() -> bool:
            with caller.watch(PODS) as one, caller.watch(PODS) as other:
                return one.status == other.status == 200

        wait_for(both_are_served, timeout=30, what="the place of the one that never reads")


def test_r8_no_more_watchers_than_may_be_find_a_place_while_the_first_list_is_under_way(
    control_plane: ControlPlane, contents: Contents
) -> None:
    path = contents.path("configmaps")
    with Place(Kind.RELAY, control_plane, flags=["--max-watchers=2"]) as place:
        caller = place.caller()

        def ask(number: int) -> Watching:
            return caller.watch(path, {"resourceVersion": "0", "timeoutSeconds": 60})

        with ThreadPoolExecutor(12) as many, ExitStack() as stack:
            # All of them stay until the last one was told.
            watchings = [stack.enter_context(each) for each in many.map(ask, range(12))]
            told = [each.status for each in watchings]
        assert sorted(told) == [200] * 2 + [429] * 10


def test_r1_a_resource_has_no_head(relay: RelayProcess) -> None:
    """The answer would go on behind its head, where the next one is expected."""
    caller = Caller(relay.url)
    for target in (CONFIG_MAPS, f"{CONFIG_MAPS}?watch=true"):
        assert caller.ask(target, method="HEAD").status == 405
