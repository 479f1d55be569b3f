"""One client connection of a fault proxy and its twin to the server.

Owns: the two sockets and the chunks on their way. Guarantees: bytes keep their order; a chunk is
delivered, held or dropped by the fault of that moment; what was held flows when the fault ends,
as TCP would have sent it again; the end or the reset of one side reaches the other side as such,
held and dropped like bytes. A link that dropped a response delivers none any more: after a gap
it can only stay silent or be reset.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from tools.harness.controlplane.fault_proxy.fault import Direction, Fault, Mode, Traffic
from tools.harness.controlplane.fault_proxy.tls_records import RequestDetector

CHUNK_BYTES = 65536
# What goes over the wire at a time where it is thin: an Ethernet frame's worth.
SEGMENT_BYTES = 1448
# Chunks read ahead while earlier ones are delayed.
CHUNKS_ON_THE_WAY = 256
# Seconds without a byte in either direction after which a response is taken to be complete.
QUIET = 0.1
# struct linger {on, seconds}: close sends a reset, see socket(7).
LINGER_RESET = struct.pack("ii", 1, 0)
# Its own: hypothesis takes a changed state of the shared one for a test that is not repeatable.
_chance = random.Random()


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Bytes (none: the end of the stream), when they were read, and their share of jitter."""

    data: bytes
    read_at: float
    luck: float
    is_reset: bool = False


class PresentFault:
    """The fault in force and a way to wait for the next one. Used in one event loop only."""

    def __init__(self) -> None:
        self.fault = Fault()
        self.losses_left: int | None = None
        # When the wire is free again, by the loop's clock.
        self._free_at = dict.fromkeys(Direction, 0.0)
        self._changed = asyncio.Event()

    def change(self, fault: Fault) -> None:
        """Puts the fault in force."""
        self.fault = fault
        self.losses_left = fault.losses
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_for_change(self, timeout: float | None) -> None:
        """Returns when the fault changes, at the latest after `timeout` seconds."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), timeout)

    async def send(self, direction: Direction, size: int) -> None:
        """Returns when this many bytes have left over a thin wire, which serves connections in
        turn."""
        bandwidth = self.fault.bandwidth
        if bandwidth is None or not size:
            return
        now = asyncio.get_running_loop().time()
        self._free_at[direction] = max(self._free_at[direction], now) + size / bandwidth
        await asyncio.sleep(self._free_at[direction] - now)


class Link:
    """Serves one accepted connection with `run`, until both sides have ended."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        present: PresentFault,
        traffic: Traffic,
    ) -> None:
        self._client_reader = reader
        self._client_writer = writer
        self._server_writer: asyncio.StreamWriter | None = None
        self._present = present
        self._traffic = traffic
        self._detector = RequestDetector()
        self._is_mute = False
        self._has_lost = False
        self._active_at = 0.0
        self._resetting: asyncio.Task[None] | None = None

    async def run(self, host: str, port: int) -> None:
        """Connects to the server, as soon as the fault lets it, and forwards both ways."""
        while self._present.fault.mode is Mode.BLACK_HOLE:
            await self._present.wait_for_change(None)
        try:
            server_reader, server_writer = await asyncio.open_connection(host, port)
        except OSError:
            self.reset()
            return
        self._server_writer = server_writer
        try:
            async with asyncio.TaskGroup() as tasks:
                request = self._forward(Direction.REQUEST, self._client_reader, server_writer)
                tasks.create_task(request)
                response = self._forward(Direction.RESPONSE, server_reader, self._client_writer)
                tasks.create_task(response)
        finally:
            if self._resetting is not None:
                await self._resetting
            self._client_writer.close()
            server_writer.close()

    def reset(self) -> None:
        """Ends both sides with a TCP reset."""
        _reset(self._client_writer)
        if self._server_writer is not None:
            _reset(self._server_writer)

    def heal(self) -> None:
        """Lets responses through again, or resets the link where one is missing already."""
        self._is_mute = False
        if self._has_lost:
            self.reset()

    def mute(self) -> None:
        """Delivers no responses any more."""
        self._is_mute = True

    async def _forward(
        self, direction: Direction, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Reads ahead, so that a delay does not limit how much is on the way."""
        chunks: asyncio.Queue[_Chunk] = asyncio.Queue(CHUNKS_ON_THE_WAY)
        reading = asyncio.create_task(_read(reader, chunks))
        try:
            while await self._deliver(direction, await chunks.get(), writer):
                pass
        finally:
            reading.cancel()

    async def _deliver(
        self, direction: Direction, chunk: _Chunk, writer: asyncio.StreamWriter
    ) -> bool:
        """Does to the chunk what the fault says; whether another one may follow."""
        await self._hold(direction, chunk)
        self._active_at = asyncio.get_running_loop().time()
        if self._resetting is not None and not chunk.data:
            # The server shall finish its work, whatever became of the client.
            return False
        if direction is Direction.REQUEST:
            self._note_request(chunk)
        elif self._must_lose():
            self._lose(chunk)
            return bool(chunk.data)
        if chunk.is_reset or writer.is_closing():
            self.reset()
            return False
        try:
            if not chunk.data:
                writer.write_eof()
                return False
            for segment in self._segments(chunk.data):
                await self._present.send(direction, len(segment))
                writer.write(segment)
                await writer.drain()
        except OSError:
            self.reset()
            return False
        if direction is Direction.REQUEST:
            self._traffic.request_bytes += len(chunk.data)
        else:
            self._traffic.response_bytes += len(chunk.data)
        return True

    def _segments(self, data: bytes) -> Iterator[bytes]:
        size = len(data) if self._present.fault.bandwidth is None else SEGMENT_BYTES
        for start in range(0, len(data), size):
            yield data[start : start + size]

    def _note_request(self, chunk: _Chunk) -> None:
        self._detector.feed(chunk.data)
        present = self._present
        if self._is_mute or not chunk.data or not self._detector.requested:
            return
        if present.fault.mode is Mode.LOSE_RESPONSE and present.losses_left:
            present.losses_left -= 1
            self._is_mute = True

    def _must_lose(self) -> bool:
        fault = self._present.fault
        if fault.mode is Mode.LOSE_RESPONSE and fault.losses is None and self._detector.requested:
            self._is_mute = True
        return self._is_mute

    def _lose(self, chunk: _Chunk) -> None:
        if chunk.data and not self._has_lost:
            self._traffic.lost_responses += 1
        self._has_lost = True
        if self._present.fault.reset_after_loss and self._resetting is None:
            self._resetting = asyncio.create_task(self._reset_client_when_quiet())

    async def _reset_client_when_quiet(self) -> None:
        """What was lost may have been a session ticket, with the request still to come."""
        clock = asyncio.get_running_loop().time
        while True:
            left = self._active_at + QUIET - clock()
            if left <= 0:
                break
            await asyncio.sleep(left)
        _reset(self._client_writer)

    async def _hold(self, direction: Direction, chunk: _Chunk) -> None:
        """Returns when the present fault lets the chunk go on."""
        clock = asyncio.get_running_loop().time
        while True:
            fault = self._present.fault
            due = chunk.read_at + fault.delay(direction, chunk.luck)
            if fault.mode is Mode.BLACK_HOLE:
                await self._present.wait_for_change(None)
            elif (left := due - clock()) > 0:
                await self._present.wait_for_change(left)
            else:
                return


def _reset(writer: asyncio.StreamWriter) -> None:
    """Ends a connection with a TCP reset."""
    if not writer.is_closing():
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
        writer.transport.abort()


async def _read(reader: asyncio.StreamReader, chunks: asyncio.Queue[_Chunk]) -> None:
    """Puts what arrives into the queue, up to the end or the reset of the stream."""
    clock = asyncio.get_running_loop().time
    data = b"more"
    while data:
        is_reset = False
        try:
            data = await reader.read(CHUNK_BYTES)
        except OSError:
            data, is_reset = b"", True
        await chunks.put(_Chunk(data, clock(), _chance.random(), is_reset))
