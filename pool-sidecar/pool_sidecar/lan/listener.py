"""What peers may ask of this node: `GET /state`, a tunnel to the API server, and one to its relay.

Guarantees: who is not in the directory gets no further than the handshake, and who left it, not to
the next request. Connections, handshakes, heads and requests of each peer are bounded, so that a
flood of the LAN is refused and never fills memory, nor a processor with handshakes. Strangers, from
however many addresses, take no place from members; nor do pods, which come under the address of
their node: a member is known by its ticket before the handshake (`tickets`). All other targets are
403. Of the relay they get its pool listener, for one GET in each connection, with this node's
token, which they never see.
"""

import asyncio
import errno
import secrets
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, Final, Protocol

from edge_sidecars.kubeapi.aiohttp_private import abort
from edge_sidecars.runtime.cli.proxies import HttpProxy
from edge_sidecars.runtime.cli.values import BadInput, describe_failure
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger, sparing
from edge_sidecars.runtime.scarcity import is_reserved, report, scarcity
from edge_sidecars.runtime.web.listener import PAUSE
from pool_sidecar.core.budget import Budget, LendingLimits, Rate
from pool_sidecar.core.members import Directory, Peer
from pool_sidecar.core.tickets import Tickets
from pool_sidecar.lan.certificate import Certificate
from pool_sidecar.lan.cloud_dial import NoTunnel, dial, receive_buffer
from pool_sidecar.lan.http_head import MAX_HEAD, BadHead, Head, answer, read_head, refusal
from pool_sidecar.lan.relay_reader import RELAY, RelayRead
from pool_sidecar.lan.tls import listener_context
from pool_sidecar.lan.tunnel import Stream, Tunnel, Tunnels

# Seconds.
HANDSHAKE: Final = 2.0
# Seconds for a head, and between two of them: peers ask every 2.
IDLE: Final = 10.0
DIAL: Final = 5.0
BACKLOG: Final = 128
# Connections besides those that are lent: 64 members have one each for states, and some that wait
# for an answer; strangers.
OTHERS: Final = 192
# Of a host besides those that are lent to it.
MAX_OF_HOST: Final = 32
# In their handshake, from addresses that are no member's.
MAX_STRANGERS: Final = 64
# A second, of the addresses of one member or of all strangers together, and at once: a handshake
# costs two milliseconds. A member keeps its connections, and a new one comes again each 2 s.
HANDSHAKES: Final = 10
HANDSHAKES_AT_ONCE: Final = 64
# In their handshake, of the address of a member: one more takes the place of the oldest.
MAX_ARRIVING: Final = 32
# A second of such an address, and at once, that get as far as to say whose they are.
ARRIVALS: Final = 200
# Of one peer: requests a second (it makes one in two, and one for each tunnel), and at once: all
# streams of its relays begin in one moment.
REQUEST_RATE: Final = 4
REQUEST_BURST: Final = 128
# Connections of one peer besides those that are lent: for states, and those of an instant.
SPARE: Final = 16
CLOUD: Final = "cloud"
# To the relay, at a time: of one peer, whose relays have one for each pool-scoped stream and one
# beside it now and then; of all.
READERS: Final = LendingLimits(connections=24, all_connections=512)


class Lender(Protocol):
    """What the listener asks of the member."""

    @property
    def directory(self) -> Directory: ...
    def state(self, now: float) -> bytes:
        """The document of `GET /state`."""

    def lends(self, now: float) -> bool: ...
    def serves(self, now: float) -> bool:
        """Whether peers may read its relay."""

    def relay_token(self) -> str:
        """What the relay's pool listener asks for."""


class LanListener:
    """`server`, `relay`: host and port of the API server and of the relay's pool listener, to which
    tunnels lead; `proxy`: through which this node reaches the first, if any."""

    def __init__(
        self,
        lender: Lender,
        own: Certificate,
        limits: LendingLimits,
        *,
        server: tuple[str, int],
        relay: tuple[str, int],
        proxy: Callable[[], HttpProxy | None] = lambda: None,
    ) -> None:
        self._lender = lender
        self._proxy = proxy
        self._own = own
        self._server = server
        self._relay = relay
        self._piece = limits.piece
        self.budget = Budget(limits)
        self.tunnels = Tunnels()
        self.readers = Tunnels()
        self._reading = Budget(READERS)
        self._limits = limits
        self._requests = Budget(
            LendingLimits(
                rate=REQUEST_RATE,
                burst=REQUEST_BURST,
                connections=limits.connections + READERS.connections + SPARE,
                all_connections=limits.all_connections + READERS.all_connections + OTHERS,
            )
        )
        self._tickets = Tickets(lambda: secrets.token_hex(16))
        self._context = listener_context(own.certificate, own.key, ())
        # For members alone that have a ticket.
        self._ticket_context = self._context
        self._tasks: set[asyncio.Task[None]] = set()
        self._hosts: Counter[str] = Counter()
        self._strangers = 0
        self._handshakes = Rate(HANDSHAKES, HANDSHAKES_AT_ONCE)
        self._proven = Rate(HANDSHAKES, HANDSHAKES_AT_ONCE)
        self._arrivals = Rate(ARRIVALS, ARRIVALS)
        # In their handshake, the oldest first, with their address.
        self._arriving: dict[socket.socket, str] = {}
        self._known: frozenset[str] = frozenset()
        self._sockets: list[socket.socket] = []

    def trust(self, directory: Directory) -> None:
        """The directory changed: tunnels of those that left it end now."""
        certificates = directory.certificates
        own = self._own.certificate, self._own.key
        self._context = listener_context(*own, certificates)
        self._ticket_context = listener_context(*own, certificates, lets_in=self._lets_in)
        self._tickets.keep(directory.peers)
        addresses = (text for it in directory.peers.values() for text in it.addresses)
        self._known = frozenset(str(ip_address(text)) for text in addresses)
        for rate in (self._handshakes, self._proven, self._arrivals):
            rate.forget(boottime())
        for tunnels in (self.tunnels, self.readers):
            tunnels.reset_all(unless=directory.peers.__contains__)

    def open(self, addresses: Sequence[str], port: int) -> None:
        """Raises `BadInput`."""
        for address in addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            sock = socket.socket(family, socket.SOCK_STREAM)
            self._sockets.append(sock)
            try:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.setblocking(False)
                sock.bind((address, port))
                sock.listen(BACKLOG)
            except OSError as error:
                raise BadInput(
                    f"cannot listen on {address} port {port}: {describe_failure(error)}; name "
                    "another --lan-address or --lan-port"
                ) from error
            self._spawn(self._accept(sock))

    async def close(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for sock in self._sockets:
            sock.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, at = await loop.sock_accept(listening)
            except OSError as error:
                # The next ones wait in the kernel; one that left already is none.
                lack = scarcity(error)
                if lack is not None:
                    report(lack, what="members of the pool")
                await asyncio.sleep(0 if lack is None else PAUSE)
                continue
            if is_reserved(sock.fileno()):
                sock.close()
                report(errno.EMFILE, what="members of the pool")
                await asyncio.sleep(PAUSE)
                continue
            # A connection that waits already is there at once: those of a flood, without a pause.
            await asyncio.sleep(0)
            host = str(at[0])
            is_stranger = host not in self._known
            context = self._context_of(host, is_stranger=is_stranger)
            if context is None:
                sock.close()
                continue
            self._hosts[host] += 1
            self._strangers += is_stranger
            self._arriving[sock] = host
            self._spawn(self._serve(sock, host, context, is_stranger=is_stranger))

    def _context_of(self, host: str, *, is_stranger: bool) -> ssl.SSLContext | None:
        """By which one that comes from there may prove who it is; None: it has no place."""
        now, lent = boottime(), self._limits.all_connections + READERS.all_connections
        if self._hosts.total() >= lent + OTHERS:
            return None
        if is_stranger:
            is_full = self._strangers >= MAX_STRANGERS or self._hosts[host] >= MAX_OF_HOST
            return None if is_full or not self._handshakes.takes("", now) else self._context
        lent = self._limits.connections + READERS.connections
        if self._hosts[host] >= MAX_OF_HOST + lent or not self._arrivals.takes(host, now):
            return None
        arriving = [sock for sock, at in self._arriving.items() if at == host]
        if len(arriving) >= MAX_ARRIVING:
            del self._arriving[arriving[0]]
            with suppress(OSError):
                arriving[0].shutdown(socket.SHUT_RDWR)
        return self._context if self._handshakes.takes(host, now) else self._ticket_context

    def _lets_in(self, ticket: str) -> bool:
        """Beyond the handshakes of its address, each member has some of its own."""
        now = boottime()
        member = self._tickets.owner(ticket, now)
        return member is not None and self._proven.takes(member, now)

    async def _serve(
        self, sock: socket.socket, host: str, context: ssl.SSLContext, *, is_stranger: bool
    ) -> None:
        try:
            try:
                writer, reader = await self._secured(sock, context)
            finally:
                self._strangers -= is_stranger
                self._arriving.pop(sock, None)
        except OSError as error:
            if sparing.allows("handshake", host):
                logger.info("a handshake failed", extra=fields(host=host, why=error))
            sock.close()
            self._left(host)
            return
        try:
            await self._answer_all(Stream(reader, writer))
        except (BadHead, OSError):
            pass  # Its sender's fault, or its end.
        finally:
            abort(writer.transport)
            self._left(host)

    async def _secured(
        self, sock: socket.socket, context: ssl.SSLContext
    ) -> tuple[asyncio.StreamWriter, asyncio.StreamReader]:
        """Raises OSError where the handshake fails."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=MAX_HEAD)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol,
            sock,
            ssl=context,
            ssl_handshake_timeout=HANDSHAKE,
            ssl_shutdown_timeout=HANDSHAKE,
        )
        return asyncio.StreamWriter(transport, protocol, reader, loop), reader

    def _left(self, host: str) -> None:
        self._hosts[host] -= 1
        self._hosts += Counter()

    def _peer(self, stream: Stream) -> Peer | None:
        secured: ssl.SSLObject = stream.writer.get_extra_info("ssl_object")
        found = secured.getpeercert(binary_form=True)
        return None if found is None else self._lender.directory.owner_of(found)

    async def _answer_all(self, stream: Stream) -> None:
        peer = self._peer(stream)
        now = boottime()
        if peer is None:
            return
        if not self._requests.admit(peer.name, now):
            stream.writer.write(refusal(HTTPStatus.TOO_MANY_REQUESTS, "too many connections"))
            await stream.writer.drain()
            return
        try:
            while await self._answer(stream, peer.name):
                pass
            await stream.writer.drain()
            stream.writer.close()
            async with asyncio.timeout(HANDSHAKE):
                await stream.writer.wait_closed()
        finally:
            self._requests.released(peer.name, boottime())

    async def _answer(self, stream: Stream, name: str) -> bool:
        """Whether another request may follow."""
        async with asyncio.timeout(IDLE):
            head = await read_head(stream.reader)
        if head is None or self._peer(stream) is None:
            return False
        now = boottime()
        method, target, _ = head.first
        if self._requests.spend(name, 1, now) > 0:
            stream.writer.write(refusal(HTTPStatus.TOO_MANY_REQUESTS, "too many requests"))
            return False
        if _has_body(head):
            stream.writer.write(refusal(HTTPStatus.BAD_REQUEST, "no request here has a body"))
            return False
        if (method, target) == ("GET", "/state"):
            ticket = self._tickets.of(name, now)
            stream.writer.write(answer(HTTPStatus.OK, self._lender.state(now), ticket=ticket))
            await stream.writer.drain()
            return True
        if method == "CONNECT":
            await self._connect(stream, name, target)
            return False
        there_is = "there are GET /state, CONNECT cloud:443 and CONNECT relay"
        stream.writer.write(refusal(HTTPStatus.FORBIDDEN, there_is))
        return False

    async def _connect(self, stream: Stream, name: str, target: str) -> None:
        now = boottime()
        host = target.partition(":")[0]
        if host == RELAY:
            await self._connect_relay(stream, name)
            return
        if host != CLOUD:
            why = f"{target!r:.80}: tunnels lead to {CLOUD} and {RELAY} only"
            stream.writer.write(refusal(HTTPStatus.FORBIDDEN, why))
            return
        if not self._lender.lends(now):
            stream.writer.write(refusal(HTTPStatus.SERVICE_UNAVAILABLE, "no link of its own"))
            return
        if not self.budget.admit(name, now):
            stream.writer.write(refusal(HTTPStatus.TOO_MANY_REQUESTS, "no connection is left"))
            return
        try:
            await self._lend(stream, name)
        finally:
            self.budget.released(name, boottime())

    async def _connect_relay(self, stream: Stream, name: str) -> None:
        if not self._lender.serves(boottime()):
            stream.writer.write(refusal(HTTPStatus.SERVICE_UNAVAILABLE, "no live stream"))
            return
        if not self._reading.admit(name, boottime()):
            stream.writer.write(refusal(HTTPStatus.TOO_MANY_REQUESTS, "no connection is left"))
            return
        try:
            await self._read_relay(stream, name)
        finally:
            self._reading.released(name, boottime())

    async def _read_relay(self, stream: Stream, name: str) -> None:
        try:
            async with asyncio.timeout(DIAL):
                relay = Stream(*await asyncio.open_connection(*self._relay))
        except (OSError, TimeoutError):
            why = "the relay is out of reach"
            stream.writer.write(refusal(HTTPStatus.SERVICE_UNAVAILABLE, why))
            return
        try:
            stream.writer.write(answer(HTTPStatus.OK))
            async with asyncio.timeout(IDLE):
                head = await read_head(stream.reader)
            read = None if head is None else RelayRead.of(head)
            if read is None or self._peer(stream) is None:
                relay.reset()
                if head is not None:
                    stream.writer.write(refusal(HTTPStatus.FORBIDDEN, "the relay is only read"))
                return
            token = self._lender.relay_token()
            relay.writer.write(read.encode(host=self._relay[0], token=token))
        except BaseException:
            relay.reset()
            raise
        await self.readers.run(Tunnel(name, stream, relay))

    async def _lend(self, stream: Stream, name: str) -> None:
        try:
            async with asyncio.timeout(DIAL):
                receive = receive_buffer(self._limits.rate)
                cloud = await dial(self._server, self._proxy(), receive=receive)
        except (OSError, TimeoutError) as error:
            why = "the API server is out of reach"
            if isinstance(error, NoTunnel) and sparing.allows("proxy"):
                logger.warning("no connection through the proxy", extra=fields(why=error))
            stream.writer.write(refusal(HTTPStatus.SERVICE_UNAVAILABLE, why))
            return
        if self._peer(stream) is None or not self._lender.lends(boottime()):
            # It left the directory, or the link went, while the API server was dialled.
            cloud.reset()
            stream.writer.write(refusal(HTTPStatus.SERVICE_UNAVAILABLE, "no link of its own"))
            return
        if sparing.allows("lending", name):
            logger.info("lending the link", extra=fields(borrower=name))
        stream.writer.write(answer(HTTPStatus.OK))

        def spend(size: int) -> float:
            return self.budget.spend(name, size, boottime())

        await self.tunnels.run(Tunnel(name, stream, cloud, spend, piece=self._piece))


def _has_body(head: Head) -> bool:
    is_long = head.headers.get("content-length", "0") != "0"
    return is_long or "transfer-encoding" in head.headers
