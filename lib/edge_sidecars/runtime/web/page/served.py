"""The files of a component's page, and its status document as server-sent events.

Guarantees: the page loads nothing of another host and runs no script but its own. A stream sends a
change within two ticks, and the document each second. All streams together compute the document
once a tick, and spend at most a tenth of a processor on it. A client that reads slowly gets fewer
documents, and has at most one of them unread; one that reads nothing is cut off. Streams end with
their listener at once, and no shutdown waits for them. Files are read outside of the event loop,
because a disk may be slow.
"""

import asyncio
import re
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.connections import Connection
from edge_sidecars.runtime.web.cross_site import own_hosts, refuse
from edge_sidecars.runtime.web.endpoints import json, text
from edge_sidecars.runtime.web.page.asked import EVENTS, FILES

# Seconds between two looks whether the document has changed.
TICK: Final = 0.1
# A document that takes longer is computed less often: so many times as long lies between two.
SHARE: Final = 10
# Seconds between two documents at most: a page finds out by it that its server is gone.
INTERVAL: Final = 1.0
# Seconds in which a client that has a whole document unread has to read some of it.
STALLED: Final = 10.0
# Bytes that wait in the kernel; ours has one document beside.
SEND_BUFFER: Final = 16 * 1024
# Bytes: the most that uvloop takes, which has it in an int of C.
UNLIMITED: Final = 2**31 - 1
# Seconds after which a page that found no place is to ask again.
RETRY_AFTER: Final = "5"

# What only runs on by itself is no change.
_RUNNING: Final = re.compile(rb'"\w*[sS]econds": ?[0-9.e-]+')
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FOLDER: Final = Path(__file__).parent / "files"
_SHELL: Final = "shell.html"
_SHARED: Final = ("page.js", "shell.js", "style.css", "icon.svg")
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class ServedPage:
    def __init__(
        self,
        component: str,
        document: Callable[[], bytes],
        *,
        streams: int,
        draws: Sequence[str] = (),
    ) -> None:
        self._component = component
        self._document = document
        self._streams = streams
        self._files = (_SHELL, *_SHARED, *(f"{it}.js" for it in (component, *draws)))
        self._open = 0
        self._newest = b""
        # The same as an event, and the part in which a change is one: one copy of each, which all
        # streams share.
        self._event = self._lasting = b""
        self._is_due_at = 0.0

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == EVENTS:
            return await self._events(request)
        name = _SHELL if request.path == "/" else request.path.removeprefix(FILES)
        if name not in self._files:
            return text(404, f"unknown path {request.path!r:.120}")
        content = await asyncio.to_thread((_FOLDER / name).read_bytes)
        if name == _SHELL:
            content = content.replace(b"COMPONENT", self._component.encode())
        kind = _TYPES[Path(name).suffix]
        return web.Response(body=content, headers={**HEADERS, "Content-Type": kind})

    async def _events(self, request: web.BaseRequest) -> web.StreamResponse:
        """A page of another site could not read them, but take their places."""
        if (refused := refuse(request, hosts=own_hosts(request))) is not None:
            return refused
        wants_events = "text/event-stream" in request.headers.get("Accept", "")
        if request.method != "GET" or not wants_events:
            answer = json(self._message(time.monotonic()))
            answer.headers.update(HEADERS)
            return answer
        if self._open >= self._streams:
            line = f"{self._streams} pages follow this process already: ask without a stream"
            return text(503, line, {"Retry-After": RETRY_AFTER})
        self._open += 1
        try:
            return await self._follow(request)
        finally:
            self._open -= 1

    async def _follow(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
        transport = request.transport
        if transport is None:
            return response
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        # A write never waits: nothing more is written to a client that has not read the last.
        transport.set_write_buffer_limits(high=UNLIMITED)
        connection = request.protocol
        if isinstance(connection, Connection):
            connection.is_lively = True
        await response.prepare(request)
        shown, shown_at, unread = b"", 0.0, 0
        read_at = time.monotonic()
        while not transport.is_closing():
            now = time.monotonic()
            left = transport.get_write_buffer_size()
            if not left:
                self._message(now)
                lasting = self._lasting
                if lasting != shown or now - shown_at >= INTERVAL:
                    await response.write(self._event)
                    shown, shown_at = lasting, now
            if left < unread or not left:
                read_at = now
            elif now - read_at >= STALLED:
                transport.abort()
                break
            unread = left
            if isinstance(connection, Connection) and connection.is_closing_down:
                break
            await asyncio.sleep(TICK)
        return response

    def _message(self, now: float) -> bytes:
        """The document, with whose it is, and the wall clock of this machine, by which its stamps
        are shown."""
        if now >= self._is_due_at:
            self._newest = b'{"component":"%b","wallSeconds":%.3f,"status":%b}' % (
                self._component.encode(),
                time.time(),
                self._document().strip(),
            )
            self._event = b"data: %b\n\n" % self._newest
            self._lasting = _RUNNING.sub(b"", self._newest)
            took = time.monotonic() - now
            self._is_due_at = now + max(TICK / 2, took * SHARE)
        return self._newest
