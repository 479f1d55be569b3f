"""What this node asks of its peers: their state every 2 s, and tunnels.

Guarantees: a peer is believed by its pinned certificate alone; what it sends is bounded in bytes
and seconds. A failure tells whether the peer's host lives: a kept connection that stays silent does
not say so, a new one that was accepted or refused does.
"""

import asyncio
import errno
import re
import socket
from http import HTTPStatus
from typing import Final

from edge_sidecars.kubeapi.aiohttp_private import abort
from pool_sidecar.core.lan_state import MAX_STATE, LanState
from pool_sidecar.core.members import Peer
from pool_sidecar.core.peers import ROUND_DEADLINE, Sign
from pool_sidecar.lan.certificate import Certificate
from pool_sidecar.lan.http_head import MAX_HEAD, TICKET, BadHead, Head, read_head
from pool_sidecar.lan.tls import client_context
from pool_sidecar.lan.tunnel import Stream

# What says nothing about the peer: connect(2).
_NO_SIGN: Final = {
    errno.ETIMEDOUT,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
    errno.EHOSTDOWN,
    errno.ENETDOWN,
    errno.EADDRNOTAVAIL,
}
_TICKET: Final = re.compile(r"[a-z0-9]{1,63}", re.ASCII)
# Seconds until a lender has answered: it dials for 5.
CONNECT_DEADLINE: Final = 6.0


class NoAnswer(Exception):
    """`sign`: what is known of the peer's host all the same."""

    def __init__(self, sign: Sign, why: str) -> None:
        super().__init__(why)
        self.sign = sign


class Refused(Exception):
    """A lender's status other than 200. `is_full`: the limit of its connections is reached."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.is_full = status == str(HTTPStatus.TOO_MANY_REQUESTS.value)


class _Attempt:
    """`sign`: what a deadline that passes now says of the peer's host."""

    def __init__(self) -> None:
        self.sign = Sign.NONE


class PeerClient:
    """One peer's kept connection, on the address that answered last. A tunnel that fails leaves it
    alone: what the peer's state says, the rounds find out."""

    def __init__(self, peer: Peer, port: int, own: Certificate) -> None:
        self.peer = peer
        self._port = port
        self._own = own
        self._turn = 0
        self._kept: Stream | None = None
        # By what the peer knows this node again, which it said last.
        self._ticket = ""

    def close(self) -> None:
        if self._kept is not None:
            self._kept.reset()
            self._kept = None

    async def state(self) -> LanState:
        """Raises `NoAnswer` within `ROUND_DEADLINE` seconds."""
        attempt = _Attempt()
        try:
            async with asyncio.timeout(ROUND_DEADLINE):
                found = await self._state(attempt)
        except TimeoutError as error:
            self._next()
            raise NoAnswer(attempt.sign, f"no answer within {ROUND_DEADLINE:g}s") from error
        except (OSError, BadHead, asyncio.IncompleteReadError, ValueError) as error:
            self._next()
            raise NoAnswer(Sign.HOST_LIVES, str(error)) from error
        except NoAnswer:
            self._next()
            raise
        except asyncio.CancelledError:
            self.close()
            raise
        return found

    async def tunnel(self, target: str = "cloud:443") -> Stream:
        """A connection over this peer, to the API server or its relay. Raises `NoAnswer`,
        `Refused`."""
        attempt = _Attempt()
        try:
            async with asyncio.timeout(CONNECT_DEADLINE):
                stream = await self._open(attempt)
                try:
                    stream.writer.write(_request("CONNECT", target))
                    head = await _answer(stream)
                    if head.first[1] != str(HTTPStatus.OK.value):
                        raise Refused(head.first[1])
                except BaseException:
                    stream.reset()
                    raise
        except TimeoutError as error:
            self._turn += 1
            raise NoAnswer(attempt.sign, f"no answer within {CONNECT_DEADLINE:g}s") from error
        except (OSError, BadHead) as error:
            self._turn += 1
            raise NoAnswer(Sign.HOST_LIVES, str(error)) from error
        except NoAnswer:
            self._turn += 1
            raise
        return stream

    async def _state(self, attempt: _Attempt) -> LanState:
        if self._kept is None:
            self._kept = await self._open(attempt)
        self._kept.writer.write(_request("GET", "/state"))
        head = await _answer(self._kept)
        size = head.headers.get("content-length", "")
        ticket = head.headers.get(TICKET.lower(), "")
        # As a name in the handshake: the peer may send anything.
        self._ticket = ticket if _TICKET.fullmatch(ticket) else ""
        if head.first[1] != str(HTTPStatus.OK.value):
            raise ValueError(f"the peer answered {head.first[1]}")
        if not (size.isascii() and size.isdecimal() and len(size) < 6 and int(size) <= MAX_STATE):
            raise ValueError(f"a state of {size!r:.20} bytes: at most {MAX_STATE}")
        return LanState.decode(await self._kept.reader.readexactly(int(size)))

    async def _open(self, attempt: _Attempt) -> Stream:
        """Raises `NoAnswer`, OSError."""
        addresses = self.peer.addresses
        if not addresses or not self.peer.certificates:
            raise NoAnswer(Sign.NONE, "it has published no address or certificate")
        address = addresses[self._turn % len(addresses)]
        loop = asyncio.get_running_loop()
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            try:
                await loop.sock_connect(sock, (address, self._port))
            except OSError as error:
                sign = Sign.NONE if error.errno in _NO_SIGN else Sign.HOST_LIVES
                raise NoAnswer(sign, str(error)) from error
            attempt.sign = Sign.HOST_LIVES
            return await self._secured(sock)
        except BaseException:
            sock.close()
            raise

    async def _secured(self, sock: socket.socket) -> Stream:
        """Where it raises, no transport has the socket any more."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=MAX_HEAD)
        protocol = _Protocol(reader)
        try:
            transport, _ = await loop.create_connection(
                lambda: protocol,
                sock=sock,
                ssl=client_context(self._own.certificate, self._own.key, self.peer.certificates),
                server_hostname=self._ticket,
            )
            return Stream(reader, asyncio.StreamWriter(transport, protocol, reader, loop))
        except BaseException:
            if protocol.transport is not None:
                abort(protocol.transport)
            raise

    def _next(self) -> None:
        """After a failure: another connection, to the next address."""
        self.close()
        self._turn += 1


class _Protocol(asyncio.StreamReaderProtocol):
    """Knows its transport. Who is cancelled just when the handshake completes never gets to know
    it, and asyncio closes it in order: for seconds it would go on to watch a descriptor that by
    then is another connection's."""

    transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        super().connection_made(transport)


def _request(method: str, target: str) -> bytes:
    return f"{method} {target} HTTP/1.1\r\nHost: pool-member\r\n\r\n".encode()


async def _answer(stream: Stream) -> Head:
    """Raises OSError, `BadHead`."""
    head = await read_head(stream.reader)
    if head is None:
        raise ConnectionResetError("the peer closed the connection")
    return head
