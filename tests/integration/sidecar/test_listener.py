"""Sockets as all components have them: whose place is kept, how long, and what a burst finds."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from sidecar.values import Address, BadInput
from sidecar.web import aiohttp_web as web
from sidecar.web.listener import Listener, Manners
from tests.controlplane.reservation import LOOPBACK

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
# Seconds in which a loop that has nothing else to do gets to what is to happen.
PATIENCE = 10.0


class Slow:
    """A handler that answers when it is let."""

    def __init__(self) -> None:
        self.arrived = asyncio.Semaphore(0)
        self.release = asyncio.Event()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.arrived.release()
        await self.release.wait()
        return web.Response(text="at last")


@asynccontextmanager
async def opened(
    handler: Slow, *, limit: int, ends_with_client: bool = True, path: str = ""
) -> AsyncIterator[Address]:
    manners = Manners(log="test.http", backlog=16, farewell=0.1, ends_with_client=ends_with_client)
    address = Address("", 0, path) if path else Address(LOOPBACK, 0)
    listener = Listener(address, handler.handle, manners=manners, limit=limit)
    await listener.open()
    try:
        async with asyncio.timeout(PATIENCE):
            yield listener.bound
    finally:
        await listener.close()


async def asked(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(REQUEST)
    return reader, writer


async def is_refused(address: Address) -> bool:
    reader, writer = await asked(address)
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True
    finally:
        writer.close()


def test_a_handler_that_goes_on_for_a_client_that_left_keeps_its_place() -> None:
    async def run() -> None:
        slow = Slow()
        async with opened(slow, limit=1, ends_with_client=False) as address:
            _, writer = await asked(address)
            await slow.arrived.acquire()
            writer.close()
            for _ in range(20):
                assert await is_refused(address)
            slow.release.set()
            while await is_refused(address):
                pass

    asyncio.run(run())


def test_a_handler_that_ends_with_its_client_leaves_its_place() -> None:
    async def run() -> None:
        slow = Slow()
        async with opened(slow, limit=1) as address, AsyncExitStack() as stack:
            _, writer = await asked(address)
            await slow.arrived.acquire()
            writer.close()
            while slow.arrived.locked():
                _, another = await asked(address)
                stack.callback(another.close)
                await asyncio.sleep(0.01)

    asyncio.run(run())


@pytest.mark.parametrize("ends_with_client", [True, False])
def test_a_burst_finds_as_many_places_as_there_are(ends_with_client: bool) -> None:
    async def run() -> None:
        slow = Slow()
        async with (
            opened(slow, limit=4, ends_with_client=ends_with_client) as address,
            AsyncExitStack() as stack,
        ):
            for _ in range(4):
                _, writer = await asked(address)
                stack.callback(writer.close)
                await slow.arrived.acquire()
            told = await asyncio.gather(*(is_refused(address) for _ in range(12)))
            assert all(told)
            assert slow.arrived.locked()

    asyncio.run(run())


def test_a_unix_socket_is_listened_on_and_named_as_it_was_given(tmp_path: Path) -> None:
    async def run() -> None:
        slow = Slow()
        slow.release.set()
        path = str(tmp_path / "s.sock")
        async with opened(slow, limit=1, path=path) as address:
            assert address.path == path
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(REQUEST)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            writer.close()

    asyncio.run(run())


def test_an_address_that_cannot_be_had_is_named_with_the_remedy() -> None:
    async def run() -> None:
        slow = Slow()
        async with opened(slow, limit=1) as address:
            manners = Manners(log="test.http", backlog=1, farewell=0.1)
            with pytest.raises(BadInput, match=f"cannot listen on {address}: .*choose another"):
                await Listener(address, slow.handle, manners=manners, limit=1).open()

    asyncio.run(run())
