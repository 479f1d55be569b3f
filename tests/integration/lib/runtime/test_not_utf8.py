"""What is not UTF-8 is its sender's fault at each HTTP listener: a 4xx, and no traceback.

Each component as a process beside no API server. What the relay passes on is upstream's to judge
(tests/integration/relay/passed_on); a handler that takes no body reads none.
"""

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from tests.strangers.targets import (
    ELECTOR,
    GM,
    LC,
    POOL_CONTROLLER,
    RELAY,
    RELAY_OF_POOL,
    Running,
    Target,
    listening,
    running,
)
from tools.harness.controlplane.reservation import LOOPBACK

PATIENCE = 10.0
_CALLERS = replace(RELAY, flags=(*RELAY.flags, "--access=caller"))
_SHARDED = replace(ELECTOR, flags=(*ELECTOR.flags, "--shards=8"))
_CONTRIB = replace(
    ELECTOR, flags=(*ELECTOR.flags, "--http=127.0.0.1:{http}"), ports=(*ELECTOR.ports, "http")
)
_BEYOND = replace(
    LC,
    flags=(*LC.flags, "--node-listen=127.0.0.1:{node}", "--token-file={folder}/token"),
    ports=(*LC.ports, "node"),
)
_MEMBER = Target(
    "pool_sidecar",
    (
        "--node=n",
        "--lan-address=127.0.0.1",
        "--lan-port={lan}",
        "--listen=127.0.0.1:{own}",
        "--proxy-listen=127.0.0.1:{proxy}",
        "--data-dir={folder}/pool",
        "--node-kubeconfig={folder}/https",
        "--token-file={folder}/token",
    ),
    ("lan", "own", "proxy"),
    "own",
    "own",
    "own",
)


@dataclass(frozen=True)
class Judged:
    """`raw`, `percent`: statuses for bytes as they are, and in percent; `body`: for bodies."""

    target: Target
    raw: frozenset[int] = frozenset({400})
    percent: frozenset[int] = frozenset({400})
    body: frozenset[int] = frozenset({200, 400, 404, 405, 409, 503})


_UNKNOWN = frozenset({400, 401})
# Upstream is away; 410: a list cannot be continued without it.
_PASSED_ON = frozenset({400, 410, 503})
LISTENERS: dict[str, Judged] = {
    "elector": Judged(listening(ELECTOR, "api")),
    "elector, probes": Judged(ELECTOR),
    "elector, shards": Judged(listening(_SHARDED, "api")),
    "elector, contrib": Judged(listening(_CONTRIB, "http")),
    "relay, own": Judged(RELAY),
    "relay, API": Judged(listening(RELAY, "api"), percent=_PASSED_ON, body=_PASSED_ON),
    "relay, callers": Judged(
        listening(_CALLERS, "api"), raw=_UNKNOWN, percent=_UNKNOWN, body=_UNKNOWN
    ),
    "relay, peers": Judged(
        listening(RELAY_OF_POOL, "pool"), raw=_UNKNOWN, percent=_UNKNOWN, body=_UNKNOWN
    ),
    "relay, endpoint view": Judged(
        listening(RELAY_OF_POOL, "view"),
        percent=frozenset({200, 400, 410, 503}),
        body=frozenset({405, 503}),
    ),
    "pool": Judged(_MEMBER, body=frozenset({200, 404, 405, 503})),
    # Its heads are read as Latin-1, and answered to those with the token only.
    "pool, proxy": Judged(
        listening(_MEMBER, "proxy"),
        raw=frozenset({401, 407}),
        percent=frozenset({401, 407}),
        body=frozenset({401, 407}),
    ),
    "pool controller": Judged(POOL_CONTROLLER),
    "gm": Judged(GM),
    "gm, websocket": Judged(listening(GM, "sedna"), body=frozenset({405})),
    "lc": Judged(LC, body=frozenset({400, 404, 405})),
    "lc, node": Judged(
        listening(_BEYOND, "node"), raw=_UNKNOWN, percent=_UNKNOWN, body=frozenset({401})
    ),
}
PATHS = (
    *("/", "/livez", "/readyz", "/metrics", "/status", "/leader", "/shards", "/drain", "/resign"),
    *("/sources", "/sedna/objects", "/sedna/workers/", "/w/", "/shards/", "/relay/"),
    *("/api/v1/configmaps", "/api/v1/namespaces/", "/openapi/v3/"),
    "/apis/discovery.k8s.io/v1/endpointslices",
)
PARAMETERS = (
    *("watch", "uid", "shard", "token", "wait", "min_remaining", "leader", "upstream", "promise"),
    *("labelSelector", "fieldSelector", "resourceVersion", "continue", "limit"),
)
HEADERS = (
    *("X-Any: \udcff", "X-\udcff: a", "Accept: \udcff", "Authorization: Bearer \udcff"),
    *("Cookie: a=\udcff", "Node-Name: \udcff", "Impersonate-User: \udcff", "Upgrade: \udcff"),
)
WRITTEN = (
    *("/resign", "/drain", "/shards/1/released?token=1", "/sedna/workers/a/info"),
    *("/w/abc/sedna/workers/a/info", "/api/v1/namespaces/default/configmaps"),
    "/api/v1/namespaces/default/serviceaccounts/default/token",
)
BODIES = ('{"name": "a\udcff"}', '{"kind": "ConfigMap", "metadata": {"name": "a"}, "a": "\udcff"}')

Request = tuple[str, str, str, str]


def raw() -> Iterator[Request]:
    for path in PATHS:
        yield "GET", f"{path}\udcff", "", ""
        yield "GET", f"{path}?watch=\udcff", "", ""
        yield "POST", f"{path}\udcff/info", "", ""
        for header in HEADERS:
            yield "GET", path, header, ""


def in_percent() -> Iterator[Request]:
    for path in PATHS:
        yield "GET", f"{path}%FF", "", ""
        yield "POST", f"{path}%C3/info", "", ""
        yield "GET", f"{path}?%FF=1", "", ""
    for path in ("/livez", "/readyz", "/leader", "/owns", "/shards", "/api/v1/configmaps"):
        for name in PARAMETERS:
            yield "GET", f"{path}?{name}=a%FF", "", ""


def in_bodies() -> Iterator[Request]:
    for method in ("POST", "PUT", "PATCH"):
        for path in WRITTEN:
            for body in BODIES:
                yield method, path, "Content-Type: application/json", body


def status(port: int, request: Request) -> int:
    method, target, header, body = request
    content = body.encode(errors="surrogateescape")
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", "Connection: close"]
    lines += [header] if header else []
    lines += [f"Content-Length: {len(content)}"] if content else []
    head = "\r\n".join([*lines, "", ""]).encode(errors="surrogateescape")
    with socket.create_connection((LOOPBACK, port), timeout=PATIENCE) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.sendall(head + content)
        answer = b""
        while b"\r\n" not in answer:
            piece = sock.recv(4096)
            assert piece, (request, answer)
            answer += piece
    return int(answer.split()[1])


def judge(it: Running, requests: Iterator[Request], expected: frozenset[int]) -> None:
    asked = [(request, status(it.flooded, request)) for request in requests]
    assert len(asked) > 40
    assert [each for each in asked if each[1] not in expected] == []


@pytest.mark.parametrize("listener", LISTENERS)
def test_what_is_not_utf8_is_refused_at_every_listener(listener: str) -> None:
    judged = LISTENERS[listener]
    with running(judged.target) as it:
        judge(it, raw(), judged.raw)
        judge(it, in_percent(), judged.percent)
        judge(it, in_bodies(), judged.body)
        assert it.is_live()
        assert "Traceback" not in it.log.read_text(encoding="utf-8", errors="replace")
