"""Rule 3.11 for as long as a user works: a thin link under lists and watches stays up, and whatever
is asked is answered. `make soak-links` plays each link for SOAK_MINUTES.

An observer asks all the time for the verdict, and for an object that is known.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Final, Self

import pytest

from tests.integration.relay.link.test_thin_links import Thin, relay_over
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.pods.relay import RelayProcess
from tools.harness.pods.wire.caller import Caller, Parameters, Watching
from tools.harness.relay_objects import Contents

MINUTES: Final = float(os.environ.get("SOAK_MINUTES", "30"))
LINKS: Final = {
    f"{round_trip}s": Thin(round_trip, loss=0.05, bandwidth=20_000) for round_trip in (0.3, 0.7, 2)
}
PODS: Final = 1000
# With the pods, ten streams.
WATCHED: Final = (
    *("configmaps", "configmaps", "secrets", "services", "endpoints", "serviceaccounts"),
    *("persistentvolumeclaims", "replicationcontrollers", "limitranges"),
)
ANY: Final[Parameters] = {"resourceVersion": "0"}
# Of objects that are made at a time.
WRITERS: Final = 8
# Seconds between two questions of the observer, between two writes, and that an answer may take:
# a list of all pods is some seconds of a link that ten streams share.
EACH: Final = 0.2
WRITE_EACH: Final = 10.0
ANSWER: Final = 180.0


class Asking:
    """One client that asks again and again, in a thread of its own, while it is entered; what it
    was answered, by kind of answer."""

    def __init__(self, ask: Callable[[], str], *, pause: float) -> None:
        self._ask = ask
        self._pause = pause
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.answers: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._pause):
            try:
                answer = self._ask()
            except OSError as error:
                answer = repr(error)
            self.answers[answer] += 1


def listing(client: Caller, path: str) -> Callable[[], str]:
    def ask() -> str:
        reply = client.ask(path, timeout=ANSWER)
        if reply.status != HTTPStatus.OK:
            return f"{reply.status} {reply.body[:200]!r}"
        return f"{len(reply.names)} pods"

    return ask


def known(client: Caller, path: str) -> Callable[[], str]:
    return lambda: str(client.get(path, ANY).status)


def verdict(relay: RelayProcess) -> Callable[[], str]:
    """A busy machine may take its time with an answer, which is no verdict."""
    return lambda: str(relay.readyz("?upstream=true") or "no answer")


def written(watching: Watching) -> list[str]:
    return [it.object["data"]["n"] for it in watching.events("MODIFIED") if it.name == "written"]


@pytest.mark.slow
@pytest.mark.manual
@pytest.mark.timeout(60 * MINUTES + 900)
@pytest.mark.parametrize("thin", LINKS.values(), ids=LINKS)
def test_r11_a_thin_link_stays_up_for_as_long_as_it_is_used(
    control_plane: ControlPlane, contents: Contents, tmp_path: Path, thin: Thin
) -> None:
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(contents.pod, [f"p{number}" for number in range(PODS)]))
    contents.configmap("written", n="0")
    with (
        FaultProxy(control_plane.port) as link,
        relay_over(control_plane, link, tmp_path) as relay,
        ExitStack() as stack,
    ):
        thin.apply(link)
        relay.start()
        relay.wait_link(up=True, timeout=thin.comes_up_within)
        client, pods = Caller(relay.url), contents.path("pods")
        for each in {"pods", *WATCHED}:
            assert client.ask(contents.path(each), ANY, timeout=ANSWER).status == HTTPStatus.OK
        lasting = {"timeoutSeconds": int(60 * MINUTES + 600)}
        watches = [
            stack.enter_context(client.watch(contents.path(each), {**ANY, **lasting}))
            for each in ("pods", *WATCHED)
        ]
        object_ = contents.path("configmaps", "written")
        up = stack.enter_context(Asking(verdict(relay), pause=EACH))
        asked = stack.enter_context(Asking(known(client, object_), pause=EACH))
        lists = stack.enter_context(Asking(listing(client, pods), pause=EACH))
        writes, ends = 0, time.monotonic() + 60 * MINUTES
        while time.monotonic() < ends:
            writes += 1
            contents.edit("configmaps", "written", {"data": {"n": str(writes)}})
            time.sleep(WRITE_EACH)
        readers = [it for it, name in zip(watches[1:], WATCHED, strict=True) if name == WATCHED[0]]
        for reader in readers:
            reader.wait_for(lambda it: written(it)[-1:] == [str(writes)], timeout=ANSWER)
        is_open = [it.is_open for it in watches]
    print(f"verdicts {up.answers}, gets {asked.answers}, lists {lists.answers}, {writes} writes")
    assert set(up.answers) <= {"200", "no answer"}
    assert set(asked.answers) == {"200"}
    assert set(lists.answers) == {f"{PODS} pods"}
    assert all(is_open)
    for reader in readers:
        assert written(reader) == [str(number) for number in range(1, writes + 1)]
