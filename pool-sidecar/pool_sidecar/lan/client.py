"""What this node asks of its peers: their state every 2 s, and tunnels.

Guarantees: a peer is believed by its pinned certificate alone; what it sends is bounded in bytes
and seconds. A failure tells whether the peer's host lives. A connection on which nothing is
answered is kept while the peer's kernel acknowledges what was sent and asked (`WATCH`), and is not
dialled anew. A process that is frozen for minutes does not fill its backlog, and is not taken for a
dead host. Where TCP has no sign, `host_signs` looks for others. An answer that is older than its
round is none.
"""

import asyncio
import errno
import re
import socket
import struct
from contextlib import suppress
from http import HTTPStatus
from typing import Final

from edge_sidecars.kubeapi.aiohttp_private import abort
from edge_sidecars.runtime.clock import boottime
from pool_sidecar.core.lan_state import MAX_STATE, LanState
from pool_sidecar.core.members import Peer
from pool_sidecar.core.peers import ROUND_DEADLINE, Sign
from pool_sidecar.lan.certificate import Certificate
from pool_sidecar.lan.host_signs import HostSigns
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
# Of a state's connection: seconds of silence before the kernel asks whether the peer's is there,
# between two questions, and how many. Rounds are 2 apart: all well, it never asks.
WATCH: Final = (3, 2, 7)
# Seconds for which an acknowledgement is a sign, and for which one is waited for (pool.md 14.2).
ACKNOWLEDGED_FOR: Final = 15
# Seconds; a handshake that a frozen process has yet to answer is not given up.
PATIENT: Final = 24 * 3600.0
# linux/tcp.h: struct tcp_info; the state, and where tcpi_unacked and tcpi_last_ack_recv are.
_ESTABLISHED: Final = 1
_UNACKED_AT, _LAST_ACK_AT, _TCP_INFO_SIZE = 24, 56, 60
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
    """`sock`: of the connection, once it was accepted."""

    def __init__(self) -> None:
        self.sock: socket.socket | None = None

    @property
    def sign(self) -> Sign:
        """What a deadline that passes now says of the peer's host."""
        return Sign.NONE if self.sock is None else Sign.HOST_LIVES


class PeerClient:
    """One peer's kept connection, on the address that answered last. A tunnel that fails leaves it
    alone: what the peer's state says, the rounds find out."""

    def __init__(self, peer: Peer, port: int, own: Certificate) -> None:
        self.peer = peer
        self._port = port
        self._own = own
        self._turn = 0
        self._kept: Stream | None = None
        # What was asked and is not answered; for how many rounds; whether on a connection that had
        # answered before; and that connection.
        self._asking: asyncio.Task[LanState] | None = None
        self._waited = 0
        self._was_kept = False
        self._attempt = _Attempt()
        # By what the peer knows this node again: its last state.
        self._ticket = ""
        # When the first round ended in which TCP had no sign; what its host has been asked for.
        self._unheard_since: float | None = None
        self._hosts: dict[str, HostSigns] = {}

    def close(self) -> None:
        """It may be asked again."""
        self._drop()
        self._heard()

    def _drop(self) -> None:
        asking, self._asking = self._asking, None
        if asking is not None and not asking.cancel() and not asking.cancelled():
            asking.exception()  # It has ended, and no caller awaits it.
        if self._kept is not None:
            self._kept.reset()
            self._kept = None

    async def state(self) -> LanState:
        """Raises `NoAnswer` within `ROUND_DEADLINE` seconds."""
        if self._unheard_since is not None:
            self._ask_hosts()
        try:
            async with asyncio.timeout(ROUND_DEADLINE):
                found = await self._answered()
        except TimeoutError as error:
            self._waited += 1
            raise NoAnswer(
                self._sign_of_silence(), f"no answer within {ROUND_DEADLINE:g}s"
            ) from error
        except NoAnswer as error:
            self._next()
            raise NoAnswer(self._sign(error.sign), str(error)) from error
        except OSError as error:
            self._next()
            raise NoAnswer(self._sign(_sign_of(error)), str(error)) from error
        except (BadHead, asyncio.IncompleteReadError, ValueError) as error:
            self._next()
            raise NoAnswer(self._sign(Sign.HOST_LIVES), str(error)) from error
        except asyncio.CancelledError:
            self.close()
            raise
        self._heard()
        return found

    async def _answered(self) -> LanState:
        """What the peer says now: an answer to the question of another round is read, and asked for
        again."""
        while True:
            if self._asking is None:
                self._waited, self._was_kept = 0, self._kept is not None
                self._asking = asyncio.ensure_future(self._state())
            is_late, asking = self._waited > 0, self._asking
            await asyncio.wait({asking})
            if self._asking is asking:
                self._asking = None
            found = asking.result()
            if not is_late:
                return found

    def _sign_of_silence(self) -> Sign:
        """At the end of a round without an answer. What shows no sign is given up."""
        if not self._is_acknowledged():
            self._next()
            return self._sign(Sign.NONE)
        if self._was_kept and self._waited == 1:
            # It may be slow, once.
            return Sign.NONE
        return self._sign(Sign.HOST_LIVES)

    def _is_acknowledged(self) -> bool:
        """Whether the peer's kernel has acknowledged all that was sent, lately."""
        sock = self._attempt.sock
        if self._asking is None or sock is None:
            return False
        try:
            info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_SIZE)
        except OSError:
            return False  # It is closed.
        (unacked,) = struct.unpack_from("=I", info, _UNACKED_AT)
        (last_ack,) = struct.unpack_from("=I", info, _LAST_ACK_AT)
        return info[0] == _ESTABLISHED and not unacked and last_ack < ACKNOWLEDGED_FOR * 1000

    def _sign(self, of_tcp: Sign) -> Sign:
        """Of all that may show that the peer's host lives."""
        if of_tcp is Sign.HOST_LIVES:
            self._heard()
            return of_tcp
        now = boottime()
        if self._unheard_since is None:
            self._unheard_since = now
        since = self._unheard_since
        found = {self._host(it).sign(since, now) for it in self.peer.addresses}
        for sign in (Sign.HOST_LIVES, Sign.UNPROVEN):
            if sign in found:
                return sign
        return Sign.NONE

    def _heard(self) -> None:
        """By TCP: no other sign is needed."""
        self._unheard_since = None
        for host in self._hosts.values():
            host.close()
        self._hosts.clear()

    def _host(self, address: str) -> HostSigns:
        if address not in self._hosts:
            self._hosts[address] = HostSigns(address)
        return self._hosts[address]

    def _ask_hosts(self) -> None:
        for address in self.peer.addresses:
            self._host(address).ask()

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

    async def _state(self) -> LanState:
        if self._kept is None:
            self._attempt = attempt = _Attempt()
            self._kept = await self._open(attempt, handshake=PATIENT)
            self._watch(attempt)
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

    async def _open(self, attempt: _Attempt, *, handshake: float | None = None) -> Stream:
        """`handshake`: seconds that it may take. Raises `NoAnswer`, OSError."""
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
                raise NoAnswer(_sign_of(error), str(error)) from error
            attempt.sock = sock
            self._watch(attempt)
            return await self._secured(sock, handshake)
        except BaseException:
            sock.close()
            raise

    @staticmethod
    def _watch(attempt: _Attempt) -> None:
        """The kernel asks soon whether the peer's is there."""
        idle, interval, count = WATCH
        with suppress(OSError):  # It is gone already.
            for option in (
                (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
                (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle),
                (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval),
                (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, count),
                (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, ACKNOWLEDGED_FOR * 1000),
            ):
                if attempt.sock is not None:
                    attempt.sock.setsockopt(*option)

    async def _secured(self, sock: socket.socket, handshake: float | None) -> Stream:
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
                ssl_handshake_timeout=handshake,
            )
            return Stream(reader, asyncio.StreamWriter(transport, protocol, reader, loop))
        except BaseException:
            if protocol.transport is not None:
                abort(protocol.transport)
            raise

    def _next(self) -> None:
        """After a failure: another connection, to the next address."""
        self._drop()
        self._turn += 1


class _Protocol(asyncio.StreamReaderProtocol):
    """Knows its transport. Who is cancelled just when the handshake completes never gets to know
    it, and asyncio closes it in order: for seconds it would go on to watch a descriptor that by
    then is another connection's."""

    transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        super().connection_made(transport)


def _sign_of(error: OSError) -> Sign:
    return Sign.NONE if error.errno in _NO_SIGN else Sign.HOST_LIVES


def _request(method: str, target: str) -> bytes:
    return f"{method} {target} HTTP/1.1\r\nHost: pool-member\r\n\r\n".encode()


async def _answer(stream: Stream) -> Head:
    """Raises OSError, `BadHead`."""
    head = await read_head(stream.reader)
    if head is None:
        raise ConnectionResetError("the peer closed the connection")
    return head
