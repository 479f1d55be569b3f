"""Which listener serves what to how many clients; who cannot be heard does not lead (P9)."""

import asyncio
import http.client
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from edge_sidecars.runtime.cli.values import Address
from elector_sidecar.web import listener
from tests.integration.elector.pair import Pair
from tools.harness.controlplane.clients.answer import ask, exchange
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import FAST_DURATION, STEADY, Fleet
from tools.harness.pods.observers.observer import wait_for, wait_for_leader
from tools.harness.pods.wire.http_client import Stream, answered, descriptors, ports
from tools.harness.pods.wire.raw_server import Connection, RawServer

PROBE_PATHS = ["/readyz", "/eligible", "/livez", "/leader", "/metrics"]


def test_the_probe_listener_serves_its_paths_only_and_no_post(pair: Pair) -> None:
    _, probe = ports(pair.leader)
    for path in PROBE_PATHS:
        answer = ask(probe, path)
        assert answer is not None
        assert answer.status == 200
    for path in ("/", "/healthz", "/resign", "/x"):
        for method in ("GET", "POST"):
            answer = ask(probe, path, method=method)
            assert answer is not None
            assert answer.status == 404, (method, path)
    for path in PROBE_PATHS:
        answer = ask(probe, path, method="POST")
        assert answer is not None
        assert answer.status == 405
    assert pair.leader.is_leader()


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=5)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(5)
        self.sock.connect(str(self._path))


def ask_unix(path: Path, target: str, *, method: str = "GET") -> tuple[int, bytes]:
    answer = exchange(UnixConnection(path), target, method=method)
    return answer.status, answer.body


def leading_on(path: Path, fleet: Fleet) -> ElectorPod:
    """Asked over its probe listener from then on."""
    fleet.create_empty_lease()
    pod = fleet.add("--listen", f"unix:{path}", "--probe-listen", "127.0.0.1:0", start=False)
    pod.start()
    pod.port = ports(pod)[-1]
    wait_for_leader([pod], timeout=10)
    return pod


@pytest.mark.long
@pytest.mark.slow
def test_p9_a_leader_whose_unix_socket_is_gone_resigns(fleet: Fleet, tmp_path: Path) -> None:
    """Nobody could hear its 503; the probe listener of the same process still answers."""
    path = tmp_path / "elector.sock"
    pod = leading_on(path, fleet)
    assert ask_unix(path, "/readyz")[0] == 200
    assert ask_unix(path, "/")[1] == b'{"name":"pod-0"}'
    assert ask_unix(path, "/leader?watch=0")[0] == 200
    assert ask_unix(path, "/nothing")[0] == 404
    path.unlink()
    wait_for(lambda: pod.readyz() == 503, timeout=40, what="it gives up the lead")
    assert "listener does not answer" in pod.leader()["reason"]
    assert answered(pod, "/livez").status == 200
    time.sleep(FAST_DURATION)
    assert not pod.is_leader(), "a deaf elector contends no more"
    assert pod.wait(timeout=60) == 1, "it ends, to be restarted with a new listener"
    assert "the listener is dead" in pod.log_text()


def test_clients_that_leave_a_long_poll_leave_nothing_behind(fleet: Fleet) -> None:
    """Each would hold its place among the connections for the whole wait."""
    fleet.create_empty_lease()
    fleet.edit(spec={"holderIdentity": "other", "leaseDurationSeconds": 600})
    pod = fleet.add()
    wait_for(lambda: pod.leader()["holder"] == "other", timeout=10, what="the holder is known")
    before = descriptors(pod)
    for _ in range(600):
        with socket.create_connection(("127.0.0.1", pod.port)) as connection:
            connection.sendall(b"GET /readyz?wait=1h HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answered(pod, "/livez").status == 200
    wait_for(lambda: descriptors(pod) <= before + 2, timeout=10, what="connections are closed")
    with Stream(pod) as stream:
        wait_for(lambda: bool(stream.lines), timeout=10, what="a stream")


def test_p9_clients_that_wait_take_neither_the_lead_nor_all_connections(fleet: Fleet) -> None:
    fleet.create_empty_lease()
    pod = fleet.add("--probe-listen", "127.0.0.1:0", timing=STEADY, start=False)
    pod.descriptors = 256
    pod.start()
    wait_for_leader([pod], timeout=10)
    token = pod.leader()["fencingToken"]
    with ExitStack() as stack:
        for number in range(100):
            for port in ports(pod):
                target = "/leader?watch=true" if number % 2 else "/readyz?wait=1h&min_age=1h"
                stack.enter_context(_waiting(port, target))
        # While they all come at once, a new connection may be one too many.
        wait_for(lambda: pod.readyz() == 200, timeout=10, what="an answer")
        renewed = fleet.spec()["renewTime"]
        until = time.monotonic() + 2 * FAST_DURATION
        while time.monotonic() < until:
            for port, path in [(pod.port, "/readyz"), *((port, "/livez") for port in ports(pod))]:
                probed = ask(port, path, timeout=10)
                assert probed is not None
                assert probed.status == 200
            time.sleep(0.2)
        assert fleet.spec()["renewTime"] != renewed
        full = answered(pod, "/readyz?wait=1h&min_age=1h")
        assert (full.status, full.headers["Retry-After"]) == (503, "1")
        assert b"clients wait already" in full.body
    assert pod.leader()["fencingToken"] == token, "the lead was never lost"
    wait_for(
        lambda: b"the term is" in answered(pod, "/readyz?wait=100ms&min_age=1h").body,
        timeout=10,
        what="places are free again",
    )


@pytest.mark.parametrize(
    "asks",
    [
        b"GET /leader?watch=true HTTP/1.1\r\nHost: x\r\n\r\n",
        pytest.param(b"", marks=pytest.mark.long),
        pytest.param(b"GET /r", marks=pytest.mark.long),
    ],
)
def test_a_stranger_who_spends_the_probe_listener_takes_nothing_from_the_main(
    fleet: Fleet, tmp_path: Path, asks: bytes
) -> None:
    """Without authentication: streams, idle connections, and headers that do not end."""
    fleet.create_empty_lease()
    path = tmp_path / "elector.sock"
    flags = ("--listen", f"unix:{path}", "--probe-listen", "127.0.0.1:0")
    pod = fleet.add(*flags, timing=STEADY)
    [probe] = ports(pod)
    wait_for(lambda: ask_unix(path, "/readyz")[0] == 200, timeout=20, what="the lead")
    with ExitStack() as stack:
        for _ in range(1000):
            stranger = stack.enter_context(socket.create_connection(("127.0.0.1", probe)))
            with suppress(ConnectionResetError, BrokenPipeError):
                stranger.sendall(asks)
        wait_for(lambda: _is_probed(probe), timeout=10, what="an answer to kubelet")
        full = ask(probe, "/readyz?wait=1h&min_age=1h", timeout=1)
        is_spent = b"watch" in asks
        assert (full is not None and b"clients wait already" in full.body) is is_spent
        # The main's own stream, long poll and question, as many as it had before.
        watching = stack.enter_context(closing(UnixConnection(path)))
        watching.request("GET", "/leader?watch=true")
        documents = watching.getresponse()
        for _ in range(3):
            assert b'"isLeader":true' in documents.readline()
        assert ask_unix(path, "/readyz?wait=1s&min_age=1s")[0] == 200
        for _ in range(100):
            main = stack.enter_context(socket.socket(socket.AF_UNIX))
            main.connect(str(path))
            main.sendall(b"GET /leader?watch=true HTTP/1.1\r\nHost: x\r\n\r\n")
            assert main.recv(12) == b"HTTP/1.1 200"


def _is_probed(port: int) -> bool:
    answer = ask(port, "/readyz")
    return answer is not None and answer.status == 200


def test_p9_a_unix_socket_is_taken_from_nobody(fleet: Fleet, tmp_path: Path) -> None:
    path = tmp_path / "elector.sock"
    pod = leading_on(path, fleet)
    other = fleet.add("--listen", f"unix:{path}", start=False)
    with pytest.raises(AssertionError, match=f"cannot listen on unix:{path}"):
        other.start()
    assert other.wait(timeout=30) == 2
    assert ask_unix(path, "/readyz")[0] == 200
    assert pod.is_leader()


def test_p9_whoever_took_the_place_of_a_unix_socket_does_not_answer_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both answer all the time."""
    monkeypatch.setattr(listener, "CHECK_INTERVAL", 0.05)
    monkeypatch.setattr(listener, "UNRESPONSIVE_LIMIT", 0.5)
    path = tmp_path / "elector.sock"
    reports: list[bool] = []

    def report(*, is_alive: bool) -> None:
        reports.append(is_alive)
        if len(reports) == 3:
            path.unlink()
            stack.enter_context(RawServer(_livez, path=path))

    with ExitStack() as stack:
        stack.enter_context(RawServer(_livez, path=path))
        with pytest.raises(listener.ListenerUnresponsive):
            asyncio.run(listener.check_listener(Address("", 0, str(path)), report))
    assert reports[:3] == [True, True, True]
    # One check or two may be lost.
    assert reports[3:5] == [True, True]
    assert reports[5:]
    assert not any(reports[5:])


@pytest.mark.parametrize("is_dead", [False, True], ids=["slow", "silent"])
def test_p9_a_listener_that_answers_late_gives_up_the_lead_and_one_that_never_does_the_process(
    is_dead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is starved would be no better after a restart."""
    limits = {"CHECK_INTERVAL": 0.1, "CHECK_TIMEOUT": 0.1, "LATE_TIMEOUT": 1.0}
    for name, seconds in {**limits, "UNRESPONSIVE_LIMIT": 1.0}.items():
        monkeypatch.setattr(listener, name, seconds)
    reports: list[bool] = []

    async def run() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await reader.readuntil(b"\r\n\r\n")
                if is_dead:
                    await reader.read()
                else:
                    await asyncio.sleep(0.3)
                    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            finally:
                writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        def report(*, is_alive: bool) -> None:
            reports.append(is_alive)

        async with server, asyncio.timeout(8.0):
            await listener.check_listener(Address("127.0.0.1", port), report)

    with pytest.raises(listener.ListenerUnresponsive if is_dead else TimeoutError):
        asyncio.run(run())
    assert reports[:2] == [True, True]
    assert not any(reports[2:])
    assert len(reports) >= 3


def _livez(connection: Connection) -> None:
    while connection.request():
        connection.answer(b"ok")


@contextmanager
def _waiting(port: int, target: str) -> Iterator[None]:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        yield
