"""What a web page may have sent, or is not UTF-8, reaches no handler of a component."""

from __future__ import annotations

import asyncio
import socket

import pytest

import elector_sidecar.web.listener
import gm.hub.sedna_server
import gm.web.own_endpoints
import pool_sidecar.web.controller_endpoints
import pool_sidecar.web.member_endpoints
import relay_sidecar.web.listener
from edge_sidecars.runtime.cli.values import Address
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.listener import Listener, ListenerOptions

# The relay's API and LC's handlers have rules of their own (access.own, LoopbackOnly).
COMPONENTS: dict[str, ListenerOptions] = {
    "elector": elector_sidecar.web.listener._OPTIONS,
    "gm": gm.web.own_endpoints._OPTIONS,
    "gm, websocket": gm.hub.sedna_server.OPTIONS,
    "pool": pool_sidecar.web.member_endpoints._OPTIONS,
    "relay, own": relay_sidecar.web.listener.OWN,
    "pool controller": pool_sidecar.web.controller_endpoints._OPTIONS,
}
OWN = "Host: 127.0.0.1"
JSON = "Content-Type: application/json"
ALL = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
WRITES = ALL[3:]
CASES = [
    (ALL, "/any", [OWN], "", 200),
    (ALL, "/any", ["Host: localhost:4040"], "", 200),
    (ALL, "/any", [f"Host: {socket.gethostname()}"], "", 200),
    (WRITES, "/any", [OWN, JSON], "{}", 200),
    (WRITES, "/any", [OWN, "Sec-Fetch-Site: none"], "", 200),
    (ALL, "/any", ["Host: evil.example"], "", 403),
    (ALL, "http://evil.example/any", [OWN], "", 403),
    (ALL, "http://127.0.0.1@evil.example:80/any", [OWN], "", 403),
    (ALL, "http://127.0.0.1/any", [OWN], "", 200),
    (ALL[:2], "/livez", ["Host: gm.sedna.svc:8443"], "", 200),
    (ALL[:2], "/any", ["Host: elector"], "", 200),
    (ALL[:2], "/any", ["Host: 10.0.0.5:9001"], "", 200),
    (WRITES, "/any", ["Host: 10.0.0.5:9001"], "", 403),
    (WRITES, "/livez", ["Host: evil.example"], "", 403),
    (WRITES, "/any", [OWN, "Origin: http://evil.example"], "", 403),
    (WRITES, "/any", [OWN, "Origin: null"], "", 403),
    (WRITES, "/any", [OWN, "Sec-Fetch-Site: cross-site"], "", 403),
    (WRITES, "/any", [OWN, "Content-Type: text/plain"], "{}", 415),
    (WRITES, "/any", [OWN], "{}", 415),
    (ALL, "/any", [OWN, "Authorization: Bearer \udcff"], "", 400),
    (ALL, "/any", [OWN, "Cookie: a=\udcff"], "", 400),
    (ALL, "/any", [OWN, "X-Any: \udcff"], "", 400),
    (ALL, "/any/%C3%A4?a=%c3%a4&b=%", [OWN], "", 200),
    (ALL, "/any/%ff", [OWN], "", 400),
    (ALL, "/any/\udcff", [OWN], "", 400),
    (ALL, "/any?uid=%C3", [OWN], "", 400),
    (ALL, "/any?%ff=a", [OWN], "", 400),
    (ALL, "/any?uid=\udcff", [OWN], "", 400),
    (ALL, "/any/\u00e4/%C3", [OWN], "", 400),
]


async def _status(port: int, method: str, path: str, headers: list[str], body: str) -> int:
    length = [f"Content-Length: {len(body)}"] if body else []
    head = "\r\n".join([f"{method} {path} HTTP/1.1", *headers, *length, "Connection: close"])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{head}\r\n\r\n{body}".encode(errors="surrogateescape"))
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return int(answer.split()[1])


@pytest.mark.parametrize("component", COMPONENTS)
def test_no_handler_sees_what_a_web_page_may_have_sent(component: str) -> None:
    seen = 0

    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        nonlocal seen
        seen += 1
        return web.Response()

    async def scene() -> None:
        nonlocal seen
        listener = Listener(
            Address("127.0.0.1", 0), handler, options=COMPONENTS[component], limit=8
        )
        await listener.open()
        try:
            for methods, path, headers, body, expected in CASES:
                for method in methods:
                    seen = 0
                    found = await _status(listener.bound.port, method, path, headers, body)
                    assert (found, seen) == (expected, expected == 200), (method, path, headers)
        finally:
            await listener.close()

    asyncio.run(scene())
