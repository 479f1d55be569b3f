"""Sockets as all components have them: whose place is kept, how long, and what a burst finds."""

import asyncio
import os
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest

from edge_sidecars.runtime.cli.values import Address, BadInput
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web import listener
from edge_sidecars.runtime.web.listener import Listener, ListenerOptions
from tools.harness.controlplane.reservation import LOOPBACK

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
# Seconds in which a loop that has nothing else to do gets to what is to happen.
PATIENCE = 10.0
# Of nobody on this machine.
GROUP = 54321


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
    handler: Slow,
    *,
    limit: int,
    ends_with_client: bool = True,
    path: str = "",
    host: str = LOOPBACK,
    socket_mode: int = 0o660,
) -> AsyncIterator[Address]:
    options = ListenerOptions(
        log="test.http", backlog=16, shutdown_grace=0.1, ends_with_client=ends_with_client
    )
    address = Address("", 0, path) if path else Address(host, 0)
    it = Listener(address, handler.handle, options=options, limit=limit, socket_mode=socket_mode)
    await it.open()
    try:
        async with asyncio.timeout(PATIENCE):
            yield it.bound
    finally:
        await it.close()


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


@pytest.mark.parametrize("mode", [0o660, 0o600, 0o666])
def test_a_unix_socket_has_the_mode_that_was_asked_for_and_its_folders_group(
    tmp_path: Path, mode: int
) -> None:
    """As in an emptyDir of a pod with fsGroup, whose folder is setgid."""
    tmp_path.chmod(0o2777)
    if os.geteuid() == 0:
        os.chown(tmp_path, -1, GROUP)
        tmp_path.chmod(0o2777)

    path = tmp_path / "s.sock"

    def looked_at() -> list[bool]:
        found = path.stat()
        assert (found.st_mode & 0o777, found.st_gid) == (mode, tmp_path.stat().st_gid)
        if os.geteuid() != 0:
            pytest.skip("only root can be somebody else")
        for folder in (tmp_path, *tmp_path.parents):
            folder.chmod(folder.stat().st_mode | 0o011)
        # The main, of another uid and the pod's group; a stranger to both.
        return [may_connect(path, group) for group in (GROUP, GROUP + 1)]

    async def run() -> list[bool]:
        slow = Slow()
        slow.release.set()
        async with opened(slow, limit=4, path=str(path), socket_mode=mode):
            return await asyncio.to_thread(looked_at)

    assert asyncio.run(run()) == [mode != 0o600, mode == 0o666]


def may_connect(path: Path, group: int) -> bool:
    """A process of another user."""
    dial = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    command = ["/usr/bin/env", "python3", "-c", dial, str(path)]
    done = subprocess.run(
        command, user=1234, group=4321, extra_groups=[group], capture_output=True, check=False
    )
    assert done.returncode == 0 or b"PermissionError" in done.stderr, done.stderr
    return done.returncode == 0


@pytest.mark.parametrize(
    ("host", "reached"),
    [
        ("", ["127.0.0.1", "::1"]),
        ("localhost", ["127.0.0.1", "::1"]),
        ("127.0.0.1", ["127.0.0.1"]),
        ("::1", ["::1"]),
        ("0.0.0.0", ["127.0.0.1"]),
        ("::", ["::1"]),
    ],
)
def test_an_address_is_of_the_families_that_it_names(host: str, reached: list[str]) -> None:
    """Kubelet asks a pod of an IPv6-only cluster by IPv6."""
    if not is_there("::1"):
        pytest.skip("this machine has no IPv6")

    async def run() -> list[str]:
        slow = Slow()
        slow.release.set()
        async with opened(slow, limit=4, host=host) as address:
            assert address.host == host
            found = []
            for each in ("127.0.0.1", "::1"):
                with suppress(ConnectionRefusedError):
                    reader, writer = await asked(Address(each, address.port))
                    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
                    writer.close()
                    found.append(each)
            return found

    assert asyncio.run(run()) == reached


@pytest.mark.parametrize("there", ["127.0.0.1", "::1"])
def test_a_family_that_the_machine_does_not_have_is_left_out(
    there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_there(there):
        pytest.skip(f"this machine does not have {there}")
    pair = {"127.0.0.1": (there, "2001:db8::1"), "::1": ("192.0.2.1", there)}
    monkeypatch.setattr(listener, "_BOTH", {"localhost": pair[there]})

    async def run() -> None:
        slow = Slow()
        slow.release.set()
        async with opened(slow, limit=4, host="localhost") as address:
            assert address.host == there
            reader, writer = await asked(address)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            writer.close()

    asyncio.run(run())


def is_there(host: str) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, 0), family=family):
            return True
    except OSError:
        return False


def test_an_address_that_cannot_be_had_is_named_with_the_remedy() -> None:
    async def run() -> None:
        slow = Slow()
        async with opened(slow, limit=1) as address:
            options = ListenerOptions(log="test.http", backlog=1, shutdown_grace=0.1)
            with pytest.raises(BadInput, match=f"cannot listen on {address}: .*choose another"):
                await Listener(address, slow.handle, options=options, limit=1).open()

    asyncio.run(run())
