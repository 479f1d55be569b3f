"""How one connection to the API server is made, whether there is one, and how it is aborted.

Guarantees: a peer that vanishes is noticed by the kernel within some `USER_TIMEOUT`, whether bytes
are on their way or not; a body is taken from its sender only as fast as the wire takes it. Used for
one request at a time. Of the addresses of a name: one lookup at a time, however many ask. Where a
lookup fails or takes long, the addresses that were found last are used, so that an API server can
be reached again as soon as the link is, not when the resolver's time-out is over.
"""

import asyncio
import socket
import time
from collections.abc import Callable
from functools import partial
from socket import AF_INET, AddressFamily

import aiohttp
from aiohappyeyeballs import AddrInfoType
from aiohttp.abc import AbstractResolver, ResolveResult

from edge_sidecars.kubeapi.aiohttp_private import (
    Connection,
    ConnectionMaker,
    DelegatingConnector,
    ResponseHandler,
    Trace,
    abort,
    is_reusable,
)

# Seconds for which sent bytes may stay unacknowledged; client-go's HTTP/2 pings give up at 45.
USER_TIMEOUT = 15
# Seconds of silence before the kernel asks whether the peer is there; between two questions, and
# after how many without an answer it is not.
SILENCE = 10.0
KEEPALIVE = (5, 3)
# Bytes that the kernel takes and does not send yet: it would take megabytes, and a deadline that
# begins when the last byte of a body is handed over would begin long before that byte has left.
UNSENT_LIMIT = 128 * 1024
# Seconds in which a name is not looked up again: aiohttp's own default, ttl_dns_cache.
FRESH_FOR = 10.0
# Seconds; a lookup that takes longer goes on, but who has an address does not wait for it.
PATIENCE = 0.3

Name = tuple[str, int, AddressFamily]


class DescriptorSafeSocket(socket.socket):
    """One that never closes a descriptor which is not its own any more.

    uvloop (0.23, create_connection) closes the descriptor of a connection that is reset before it
    has taken the socket over, and then leaves the socket with its number. When that is collected,
    it would close whatever has the number by then: a client's connection, or a file.
    """

    # Who else uses the descriptor: a loop of uvloop, from the moment at which it owns it.
    _io_refs: int

    def __del__(self) -> None:
        if self._io_refs > 0:
            self.detach()
        elif self.fileno() >= 0:
            self.close()


class Connector(DelegatingConnector):
    """A connector with one connection, or none yet. `maker` makes it, else the connector itself:
    then as a `tuned_socket`."""

    def __init__(
        self,
        *,
        keepalive_timeout: float,
        resolver: "Resolver",
        maker: ConnectionMaker | None,
        silence: float = SILENCE,
    ) -> None:
        super().__init__(
            limit=1,
            keepalive_timeout=keepalive_timeout,
            resolver=resolver,
            use_dns_cache=False,
            socket_factory=partial(tuned_socket, silence=silence),
        )
        self.maker = maker
        # Before the first request there is no caller to fail.
        self.on_connected: Callable[[], None] = lambda: None
        # For streams that the peer may leave unread for as long as it likes: with a user time-out
        # the kernel takes that for a peer that has vanished.
        self.is_patient = False
        self.is_reused = False
        # What is on its way is read while it comes, whatever becomes of the link meanwhile.
        self.outlasts_abort = False
        self._handler: ResponseHandler | None = None
        self._transport: asyncio.Transport | None = None
        self._last: Connection | None = None

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        return self._connected(await super().connect(req, traces, timeout))

    async def reconnect(self) -> Connection | None:
        """The connection that an earlier request has used; None where there is none."""
        before = self._last
        connection = None if before is None else await self.again(before)
        return None if connection is None else self._connected(connection)

    def _connected(self, connection: Connection) -> Connection:
        self._last = connection
        self.is_reused = connection.protocol is self._handler
        self._handler = connection.protocol
        self._transport = connection.transport
        if self.is_patient:
            self._be_patient()
        self.on_connected()
        return connection

    @property
    def is_reusable(self) -> bool:
        return self._handler is not None and is_reusable(self._handler)

    @property
    def peer_names(self) -> frozenset[str]:
        """DNS names of the certificate at the other end, as far as it is verified."""
        transport = self._transport
        found = None if transport is None else transport.get_extra_info("peercert")
        names = (found or {}).get("subjectAltName", ())
        return frozenset(name for kind, name in names if kind == "DNS")

    def abort(self) -> None:
        """Ends the connection at once, whatever is on its way.

        What aiohttp closed as well: TLS waits up to 30 s for the other end to agree, and a loop of
        uvloop that is closed meanwhile waits for ever.
        """
        transport, self._transport = self._transport, None
        if transport is not None:
            abort(transport)

    def end(self) -> None:
        """The request is over: what cannot be used again is aborted."""
        self.outlasts_abort = False
        if self._handler is None or not self._handler.is_connected():
            self.abort()

    def hand_over(self) -> None:
        """The connection belongs to somebody else: it is not aborted any more."""
        self._transport = None

    def _be_patient(self) -> None:
        transport = self._transport
        sock = None if transport is None else transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 0)


def tuned_socket(address: AddrInfoType, *, silence: float) -> socket.socket:
    """One that notices that its peer has vanished; after `silence` seconds it asks."""
    family, kind, protocol, _, _ = address
    sock = DescriptorSafeSocket(family, kind, protocol)
    interval, count = KEEPALIVE
    for option in (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(round(silence), 1)),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, count),
        (socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_LIMIT),
        (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT * 1000),
    ):
        sock.setsockopt(*option)
    return sock


class Resolver(AbstractResolver):
    """Shared by all connections of one caller; `names` is who is asked, `fresh_for` in seconds."""

    def __init__(self, names: AbstractResolver, *, fresh_for: float = FRESH_FOR) -> None:
        self._names = names
        self._fresh_for = fresh_for
        self._lookups: dict[Name, asyncio.Task[list[ResolveResult]]] = {}
        self._found: dict[Name, tuple[float, list[ResolveResult]]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: AddressFamily = AF_INET
    ) -> list[ResolveResult]:
        """Raises OSError where the name was never found."""
        name = (host, port, family)
        found_at, found = self._found.get(name, (0.0, None))
        if found is not None and time.monotonic() - found_at < self._fresh_for:
            return found
        lookup = self._lookups.get(name)
        if lookup is None:
            lookup = self._lookups[name] = asyncio.create_task(self._look_up(name))
            lookup.add_done_callback(partial(self._forget, name))
        await asyncio.wait({lookup}, timeout=None if found is None else PATIENCE)
        if found is not None and (not lookup.done() or lookup.exception() is not None):
            return found
        return lookup.result()

    async def close(self) -> None:
        for lookup in tuple(self._lookups.values()):
            lookup.cancel()

    def _forget(self, name: Name, lookup: asyncio.Task[list[ResolveResult]]) -> None:
        del self._lookups[name]
        if not lookup.cancelled():
            lookup.exception()  # its waiters may be gone, and asyncio would report it

    async def _look_up(self, name: Name) -> list[ResolveResult]:
        found = await self._names.resolve(*name)
        self._found[name] = (time.monotonic(), found)
        return found
