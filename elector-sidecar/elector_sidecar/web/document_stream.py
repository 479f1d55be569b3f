"""A document at each change and each second, until the client leaves: `?watch=true`.

One JSON document per line, or server-sent events. A client that does not read is cut off as soon
as what it left unread fills its buffers: only then does it cost memory.
"""

import socket
from collections.abc import Callable

from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.connections import Connection
from elector_sidecar.elector import Elector

INTERVAL = 1.0
# About a minute of documents: kernel's and ours together; a reader that far behind is none.
SEND_BUFFER = 16 * 1024
UNREAD_LIMIT = 32 * 1024


async def follow(
    elector: Elector, request: web.BaseRequest, document: Callable[[float], bytes]
) -> web.StreamResponse:
    """`document(now)` is computed right before it is written; `now` on CLOCK_BOOTTIME."""
    wants_events = "text/event-stream" in request.headers.get("Accept", "")
    content_type = "text/event-stream" if wants_events else "application/json"
    response = web.StreamResponse(
        headers={"Content-Type": content_type, "Cache-Control": "no-store"}
    )
    transport = request.transport
    if transport is None:
        return response
    sock = transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    transport.set_write_buffer_limits(high=UNREAD_LIMIT * 2)
    if isinstance(request.protocol, Connection):
        request.protocol.is_lively = True
    await response.prepare(request)
    while not transport.is_closing():
        line = document(boottime())
        await response.write(b"data: %s\n\n" % line if wants_events else line + b"\n")
        if transport.get_write_buffer_size() > max(UNREAD_LIMIT, 2 * len(line)):
            transport.abort()
            break
        await elector.changed(INTERVAL)
    return response
