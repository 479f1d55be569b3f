"""Bytes between two connections, and what ends them.

Guarantees: a tunnel is reset when either side left bytes unacknowledged for `USER_TIMEOUT` seconds,
or `reset` was called: nothing that waits in it is sent on, and nothing is stored. A sender that is
held back is not taken for one that vanished, and little of what it sent waits here. One whose end
closed in order passes on what that end had sent. TLS cannot be half closed: both ends go.
Where its owner's loop stood still, `Tunnels.reset_all` is called before a byte is read.
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from edge_sidecars.kubeapi.aiohttp_private import abort

# Seconds (pool.md 3).
USER_TIMEOUT: Final = 5
# Seconds that the own loop did not run, after which what is in a tunnel is too old (pool.md 3).
STANDSTILL: Final = 5.0
PIECE: Final = 16 * 1024
# Seconds of silence before the kernel asks whether the peer is there, between two questions, and
# how many: a stream of events may be silent for minutes.
KEEPALIVE: Final = (10, 5, 3)
# Bytes that the kernel takes from a sender that is held back. It would take megabytes, and then let
# nothing in until a sixteenth of them is read: by then the sender's USER_TIMEOUT is over. A LAN and
# loopback are as fast with these.
RECEIVE: Final = 64 * 1024

# How long these many bytes more have to wait, in seconds.
Spend = Callable[[int], float]


class Stream:
    """One end: what asyncio gives for a connection. Raises OSError where that is lost already."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        # A transport that was lost does not name it any more.
        self._sock = writer.get_extra_info("socket")
        if self._sock is None:
            raise ConnectionResetError("the connection is lost")
        idle, interval, count = KEEPALIVE
        for option in (
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle),
            (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval),
            (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, count),
            (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT * 1000),
            (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        ):
            self._sock.setsockopt(*option)

    def hold_little(self) -> None:
        """Of an end whose bytes may have to wait."""
        with suppress(OSError):  # It is gone already.
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE)

    def reset(self) -> None:
        """What the kernel has yet to send is thrown away as well."""
        with suppress(OSError):  # It is gone already.
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        abort(self.writer.transport)


class Tunnel:
    """`name`: of the member at the other end. `piece`: bytes that wait for `spend` at once."""

    def __init__(
        self,
        name: str,
        near: Stream,
        far: Stream,
        spend: Spend | None = None,
        *,
        piece: int = PIECE,
    ) -> None:
        self.name = name
        near.hold_little()
        self._ends = near, far
        self._spend = spend
        self._piece = min(piece, PIECE)
        self._is_reset = False
        self.passed = 0

    def reset(self) -> None:
        self._is_reset = True
        for end in self._ends:
            end.reset()

    async def run(self) -> None:
        """Until either side ends it, or `reset`."""
        near, far = self._ends
        pumps = [asyncio.ensure_future(self._pump(*ends)) for ends in ((near, far), (far, near))]
        try:
            done, _ = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.wait(pumps)
            if any(it.exception() for it in done):
                self.reset()
            await self._close()
        except asyncio.CancelledError:
            for pump in pumps:
                pump.cancel()
            self.reset()
            raise

    async def _close(self) -> None:
        try:
            async with asyncio.timeout(USER_TIMEOUT):
                for end in self._ends:
                    end.writer.close()
                    with suppress(OSError):
                        await end.writer.wait_closed()
        except TimeoutError:
            self.reset()

    async def _pump(self, source: Stream, target: Stream) -> None:
        """Raises OSError where either end broke."""
        while piece := await source.reader.read(self._piece):
            delay = 0.0 if self._spend is None else self._spend(len(piece))
            if delay > 0:
                await asyncio.sleep(delay)
            if self._is_reset:
                return
            target.writer.write(piece)
            self.passed += len(piece)
            await target.writer.drain()


class Tunnels:
    """All of one kind."""

    def __init__(self) -> None:
        # In the order in which they began.
        self._open: dict[Tunnel, None] = {}
        self._passed = 0

    @property
    def passed(self) -> int:
        """Bytes, of those that ended too."""
        return self._passed + sum(it.passed for it in self._open)

    @property
    def names(self) -> set[str]:
        return {it.name for it in self._open}

    async def run(self, tunnel: Tunnel) -> None:
        self._open[tunnel] = None
        try:
            await tunnel.run()
        finally:
            del self._open[tunnel]
            self._passed += tunnel.passed

    def reset_all(self, *, unless: Callable[[str], bool] = lambda name: False) -> None:
        """But for those whose name is one of them."""
        for tunnel in tuple(self._open):
            if not unless(tunnel.name):
                tunnel.reset()

    def reset_newest(self, name: str) -> bool:
        """Of those of that name; whether there is one."""
        found = next((it for it in reversed(self._open) if it.name == name), None)
        if found is not None:
            found.reset()
        return found is not None
