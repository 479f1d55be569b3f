"""How fast /readyz of a leader answers at 100 requests a second, ours and client-go's in turns.

Guarantees: both are asked by the same thread with blocking sockets, a moment apart and in an
order that changes each time, so that whatever disturbs the machine disturbs both; nothing else
runs in this process; no answer but 200 is accepted.
"""

import gc
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

from tools.bench.elector.poller import Poller
from tools.bench.elector.side import Setup, Side, World
from tools.bench.pace import TookTooLong, sleep
from tools.bench.progress import say
from tools.bench.samples import OURS, REFERENCE, Result, Sample

RATE = 100.0
SECONDS = 30.0
TIMEOUT = 5.0
FRESH = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
KEPT = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"
POLL_INTERVAL = 0.1

Ask = Callable[[], None]


def latencies(world: World) -> list[Result]:
    """Two passes: over one connection that is kept, and over a new one for each request."""
    with ExitStack() as stack:
        poller = Poller(interval=POLL_INTERVAL)
        polled = replace(world, poller=poller)
        ours, theirs = Side(polled, Setup(OURS)), Side(polled, Setup(REFERENCE))
        with poller:
            ports = {stack.enter_context(side).kind: side.steady().port for side in (ours, theirs)}
        samples: dict[str, Sample] = {OURS: {}, REFERENCE: {}}
        for mode in ("kept", "fresh"):
            say(f"readyz: {RATE:g} requests/s each for {SECONDS:g} s, connections {mode}")
            for kind, times in _in_turns(ports, mode).items():
                samples[kind] |= {f"{mode}_{key}": each for key, each in _figures(times).items()}
    for kind, sample in samples.items():
        say(f"readyz {kind}: " + " ".join(f"{key}={value:.3g}" for key, value in sample.items()))
    return [
        Result(
            "readyz",
            kind,
            facts={"beside": "readyz: both, asked in turns"},
            samples=[samples[kind]],
        )
        for kind in samples
    ]


def _in_turns(ports: dict[str, int], mode: str) -> dict[str, list[float]]:
    """Seconds from before sending (connecting) to the whole answer, of each request."""
    times: dict[str, list[float]] = {kind: [] for kind in ports}
    with ExitStack() as stack:
        asks: list[tuple[str, Ask]] = [
            (kind, _fresh(port) if mode == "fresh" else _kept(stack, port))
            for kind, port in ports.items()
        ]
        gc.collect()
        gc.disable()
        stack.callback(gc.enable)
        start = time.monotonic()
        for turn in range(int(RATE * SECONDS)):
            sleep(start + turn / RATE - time.monotonic())
            for kind, ask in asks:
                before = time.perf_counter()
                ask()
                times[kind].append(time.perf_counter() - before)
            asks.reverse()
    return times


def _fresh(port: int) -> Ask:
    def ask() -> None:
        with socket.create_connection(("127.0.0.1", port), TIMEOUT) as connection:
            connection.send(FRESH)
            _read(connection)

    return ask


def _kept(stack: ExitStack, port: int) -> Ask:
    connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), TIMEOUT))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask() -> None:
        connection.send(KEPT)
        _read(connection)

    return ask


def _read(connection: socket.socket) -> None:
    answer = b""
    while not _is_whole(answer):
        chunk = connection.recv(4096)
        if not chunk:
            raise TookTooLong(f"the answer was cut short: {answer!r}")
        answer += chunk
    if answer[9:12] != b"200":
        raise TookTooLong(f"the leader did not answer 200: {answer!r}")


def _is_whole(answer: bytes) -> bool:
    head, separator, body = answer.partition(b"\r\n\r\n")
    if not separator:
        return False
    length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
    return len(body) >= int(length)


def _figures(times: list[float]) -> Sample:
    """Milliseconds."""
    ordered = sorted(times)
    return {
        "p50": ordered[len(ordered) // 2] * 1000,
        "p99": ordered[int(len(ordered) * 0.99)] * 1000,
        "max": ordered[-1] * 1000,
        "requests": float(len(ordered)),
    }
