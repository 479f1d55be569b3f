"""No loop of the relay asks upstream more than twice a second, whatever upstream answers.

Each pump (streams and what they ask beside their watches, the probe of the link, documents,
schemas) before servers that end, refuse or garble each answer at once.
"""

import itertools
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress

import pytest

from relay_sidecar.core.stream.pace import ALL, FEW
from tools.harness.pods.relay import RelayProcess
from tools.harness.pods.wire.raw_server import Connection, RawServer

PRELOADED = ("configmaps", "widgets.v1.example.com")
# Seconds.
MEASURED = 8.0
# Requests: what failed once is tried again at once.
AT_THE_START = 4

Answer = Callable[[Connection, str], bool]
"""What becomes of a request to a target; False where the connection is to be closed."""


def closes(connection: Connection, target: str) -> bool:
    return False


def resets(connection: Connection, target: str) -> bool:
    connection.reset()
    return False


def garbles(connection: Connection, target: str) -> bool:
    connection.answer(b"\x00garbage")
    return True


def fails(status: str, headers: str = "") -> Answer:
    def answer(connection: Connection, target: str) -> bool:
        connection.answer(b"{}", status=status, headers=headers)
        return True

    return answer


def lists_and(watch: Callable[[int], bytes]) -> Answer:
    """Health, discovery and lists are fine, each list at a higher version; of watches no more comes
    than these lines, for a number that rises."""
    count = itertools.count(1000)

    def answer(connection: Connection, target: str) -> bool:
        version = next(count)
        if "watch=true" in target:
            connection.answer(watch(version))
        elif "/configmaps" in target or "/widgets" in target:
            kind = b"ConfigMap" if "/configmaps" in target else b"Widget"
            connection.answer(
                b'{"kind":"%sList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},'
                b'"items":[]}' % (kind, version)
            )
        else:
            connection.answer(b"{}")
        return True

    return answer


def event(version: int) -> bytes:
    return (
        b'{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":'
        b'{"name":"a","namespace":"n","resourceVersion":"%d"}}}\n' % version
    )


def bookmark(version: int) -> bytes:
    return (
        b'{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":'
        b'{"resourceVersion":"%d"}}}\n' % version
    )


def gone(version: int) -> bytes:
    return b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'


ANSWERS: dict[str, Answer] = {
    "closes": closes,
    "resets": resets,
    "garbles": garbles,
    "401": fails("401 Unauthorized"),
    "404": fails("404 Not Found"),
    "410": fails("410 Gone"),
    "429 at once": fails("429 Too Many Requests", "Retry-After: 0\r\n"),
    "500": fails("500 Internal Server Error"),
    "503": fails("503 Service Unavailable", "Retry-After: 0\r\n"),
    "ends watches": lists_and(lambda version: b""),
    "ends watches after an event": lists_and(event),
    "ends watches after a bookmark": lists_and(bookmark),
    "expires watches": lists_and(gone),
    "expires watches after an event": lists_and(lambda version: event(version) + gone(version)),
    "garbles watches after an event": lists_and(lambda version: event(version) + b"{garbage}\n"),
    "goes back": lists_and(lambda version: bookmark(2000 - version)),
}


def loop_of(request: bytes) -> str:
    """Which loop asks; what a stream asks beside its watch is a loop of its own."""
    target = request.split(b" ", 2)[1].decode()
    for resource in ("/configmaps", "/widgets"):
        if resource in target:
            is_question = any(f"limit={limit}&" in f"{target}&" for limit in (1, FEW, ALL))
            return f"{resource} {'question' if is_question else 'stream'}"
    return "link" if target in ("/livez", "*") else f"document {target}"


def server_of(answer: Answer) -> RawServer:
    def serve(connection: Connection) -> None:
        # The relay breaks off what it does not need any more, at whatever moment.
        with suppress(ConnectionError):
            while request := connection.request():
                if not answer(connection, request.split(b" ", 2)[1].decode()):
                    return

    return RawServer(serve)


@pytest.mark.slow
def test_r4_no_loop_asks_upstream_more_than_twice_a_second() -> None:
    with ExitStack() as stack:
        servers = {name: stack.enter_context(server_of(answer)) for name, answer in ANSWERS.items()}
        relays = []
        began = time.monotonic()
        for number, server in enumerate(servers.values()):
            flags = [f"--server={server.url}", *(f"--preload={each}" for each in PRELOADED)]
            relays.append(RelayProcess(flags, name=f"relay-{number}"))
            stack.callback(relays[-1].stop)
            relays[-1].start(wait=False)
        for relay in relays:
            relay.wait_ready()
        time.sleep(MEASURED)
        asked = {name: Counter(map(loop_of, server.requests)) for name, server in servers.items()}
        at_most = 2 * (time.monotonic() - began) + AT_THE_START
        for name, counted in asked.items():
            assert counted, name
            assert max(counted.values()) <= at_most, (name, counted)
        streams = {name for name, counted in asked.items() if counted["/configmaps stream"] > 1}
        assert {name for name in ANSWERS if "watches" in name} <= streams, "they were asked again"
