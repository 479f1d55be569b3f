"""No answer of a listener names the versions of Python and aiohttp."""

import asyncio

import pytest

from edge_sidecars.runtime.cli.values import Address
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.listener import Listener, ListenerOptions

OPTIONS = ListenerOptions(log="test", backlog=8, shutdown_grace=0.1)


async def _handle(request: web.BaseRequest) -> web.StreamResponse:
    match request.path:
        case "/stream":
            stream = web.StreamResponse()
            await stream.prepare(request)
            await stream.write(b"part")
            return stream
        case "/own":
            return web.Response(headers={"Server": "upstream"})
        case "/fails":
            raise ValueError("a fault")
    return web.Response()


@pytest.mark.parametrize(
    ("request_line", "status", "server"),
    [
        ("GET / HTTP/1.1", 200, None),
        ("HEAD / HTTP/1.0", 200, None),
        ("GET /stream HTTP/1.1", 200, None),
        ("GET /fails HTTP/1.1", 500, None),
        ("no request", 400, None),
        # What an API server says of itself is passed on.
        ("GET /own HTTP/1.1", 200, "Server: upstream"),
    ],
)
def test_no_answer_has_a_server_header_that_its_handler_did_not_set(
    request_line: str, status: int, server: str | None
) -> None:
    async def answer() -> str:
        listener = Listener(Address("127.0.0.1", 0), _handle, options=OPTIONS, limit=8)
        await listener.open()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.bound.port)
            writer.write(f"{request_line}\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
            text = (await asyncio.wait_for(reader.read(), 10)).decode()
            writer.close()
            return text
        finally:
            await listener.close()

    head = asyncio.run(answer()).partition("\r\n\r\n")[0].split("\r\n")
    assert int(head[0].split()[1]) == status
    found = [line for line in head if line.lower().startswith("server:")]
    assert found == ([] if server is None else [server])
