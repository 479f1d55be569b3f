"""R8: a slow reader costs only itself, and is told the truth when it comes back."""

import gzip
import json
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.integration.relay.place import PATIENT, Kind, Place, played
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.link import LINGER_RESET
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.wire.caller import Parameters
from tools.harness.relay_objects import Contents

LONG: Parameters = {"timeoutSeconds": 120}
# Bytes that one watcher may leave unread, and of each object.
BUFFER = 1024 * 1024
SIZE = 100_000
# More than the buffer and the 4 MiB that the kernel takes for a sender (tcp_wmem).
COUNT = 150
# Bytes of an object, and how many make 25 MB.
HUGE = 900_000
HUGE_COUNT = 28
# Plain HTTP with --access own; TLS with --access caller.
SPOKEN = played(Kind.RELAY, Kind.FOR_CALLERS)


@contextmanager
def reader_that_never_reads(place: Place, target: str) -> Iterator[socket.socket]:
    """A watch of which not a byte is taken."""
    sock = socket.socket()
    # As small as the kernel lets it be, so that what is unread lies with the relay.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(30)
    with place.connect(sock) as connection:
        connection.sendall(place.request_head(target))
        yield connection


def wait_watchers(place: Place, count: int) -> None:
    """Until so many are told of changes as they come; who begins is told at its own pace."""
    wait_for(lambda: place.relay.status()["watchers"] == count, timeout=20, what="the watchers")


def drain(connection: socket.socket) -> bytes:
    """All that comes until the server ends it."""
    found = b""
    try:
        while chunk := connection.recv(65536):
            found += chunk
    except (ConnectionResetError, ssl.SSLEOFError):
        pass
    return found


@pytest.mark.parametrize("kind", SPOKEN)
def test_r8_a_reader_that_never_reads_is_cut_off_and_nobody_else_notices(
    control_plane: ControlPlane, contents: Contents, kind: Kind
) -> None:
    path = contents.path("configmaps")
    version = str(contents.version())
    flags = [f"--watch-buffer={BUFFER}", PATIENT]
    with Place(kind, control_plane, flags=flags) as place:
        caller = place.caller()
        version = caller.get(path, {"resourceVersion": version}).version
        at_rest = place.relay.memory()
        query = f"watch=true&resourceVersion={version}&timeoutSeconds=120"
        with (
            caller.watch(path, {**LONG, "resourceVersion": version}) as attentive,
            reader_that_never_reads(place, f"{path}?{query}") as connection,
        ):
            wait_watchers(place, 2)
            names = [f"cm-{number:03}" for number in range(COUNT)]
            for name in names:
                contents.configmap(name, filler="x" * SIZE)
                # Everybody else goes on.
                if name.endswith("0"):
                    assert caller.get(f"{path}/{name}").status == 200
            attentive.wait_told(*(("ADDED", name) for name in names), timeout=60)
            received = drain(connection)
        # Cut off long before all of it, and nothing is missing in what it got.
        assert len(received) < COUNT * SIZE / 2
        assert told(received) == names[: len(told(received))]
        kept = COUNT * SIZE
        assert place.relay.memory() < at_rest + 6 * kept, "what is kept, its window and one buffer"
        assert place.relay.is_running


def told(received: bytes) -> list[str]:
    """The names in the complete lines of a chunked stream."""
    body = received.partition(b"\r\n\r\n")[2]
    found = b""
    while body:
        head, _, rest = body.partition(b"\r\n")
        size = int(head or b"0", 16)
        found += rest[:size]
        body = rest[size + 2 :]
    lines = found.split(b"\n")[:-1]
    return [json.loads(line)["object"]["metadata"]["name"] for line in lines]


def test_r8_who_was_cut_off_resumes_where_it_was(
    control_plane: ControlPlane, contents: Contents
) -> None:
    path = contents.path("configmaps")
    version = str(contents.version())
    with Place(Kind.RELAY, control_plane, flags=[f"--watch-buffer={BUFFER}"]) as place:
        version = place.caller().get(path, {"resourceVersion": version}).version
        query = f"watch=true&resourceVersion={version}&timeoutSeconds=120"
        with reader_that_never_reads(place, f"{path}?{query}") as connection:
            wait_watchers(place, 1)
            names = contents.configmaps(COUNT, size=SIZE)
            known = told(drain(connection))
        last = contents.get("configmaps", known[-1])["metadata"]["resourceVersion"]
        resume: Parameters = {**LONG, "resourceVersion": last}
        with place.caller().watch(path, resume) as watching:
            watching.wait_for(
                lambda it: len(it.seen) == len(names) - len(known) or bool(it.events("ERROR")),
                what="the rest, or that it has to list again",
            )
            if not watching.events("ERROR"):
                assert [each.name for each in watching.events()] == names[len(known) :]


@pytest.mark.parametrize("kind", SPOKEN)
def test_r8_long_answers_are_whole_wherever_they_come_from(
    control_plane: ControlPlane, contents: Contents, kind: Kind
) -> None:
    """From upstream, from a stream, packed, as events, and while the link is cut."""
    names = contents.configmaps(HUGE_COUNT, size=HUGE)
    path = contents.path("configmaps")
    with Place(kind, control_plane, flags=[PATIENT]) as place:
        caller = place.caller()
        truth = place.cloud.get(path)
        passed_on = caller.get(path)
        # Whoever writes anything meanwhile moves the version of a list.
        same = truth.body.replace(truth.version.encode(), passed_on.version.encode(), 1)
        assert (passed_on.status, passed_on.body) == (200, same)
        objects = truth.json()["items"]
        at = {"resourceVersion": truth.version}
        for headers in ({}, {"accept_encoding": "gzip"}):
            kept = caller.get(path, at, **headers)
            is_packed = kept.headers["Content-Encoding"] == "gzip"
            assert is_packed == bool(headers)
            body = gzip.decompress(kept.body) if is_packed else kept.body
            assert json.loads(body)["items"] == objects
            # Beside a live stream upstream's own is handed on as it comes.
            streamed = caller.get(path, {}, **headers)
            body = gzip.decompress(streamed.body) if headers else streamed.body
            assert json.loads(body)["items"] == objects
        initial: Parameters = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        with caller.watch(path, {**LONG, **initial, "allowWatchBookmarks": "true"}) as watching:
            watching.wait_initial_end()
            assert [each.name for each in watching.events("ADDED")] == names
        place.cut()
        assert caller.get(path).json()["items"] == objects


def test_r8_clients_that_leave_in_the_middle_leave_no_trace(
    one_relay: Place, contents: Contents
) -> None:
    contents.configmaps(20, size=20_000)
    path = contents.path("configmaps")
    version = contents.version()
    one_relay.caller().get(path, {"resourceVersion": version}).expect()
    targets = [
        f"{path}?resourceVersion=0",
        path,
        f"{path}?watch=true&resourceVersion=0",
        f"{path}?watch=true&resourceVersion={version}&timeoutSeconds=1",
    ]
    tables = "Accept: application/json;as=Table;g=meta.k8s.io;v=v1\r\n"
    for number in range(200):
        target, accept = targets[number % 4], ("", tables)[number // 4 % 2]
        with socket.create_connection(("127.0.0.1", one_relay.relay.port)) as connection:
            # A reset, at once or while the answer is on its way.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
            connection.sendall(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n{accept}\r\n".encode())
            time.sleep(number % 10 / 1000)
    assert one_relay.caller().get(path).status == 200
    wait_for(
        lambda: one_relay.relay.status()["watchers"] == 0, timeout=10, what="no watcher to be left"
    )
