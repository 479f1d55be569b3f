"""What aiohttp's client does on the wire that no caller of this package may see.

It resends, forgets a reader whose connection broke, and has exceptions of its own; here stands
what undoes that. Knows no requests.
"""

import asyncio
import ssl
from collections.abc import Callable
from functools import partial

import aiohttp

from edge_sidecars.kubeapi.errors import Unreachable

# What a failed connection or a broken answer may raise below us; UnicodeError: a host name that
# cannot be one.
TRANSPORT_ERRORS = (aiohttp.ClientError, OSError, ssl.SSLError, asyncio.TimeoutError, UnicodeError)


async def never_resent(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """aiohttp repeats a request on its own connection errors only: it does not get to see any."""
    try:
        return await handler(request)
    except TRANSPORT_ERRORS as error:
        raise Unreachable(describe(error)) from error


def end_with_connection(response: aiohttp.ClientResponse) -> None:
    """After broken framing aiohttp closes the connection, but lets the body's reader wait on."""
    content, connection = response.content, response.connection
    if connection is None or connection.protocol is None:
        return  # released: the whole body is there

    def end(_: object) -> None:
        if not content.is_eof() and content.exception() is None:
            content.set_exception(aiohttp.ClientPayloadError("the answer broke off"))

    closed = connection.protocol.closed
    if closed is None:  # already
        end(None)
    else:
        closed.remove_done_callback(_retrieve)  # once on a connection, however often it is used
        closed.add_done_callback(_retrieve)
        closed.add_done_callback(end)
        content.on_eof(partial(_forget, closed, end))


def _retrieve(closed: asyncio.Future[None]) -> None:
    """Else asyncio reports an exception that nobody asked for."""
    if not closed.cancelled():
        closed.exception()


def _forget(closed: asyncio.Future[None], end: Callable[[object], None]) -> None:
    closed.remove_done_callback(end)


def read_at_once(response: aiohttp.ClientResponse) -> None:
    """Lets the connection go on when all that is there has been read, as `readany` does anyhow.
    aiohttp asks its parser to go on after each piece of what it has kept, and an API server sends
    a list in pieces of some 2 KiB: a third of what a long answer costs."""
    response.content._low_water = 1


def describe(error: BaseException) -> str:
    return str(error) or type(error).__name__
