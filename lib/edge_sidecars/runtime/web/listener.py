"""A listening address, its sockets, and how many connections they may hold together.

Knows no request. An address without a host, and `localhost`, are of both IP families, as far as the
machine has them. Guarantee: clients can never use up the file descriptors that the process needs
for its work: accepting pauses before (limits.md, L6). One connection too many takes the place of
the one that has been idle the longest; none is taken from a client that waits for its answer.
"""

import asyncio
import errno
import logging
import os
import resource
import socket
import ssl
import stat
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from weakref import WeakSet

from aiohttp.http import HttpProcessingError

from edge_sidecars.runtime.cli.values import Address, BadInput
from edge_sidecars.runtime.log import fields, logger, sparing
from edge_sidecars.runtime.scarcity import is_reserved, report, scarcity
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.connections import (
    HANDSHAKE_TIMEOUT,
    Connection,
    ConnectionLimit,
    Handler,
)
from edge_sidecars.runtime.web.cross_site import guarded
from edge_sidecars.runtime.web.intake import MAX_HEAD, Intake
from edge_sidecars.runtime.web.places import Places, peer_of

# Seconds for some hundred KiB, to a process on this machine.
WRITE_TIMEOUT: Final = 15.0


@dataclass(frozen=True)
class ListenerOptions:
    """How a component's listeners treat their clients.

    `log`: the logger of what goes wrong in requests. `backlog`: so many wait in the kernel, or
    `queue`. `shutdown_grace`: seconds for answers on their way
    when the listener closes. `ends_with_client`: a handler is cancelled when its client left.
    `max_head`: bytes. `write_timeout`: seconds without progress, after which a client does not
    read. `guards`: refuses what a web page may have sent, and heads that are not UTF-8, before
    the handler; without it the handler does so itself. `http`: further options of aiohttp's
    RequestHandler.
    """

    log: str
    backlog: int
    shutdown_grace: float
    queue: int | None = None
    ends_with_client: bool = True
    max_head: int = MAX_HEAD
    write_timeout: float = WRITE_TIMEOUT
    guards: bool = False
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
# Seconds; those that hold descriptors need some time to leave.
PAUSE: Final = 0.1
# Owner and group of a unix socket may connect; a folder with setgid, as an emptyDir in a pod with
# fsGroup, gives the socket its group.
SOCKET_MODE = 0o660


# All of this process, for its metrics.
LISTENERS: "WeakSet[Listener]" = WeakSet()


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
        self._tls = tls
        log = logging.getLogger(options.log)
        log.addFilter(_OWN_FAULTS)
        self.intake = Intake(max_head=options.max_head, write_timeout=options.write_timeout)
        self._web = ConnectionLimit(
            self._answer,
            places=Places(limit),
            intake=self.intake,
            handler_cancellation=options.ends_with_client,
            access_log=None,
            logger=log,
            **options.http,
        )
        self._busy: set[object] = set()
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        # In their handshake, the oldest first.
        self._arriving: dict[Connection, socket.socket] = {}
        # By the task in which it becomes one.
        self._welcomed: dict[asyncio.Task[None], Connection] = {}
        # Connections that found no place.
        self.turned_away = 0
        self.is_open = False
        LISTENERS.add(self)
        # Since `open`, what was bound: with port 0, the port that the kernel chose.
        self.bound = address

    @property
    def limit(self) -> int:
        return self._web.places.limit

    @property
    def taken(self) -> int:
        """Connections that have one of its places."""
        return self._web.places.taken

    async def open(self) -> None:
        """Raises `BadInput` when the address cannot be had."""
        address = self.bound
        try:
            if address.path:
                sockets = [await _unix_socket(address.path, self._socket_mode)]
            else:
                sockets = await _sockets(address)
                host, port, *_ = sockets[0].getsockname()
                both = _BOTH.get(address.host)
                is_as_named = both is None or len(sockets) == len(both)
                self.bound = Address(address.host if is_as_named else host, port)
            self.intake.name = str(self.bound)
            self.is_open = True
            for sock in sockets:
                self._sockets.append(sock)
                sock.listen(max(self._options.backlog, self._options.queue or 0))
                sock.setblocking(False)
                self._spawn(self._accept_all(sock))
        except OSError as error:
            raise BadInput(
                f"cannot listen on {address}: {error.strerror or error}; "
                "choose another address or stop what holds it"
            ) from error

    async def close(self) -> None:
        """No new client comes in; answers on their way get a moment."""
        self.is_open = False
        tasks = tuple(self._tasks)
        for task in tasks:
            connection = self._welcomed.get(task)
            # uvloop would close a connection that is made, under the answer to its first request.
            if connection is None or connection.transport is None:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for sock in self._sockets:
            sock.close()
        await self._web.shutdown(timeout=self._options.shutdown_grace)
        self.intake.close_all()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ── who comes in ──

    async def _accept_all(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, address = await loop.sock_accept(listening)
            except OSError as error:
                # Who wants to come in waits in the kernel; one that left already is none.
                lack = scarcity(error)
                if lack is not None:
                    report(lack, what=f"clients of {self.bound}")
                await asyncio.sleep(0 if lack is None else PAUSE)
                continue
            if is_reserved(sock.fileno()):
                sock.close()
                self.turned_away += 1
                has_room = self._make_room(self._web.places.peers)
                report(errno.EMFILE, what=f"clients of {self.bound}")
                await asyncio.sleep(0 if has_room else PAUSE)
                continue
            self._let_in(sock, peer_of(address))
            # One that waits already is there at once: those of a flood, without a pause.
            await asyncio.sleep(0)

    def _let_in(self, sock: socket.socket, peer: str) -> None:
        rivals = self._web.places.rivals(peer)
        if rivals is not None and not self._make_room(rivals):
            self.turned_away += 1
            if sparing.allows("places", str(self.bound)):
                logger.warning(
                    "all connections are taken",
                    extra=fields(listen=self.bound, limit=self._web.places.limit, peer=peer),
                )
            sock.close()
            return
        connection = self._web.connection(peer)
        self._arriving[connection] = sock
        task = self._spawn(self._welcome(connection, sock))
        self._welcomed[task] = connection
        task.add_done_callback(self._welcomed.pop)

    async def _welcome(self, connection: Connection, sock: socket.socket) -> None:
        """Until it is made, after the handshake where there is one."""
        timeout = None if self._tls is None else HANDSHAKE_TIMEOUT
        try:
            sock.setblocking(False)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, sock, ssl=self._tls, ssl_handshake_timeout=timeout
            )
        except OSError as error:  # ssl.SSLError and TimeoutError are some
            sock.close()
            self._web.leave(connection)
            lack = scarcity(error)
            if lack is not None:
                report(lack, what=f"clients of {self.bound}")
        except BaseException:
            sock.close()
            self._web.leave(connection)
            raise
        finally:
            self._arriving.pop(connection, None)

    def _make_room(self, rivals: set[str]) -> bool:
        """Whether somebody of these peers could go: who is being refused, who has been in its
        handshake for longest, who has been idle for longest."""
        if self.intake.lingering:
            self.intake.close(next(iter(self.intake.lingering)))
            return True
        if self._tls is not None:
            for arriving, sock in self._arriving.items():
                if arriving.peer in rivals and arriving.transport is None:
                    del self._arriving[arriving]
                    with suppress(OSError):
                        sock.shutdown(socket.SHUT_RDWR)
                    return True
        for connection in self._web.connections:  # the oldest first
            if (
                isinstance(connection, Connection)
                and connection.peer in rivals
                and connection not in self._busy
                and connection.transport is not None
            ):
                connection.force_close()
                return True
        return False

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        self._busy.add(connection)
        if isinstance(connection, Connection):
            connection.begins()
        try:
            refused = guarded(request) if self._options.guards else None
            return await self._handler(request) if refused is None else refused
        except ConnectionResetError:
            if request.transport is not None and not request.transport.is_closing():
                raise
            # The client has left and aiohttp has yet to say so: no one receives this.
            return web.Response(status=HTTPStatus.REQUEST_TIMEOUT)
        finally:
            self._busy.discard(connection)
            if isinstance(connection, Connection):
                connection.ends(request)


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


async def _unix_socket(path: str, mode: int) -> socket.socket:
    if await _is_served(path):
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.stat(path).st_mode):
            os.remove(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(path)
        # Before it listens: until then it has the mode of the process' umask, and refuses.
        os.chmod(path, mode)
    except OSError:
        sock.close()
        raise
    return sock


async def _bind_addresses(host: str) -> list[_BindAddress]:
    if host in _BOTH:
        v4, v6 = _BOTH[host]
        return [(socket.AF_INET, (v4,)), (socket.AF_INET6, (v6,))]
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # What is behind the port is the zone of an address of IPv6.
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


class _OwnFaults(logging.Filter):
    """A request that is no HTTP was answered with 4xx: its sender's fault is no traceback here."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | web.RequestPayloadError)


_OWN_FAULTS = _OwnFaults()
