"""A relay of a node that leads a pool, as its member and its peers see it, and that lies.

Owns: two HTTP servers, the /status document and the pool listener, in threads. Guarantee: each
request of a peer is counted, also while it is still served.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tools.harness.controlplane.reservation import LOOPBACK

# What is done to each request of a peer, after it was counted.
Lie = Callable[[BaseHTTPRequestHandler], None]


class LyingHub:
    """`streams`: what /status says that it has live, with cursors. `lies`: one for each request, in
    turn."""

    def __init__(self, streams: Mapping[str, str], lies: Sequence[Lie]) -> None:
        self.streams = dict(streams)
        self.asked: list[str] = []
        hub = self

        class Status(_Handler):
            def do_GET(self) -> None:
                _send(self, 200, json.dumps(hub.status()).encode())

        class Pool(_Handler):
            def do_GET(self) -> None:
                lie = lies[len(hub.asked) % len(lies)]
                hub.asked.append(self.path)
                with suppress(OSError):  # The peer left.
                    lie(self)

        self._servers = [ThreadingHTTPServer((LOOPBACK, 0), it) for it in (Status, Pool)]
        self.status_port, self.pool_port = (it.server_address[1] for it in self._servers)
        for server in self._servers:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def status(self) -> dict[str, Any]:
        streams = [
            {"resource": it, "state": "live", "source": "cloud", "cursor": cursor}
            for it, cursor in self.streams.items()
        ]
        return {"link": {"ownIsUp": True}, "pool": {"streams": streams}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: object) -> None:
        """Not to standard error."""


def gone(request: BaseHTTPRequestHandler) -> None:
    """410, as of an API server that was compacted."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired"}
    _send(request, 410, json.dumps({**status, "code": 410}).encode())


def forbidden(request: BaseHTTPRequestHandler) -> None:
    _send(request, 403, b'{"kind":"Status","apiVersion":"v1","code":403,"reason":"Forbidden"}')


def garbled(request: BaseHTTPRequestHandler) -> None:
    _begin(request)
    _chunk(request, b"\x00\xff{{{ no event\n")


def gone_as_an_event(request: BaseHTTPRequestHandler) -> None:
    _begin(request)
    _chunk(
        request,
        b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","code":410,'
        b'"reason":"Expired","message":"too old resource version"}}\n',
    )


def old(request: BaseHTTPRequestHandler) -> None:
    """An object of long ago."""
    _begin(request)
    _chunk(
        request,
        b'{"type":"ADDED","object":{"kind":"Service","apiVersion":"v1","metadata":'
        b'{"name":"forged","namespace":"default","uid":"1","resourceVersion":"1"}}}\n',
    )
    time.sleep(1.0)


def ends_at_once(request: BaseHTTPRequestHandler) -> None:
    _begin(request)


def silent(request: BaseHTTPRequestHandler) -> None:
    """Not even a head, for longer than anybody waits."""
    time.sleep(15.0)


def _begin(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Type", "application/json")
    request.send_header("Connection", "close")
    request.end_headers()
    request.wfile.flush()


def _chunk(request: BaseHTTPRequestHandler, content: bytes) -> None:
    request.wfile.write(content)
    request.wfile.flush()


def _send(request: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
    request.send_response(status)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(body)))
    request.send_header("Connection", "close")
    request.end_headers()
    request.wfile.write(body)
