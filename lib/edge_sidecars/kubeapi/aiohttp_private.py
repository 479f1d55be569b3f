"""All that kubeapi uses of aiohttp and asyncio without a promise of theirs, in one place.

aiohttp resends requests, lets the reader of a broken connection wait, and connects within the
request. This module changes that. The import fails with one line where the installed aiohttp lacks
what it uses. Knows no requests.
"""

import asyncio
import errno
import inspect
import os
import ssl
from collections.abc import Awaitable, Callable
from functools import cache, partial
from typing import Protocol, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler as ResponseHandler
from aiohttp.client_reqrep import ConnectionKey as ConnectionKey
from aiohttp.compression_utils import ZLibDecompressor
from aiohttp.connector import Connection as Connection
from aiohttp.helpers import TimerNoop
from aiohttp.http import StreamWriter
from aiohttp.tracing import Trace as Trace
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from edge_sidecars.kubeapi.credentials import client_context
from edge_sidecars.kubeapi.errors import Unreachable

# Each class with the attributes that this module and the connector use of it.
_USED: dict[type, tuple[str, ...]] = {
    aiohttp.TCPConnector: (
        "_create_connection",
        "_get",
        "_update_proxy_auth_header_and_build_proxy_req",
        "connect",
    ),
    aiohttp.ClientRequest: ("ssl",),
    aiohttp.ClientResponse: ("connection", "start"),
    aiohttp.StreamReader: ("_low_water", "on_eof", "set_exception", "exception", "is_eof"),
    # Before 3.14 it stops at the end of the first member of gzip. Each flush of a packed watch is
    # one (k8s.io/apiserver 0.37, perFlushGzipWriter): events would be lost.
    ZLibDecompressor: ("_new_decompressor",),
    ResponseHandler: (
        *("closed", "should_close", "is_connected", "set_parser", "connection_lost"),
        "set_response_params",
    ),
    StreamWriter: ("write_headers", "set_eof"),
}
_CONNECTS_WITH = "self, req, traces, timeout"
# What a failed connection or a broken answer may raise below us; UnicodeError: a host name that
# cannot be one.
TRANSPORT_ERRORS = (aiohttp.ClientError, OSError, ssl.SSLError, asyncio.TimeoutError, UnicodeError)

Connect = Callable[[], Awaitable[ResponseHandler]]


def missing_in_aiohttp() -> list[str]:
    """What this package uses and the installed aiohttp lacks, by name."""
    missing = [
        f"{owner.__name__}.{name}"
        for owner, names in _USED.items()
        for name in names
        if not hasattr(owner, name)
    ]
    if not missing:
        parameters = ", ".join(
            inspect.signature(aiohttp.TCPConnector._create_connection).parameters
        )
        if parameters != _CONNECTS_WITH:
            missing.append(f"TCPConnector._create_connection({_CONNECTS_WITH})")
    return missing


if _missing := missing_in_aiohttp():
    raise ImportError(
        f"aiohttp {aiohttp.__version__} cannot be used: it lacks {', '.join(_missing)}; "
        "install a version that tools/requirements names"
    )


def abort(transport: asyncio.BaseTransport) -> None:
    """Ends the connection at once. asyncio's TLS transport gives its protocol up when it is closed
    twice, as aiohttp does, and Python 3.11.2 (Debian 12) then raises AttributeError in `abort`."""
    if getattr(transport, "_ssl_protocol", transport) is not None:
        cast(asyncio.WriteTransport, transport).abort()


def describe(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        # aiohttp's own text says `ssl:default` of plain HTTP too; asyncio's names the address again
        # in place of the reason.
        number = error.os_error.errno
        is_plain = type(error.os_error) is OSError or isinstance(error.os_error, ConnectionError)
        why = error.strerror
        if is_plain and number is not None and number in errno.errorcode:
            why = os.strerror(number)
        return f"Cannot connect to host {error.host}:{error.port} [{why}]"
    return str(error) or type(error).__name__


async def never_resent(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """A middleware. aiohttp repeats a request on its own connection errors only: it does not get
    to see any."""
    try:
        return await handler(request)
    except TRANSPORT_ERRORS as error:
        raise Unreachable(describe(error)) from error


class ConnectionMaker(Protocol):
    """Makes connections for connectors; `connector` opens them."""

    connector: aiohttp.TCPConnector

    async def connection(self, key: ConnectionKey, connect: Connect) -> ResponseHandler: ...


class ProxiedConnector(aiohttp.TCPConnector):
    """To an https proxy it shows no certificate of ours, and believes those that the system does.
    aiohttp takes the context that is for the server."""

    def _update_proxy_auth_header_and_build_proxy_req(
        self, req: aiohttp.ClientRequest
    ) -> aiohttp.ClientRequest:
        found = super()._update_proxy_auth_header_and_build_proxy_req(req)
        if found.is_ssl():
            found._ssl = system_tls()
        return found


@cache
def system_tls() -> ssl.SSLContext:
    return client_context(None)


class DelegatingConnector(ProxiedConnector):
    """Its connections are made by `maker`, where there is one."""

    maker: ConnectionMaker | None = None

    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        if self.maker is None:
            return await super()._create_connection(req, traces, timeout)
        connect = partial(self.maker.connector._create_connection, req, traces, timeout)
        return await self.maker.connection(req.connection_key, connect)

    async def again(self, connection: Connection) -> Connection | None:
        """The connection that was released, for another request; None where it is gone."""
        return await self._get(connection._key, [])


async def ask_again(
    connection: Connection,
    method: str,
    url: URL,
    headers: CIMultiDict[str],
    *,
    auto_decompress: bool,
    read_bufsize: int,
    max_field_size: int,
) -> aiohttp.ClientResponse:
    """The response to a request without a body, over a connection that was used before. What
    aiohttp's session does around this, for cookies, redirects and middlewares, is a quarter of what
    a short answer costs."""
    loop, handler = asyncio.get_running_loop(), connection.protocol
    try:
        if handler is None:
            raise aiohttp.ServerDisconnectedError
        handler.set_response_params(
            skip_payload=method == "HEAD",
            read_until_eof=True,
            auto_decompress=auto_decompress,
            read_bufsize=read_bufsize,
            max_field_size=max_field_size,
        )
        writer = StreamWriter(handler, loop)
        sent = CIMultiDict([("Host", url.host_port_subcomponent or ""), *headers.items()])
        await writer.write_headers(f"{method} {url.raw_path_qs} HTTP/1.1", sent)
        writer.set_eof()
        response = aiohttp.ClientResponse(
            method,
            url,
            writer=None,
            continue100=None,
            timer=TimerNoop(),
            request_info=aiohttp.RequestInfo(url, method, CIMultiDictProxy(sent)),
            traces=[],
            loop=loop,
            session=None,  # type: ignore[arg-type]
            stream_writer=writer,
        )
        try:
            return await response.start(connection)
        except BaseException:  # a cancelled request too: aiohttp warns of a response left open
            response.close()
            raise
    except BaseException:
        connection.close()
        raise


def is_reusable(handler: ResponseHandler) -> bool:
    """Whether the connection is open, and has no unread byte."""
    return handler.is_connected() and not handler.should_close


def handler_of(response: aiohttp.ClientResponse) -> ResponseHandler | None:
    """None as soon as the whole body is there."""
    return None if response.connection is None else response.connection.protocol


def end_with_connection(response: aiohttp.ClientResponse) -> None:
    """After broken framing aiohttp closes the connection, but lets the body's reader wait on."""
    content, handler = response.content, handler_of(response)
    if handler is None:
        return

    def end(_: object) -> None:
        if not content.is_eof() and content.exception() is None:
            content.set_exception(aiohttp.ClientPayloadError("the answer broke off"))

    closed = handler.closed
    if closed is None:  # already
        end(None)
    else:
        closed.remove_done_callback(_retrieve)  # once on a connection, however often it is used
        closed.add_done_callback(_retrieve)
        closed.add_done_callback(end)
        content.on_eof(partial(_forget, closed, end))


def _retrieve(closed: asyncio.Future[None]) -> None:
    """Else asyncio reports an exception that no task awaits."""
    if not closed.cancelled():
        closed.exception()


def _forget(closed: asyncio.Future[None], end: Callable[[object], None]) -> None:
    closed.remove_done_callback(end)


def read_at_once(response: aiohttp.ClientResponse) -> None:
    """Lets the connection go on when all that is there has been read, as `readany` does anyhow.
    aiohttp asks its parser to go on after each piece that it has buffered, and an API server sends
    a list in pieces of some 2 KiB: a third of what a long answer costs."""
    response.content._low_water = 1


def take_over(
    response: aiohttp.ClientResponse, receiver: asyncio.Protocol
) -> asyncio.Transport | None:
    """Hands the connection of a 101 to `receiver`, the first bytes before this returns; None if it
    is gone already."""
    handler = handler_of(response)
    transport = None if handler is None else handler.transport
    if handler is None or transport is None or transport.is_closing():
        return None
    early = _EarlyBytes()
    handler.set_parser(early, None)
    transport.set_protocol(_Heir(receiver, handler))
    receiver.connection_made(transport)
    if early.content:
        receiver.data_received(bytes(early.content))
    if not transport.is_reading():
        transport.resume_reading()
    return transport


class _EarlyBytes:
    """A parser for what came right behind the head."""

    def __init__(self) -> None:
        self.content = bytearray()

    def feed_data(self, content: bytes) -> tuple[bool, bytes]:
        self.content += content
        return False, b""

    def feed_eof(self) -> None:
        """Called when the connection ends."""


class _Heir(asyncio.Protocol):
    """Receives for `receiver`; aiohttp learns only that the connection ended, and can forget it."""

    def __init__(self, receiver: asyncio.Protocol, handler: ResponseHandler) -> None:
        self._handler = handler
        self._receiver = receiver

    def data_received(self, data: bytes) -> None:
        self._receiver.data_received(data)

    def eof_received(self) -> bool | None:
        return self._receiver.eof_received()

    def pause_writing(self) -> None:
        self._receiver.pause_writing()

    def resume_writing(self) -> None:
        self._receiver.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._receiver.connection_lost(exc)
        self._handler.connection_lost(exc)
