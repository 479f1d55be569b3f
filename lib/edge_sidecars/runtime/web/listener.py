"""A listening address, its sockets, and how many connections they may hold together.

Knows no request. An address without a host, and `localhost`, are of both IP families, as far as the
machine has them. Guarantee: clients can never use up the file descriptors that the process needs
for its work. One connection too many takes the place of the one that has been idle the longest;
none is taken from a client that waits for its answer.
"""

import asyncio
import errno
import logging
import os
import resource
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, cast

from aiohttp.http import HttpProcessingError

from edge_sidecars.runtime.cli.values import Address, BadInput
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.connections import (
    HANDSHAKE_TIMEOUT,
    Connection,
    ConnectionLimit,
    Handler,
)
from edge_sidecars.runtime.web.intake import MAX_HEAD, Intake


@dataclass(frozen=True)
class ListenerOptions:
    """How a component's listeners treat their clients.

    `log`: the logger of what goes wrong in requests. `backlog`: so many are accepted at once, and
    as many more wait in the kernel, or `queue`. `shutdown_grace`: seconds for answers on their way
    when the listener closes. `ends_with_client`: a handler is cancelled when its client left.
    `max_head`: bytes. `http`: further options of aiohttp's RequestHandler.
    """

    log: str
    backlog: int
    shutdown_grace: float
    queue: int | None = None
    ends_with_client: bool = True
    max_head: int = MAX_HEAD
    http: Mapping[str, float | bool] = field(default_factory=dict)


# Addresses of both families; each has a socket of its own, so that a client of IPv4 is seen by its
# own address, and not as one of IPv6.
_BOTH = {"": ("0.0.0.0", "::"), "localhost": ("127.0.0.1", "::1")}
# A family, and the address without its port.
_BindAddress = tuple[int, tuple[Any, ...]]
# A family that the machine does not have: socket(2), bind(2).
_NO_SUCH_FAMILY = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
# So often another port is taken where the kernel's choice is taken in the other family.
PORT_ATTEMPTS = 10
# Owner and group of a unix socket may connect; a folder with setgid, as an emptyDir in a pod with
# fsGroup, gives the socket its group.
SOCKET_MODE = 0o660


class Listener:
    """One bound address with its handler, for at most `limit` connections at a time.
    `socket_mode`: of a unix socket."""

    def __init__(
        self,
        address: Address,
        handler: Handler,
        *,
        options: ListenerOptions,
        limit: int,
        tls: ssl.SSLContext | None = None,
        socket_mode: int = SOCKET_MODE,
    ) -> None:
        self._socket_mode = socket_mode
        self._handler = handler
        self._options = options
        self._limit = limit
        self._tls = tls
        log = logging.getLogger(options.log)
        log.addFilter(_OWN_FAULTS)
        self.intake = Intake(max_head=options.max_head)
        self._web = ConnectionLimit(
            self._answer,
            intake=self.intake,
            handler_cancellation=options.ends_with_client,
            access_log=None,
            logger=log,
            **options.http,
        )
        self._busy: set[object] = set()
        self._servers: list[asyncio.Server] = []
        # Since `open`, what was bound: with port 0, the port that the kernel chose.
        self.bound = address

    @property
    def taken(self) -> int:
        """Connections that have one of its places."""
        return self._web.taken

    async def open(self) -> None:
        """Raises `BadInput` when the address cannot be had."""
        address = self.bound
        try:
            if address.path:
                await self._listen_at(address.path)
            else:
                await self._listen_on(await _sockets(address))
        except OSError as error:
            raise BadInput(
                f"cannot listen on {address}: {error.strerror or error}; "
                "choose another address or stop what holds it"
            ) from error

    async def close(self) -> None:
        """Nobody new comes in; answers on their way get a moment."""
        for server in self._servers:
            server.close()
        await self._web.shutdown(timeout=self._options.shutdown_grace)
        self.intake.close_all()

    async def _listen_at(self, path: str) -> None:
        # asyncio would take a socket's name from whoever listens there.
        if await _is_served(path):
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        server = await asyncio.get_running_loop().create_unix_server(
            self._accept, path, start_serving=False, **self._socket_options()
        )
        # Before it listens: until then it has the mode of the process' umask, and refuses.
        os.chmod(path, self._socket_mode)
        await self._start(server)

    async def _listen_on(self, sockets: list[socket.socket]) -> None:
        loop = asyncio.get_running_loop()
        host, port, *_ = sockets[0].getsockname()
        both = _BOTH.get(self.bound.host)
        is_as_named = both is None or len(sockets) == len(both)
        self.bound = Address(self.bound.host if is_as_named else host, port)
        for sock in sockets:
            await self._start(
                await loop.create_server(
                    self._accept, sock=sock, start_serving=False, **self._socket_options()
                )
            )

    async def _start(self, server: asyncio.Server) -> None:
        self._servers.append(server)
        await server.start_serving()
        if self._options.queue is not None:
            _lengthen_queue(server, self._options.queue)

    def _socket_options(self) -> dict[str, Any]:
        timeout = None if self._tls is None else HANDSHAKE_TIMEOUT
        return {
            "backlog": self._options.backlog,
            "ssl": self._tls,
            "ssl_handshake_timeout": timeout,
        }

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        self._busy.add(connection)
        if isinstance(connection, Connection):
            connection.begins()
        try:
            return await self._handler(request)
        except ConnectionResetError:
            if request.transport is not None and not request.transport.is_closing():
                raise
            # The client has left and aiohttp has yet to say so: no one receives this.
            return web.Response(status=HTTPStatus.REQUEST_TIMEOUT)
        finally:
            self._busy.discard(connection)
            if isinstance(connection, Connection):
                connection.ends(request)

    def _accept(self) -> asyncio.Protocol:
        if self._web.taken < self._limit:
            return self._web()
        for connection in self._web.connections:  # the oldest first
            if connection not in self._busy and connection.transport is not None:
                connection.force_close()
                return self._web()
        return _Refusal()


async def _sockets(address: Address) -> list[socket.socket]:
    """Bound, one for each address that the host means, all on one port."""
    addresses = await _bind_addresses(address.host)
    attempts = 1 if address.port else PORT_ATTEMPTS
    while True:
        attempts -= 1
        try:
            return _bound(addresses, address.port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not attempts:
                raise


async def _bind_addresses(host: str) -> list[_BindAddress]:
    if host in _BOTH:
        v4, v6 = _BOTH[host]
        return [(socket.AF_INET, (v4,)), (socket.AF_INET6, (v6,))]
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # What stands behind the port is the zone of an address of IPv6.
    unique = {(family, (at[0], *at[2:])): None for family, _, _, _, at in found}
    return list(unique)


def _bound(addresses: list[_BindAddress], port: int) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    for family, (host, *zone) in addresses:
        try:
            sockets.append(_bound_to(family, (host, port, *zone)))
        except OSError as error:
            if error.errno in _NO_SUCH_FAMILY:
                missing = error
                continue
            for sock in sockets:
                sock.close()
            raise
        port = sockets[-1].getsockname()[1]
    if missing is not None and not sockets:
        raise missing
    return sockets


def _bound_to(family: int, at: tuple[Any, ...]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(at)
    except OSError:
        sock.close()
        raise
    return sock


async def _is_served(path: str) -> bool:
    """A socket that was left behind refuses."""
    try:
        async with asyncio.timeout(HANDSHAKE_TIMEOUT):
            _, writer = await asyncio.open_unix_connection(path)
    except TimeoutError:
        return True
    except OSError as error:
        return error.errno == errno.EAGAIN  # its queue is full
    writer.close()
    return True


def connection_limit(
    listeners: int, *, most: int, least: int, reserved: int, spare: int = 0
) -> int:
    """For each of so many listeners, which share this process' descriptors: but for `reserved`
    ones, and `spare` ones of each listener's share."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return most
    return max(min(most, (soft - reserved) // listeners - spare), least)


def _lengthen_queue(server: asyncio.Server, queue: int) -> None:
    """asyncio has one number for both; listen(2) may be called again for the kernel's."""
    for each in server.sockets:
        with socket.socket(fileno=os.dup(each.fileno())) as same:
            same.listen(queue)


class _Refusal(asyncio.Protocol):
    """One connection too many: closed before it costs anything."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No isinstance: uvloop's transports are none of asyncio's classes.
        cast(asyncio.Transport, transport).abort()


class _OwnFaults(logging.Filter):
    """A request that is no HTTP was answered with 4xx: its sender's fault is no traceback here."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | web.RequestPayloadError)


_OWN_FAULTS = _OwnFaults()
