"""A client that does not read is cut off; one that reads slowly is not."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from edge_sidecars.runtime.cli.values import Address
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.listener import Listener, ListenerOptions
from tools.harness.controlplane.reservation import LOOPBACK

GET = b"GET /%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
MIB = 1024 * 1024
BODY = bytes(32 * MIB)
# Seconds.
WRITE_TIMEOUT = 1.0
SOON = 60.0


async def handle(request: web.BaseRequest) -> web.StreamResponse:
    if request.path == "/whole":
        return web.Response(body=BODY)
    response = web.StreamResponse(headers={"Content-Length": str(len(BODY))})
    await response.prepare(request)
    for at in range(0, len(BODY), MIB):
        await response.write(BODY[at : at + MIB])
    return response


def served(loop: Callable[[], asyncio.AbstractEventLoop], work: "Work") -> None:
    async def main() -> None:
        options = ListenerOptions(
            log="test.http", backlog=16, shutdown_grace=0.1, write_timeout=WRITE_TIMEOUT
        )
        listener = Listener(Address(LOOPBACK, 0), handle, options=options, limit=64)
        await listener.open()
        try:
            async with asyncio.timeout(SOON):
                await work(listener)
        finally:
            await listener.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


Work = Callable[[Listener], Awaitable[None]]
LOOPS = pytest.mark.parametrize(
    "loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
PATHS = pytest.mark.parametrize("path", [b"whole", b"parts"])


def dialled(listener: Listener) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect((listener.bound.host, listener.bound.port))
    sock.setblocking(False)
    return sock


@LOOPS
@PATHS
def test_who_reads_nothing_leaves_its_place(
    loop: Callable[[], asyncio.AbstractEventLoop], path: bytes
) -> None:
    async def work(listener: Listener) -> None:
        socks = [dialled(listener) for _ in range(4)]
        for sock in socks:
            await asyncio.get_running_loop().sock_sendall(sock, GET % path)
        while True:
            await asyncio.sleep(0.01)
            if listener.intake.unread == len(socks) and not listener.taken:
                break
        for sock in socks:
            sock.close()

    served(loop, work)


@LOOPS
@PATHS
def test_who_reads_slowly_gets_all(
    loop: Callable[[], asyncio.AbstractEventLoop], path: bytes
) -> None:
    async def work(listener: Listener) -> None:
        sock, running = dialled(listener), asyncio.get_running_loop()
        await running.sock_sendall(sock, GET % path)
        found, since, pauses = 0, running.time(), 0
        while piece := await running.sock_recv(sock, 4 * MIB):
            found += len(piece)
            # For three times as long as it might read nothing, with less than that in between.
            if running.time() - since < 3 * WRITE_TIMEOUT and found > pauses * MIB:
                pauses += 1
                await asyncio.sleep(WRITE_TIMEOUT / 4)
        sock.close()
        assert found > len(BODY)
        assert not listener.intake.unread

    served(loop, work)
