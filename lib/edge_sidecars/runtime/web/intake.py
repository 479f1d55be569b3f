"""What one connection may send before it has sent a whole request: how much, and for how long.

aiohttp's connection with three rules more. Guarantees: a head is at most `max_head` bytes, and
whole within `HEAD_TIMEOUT`; what waits behind a request that is being answered is at most what was
received at once; all that is not whole counts in the listener's `Inflow`. At the first byte that is
no HTTP, or no UTF-8 in a head, there is one answer and the end. Nothing more is read, and what was
read is freed at once, not by the garbage collector. That comes late or never: aiohttp keeps the
exception, whose traceback leads to the bytes, in a cycle.
"""

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final

from aiohttp.http import HttpProcessingError
from aiohttp.http_exceptions import LineTooLong
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.web_protocol import _ErrInfo

from edge_sidecars.runtime.log import fields, logger, sparing
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.inflow import Inflow

# Bytes; what servers commonly take (nginx: 4 times 8 KiB, Node: 16 KiB).
MAX_HEAD: Final = 16 * 1024
# Seconds (limits.md, section 2); kube-apiserver waits for 32 (ReadHeaderTimeout).
HEAD_TIMEOUT: Final = 10.0
# Seconds that a refused client has to read its answer before the end, which, with bytes of its own
# unread, may overtake it: net/http, rstAvoidanceDelay.
LINGER: Final = 0.5
# Connections that wait so at a time, of each listener: what they have sent waits in the kernel.
MAX_LINGERING: Final = 128
# Bytes that are parsed together.
PIECE: Final = 64 * 1024
# Requests that wait behind the one that is being answered before no more is parsed: those of a
# piece may be more.
MAX_WAITING: Final = 2
# Bytes of a body that are still taken after its answer: as much as net/http does
# (maxPostHandlerReadBytes).
MAX_AFTERWARDS: Final = 256 * 1024
# Seconds in which it is to come.
AFTERWARDS: Final = 2.0
# What aiohttp's parser says of more than 128 (its max_headers).
TOO_MANY: Final = "Too many headers received"
END_OF_HEAD: Final = b"\r\n\r\n"


class BadRequest(HttpProcessingError):
    """What came is no request, or too long to be one; its `message` is for the client."""


class Intake:
    """What the connections of one listener have in common, and what became of them."""

    def __init__(self, *, max_head: int, write_timeout: float) -> None:
        self.max_head = max_head
        self.write_timeout = write_timeout
        self.inflow = Inflow()
        # Connections that were cut because the client did not read what was written.
        self.unread = 0
        self.lingering: set[asyncio.Transport] = set()
        # By the status of the answer; 0: none was due.
        self.refused: dict[int, int] = {}
        # Where it listens, for the log.
        self.name = ""

    def count(self, status: int, why: str) -> None:
        """Of a flood there is one line a minute."""
        self.refused[status] = self.refused.get(status, 0) + 1
        if sparing.allows("no request", self.name):
            logger.info(
                "what came is no request",
                extra=fields(
                    listen=self.name, status=status, why=why, refused=sum(self.refused.values())
                ),
            )

    def close(self, transport: asyncio.Transport) -> None:
        self.lingering.discard(transport)
        transport.close()

    def close_all(self) -> None:
        for transport in tuple(self.lingering):
            self.close(transport)


class IntakeConnection(web.RequestHandler):
    # Whether the handler keeps what it reads of the body until that is whole. Else what it does not
    # read makes the client wait, and only what is buffered counts.
    gathers_body = False

    def __init__(self, manager: web.Server, *, intake: Intake, **options: Any) -> None:
        most = intake.max_head
        super().__init__(
            manager,
            max_line_size=most,
            max_field_size=most,
            lingering_time=AFTERWARDS,
            read_bufsize=PIECE,
            **options,
        )
        self._intake = intake
        self._is_over = False
        self._last_body: Any = None
        # Received and not parsed; of a head that is not whole; of such a body.
        self._unparsed = b""
        self._head = 0
        self._head_since = 0.0
        self._body = 0
        # More of it waits for requests before it to be answered.
        self._is_held = False
        # Whether what is not whole has bytes that are not ASCII.
        self._is_foreign = False
        # The body of the last request that was answered; bytes of it that came since.
        self._answered: Any = None
        self._afterwards = 0
        self._broken: web.RequestPayloadError | None = None
        self._deadline: asyncio.TimerHandle | None = None

    # ── what comes ──

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._deadline = self._loop.call_later(HEAD_TIMEOUT, self._is_late)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._let_rest_go()
        self._is_over = True
        self._forget()
        super().connection_lost(exc)
        self._last_body = self._answered = None

    def data_received(self, data: bytes) -> None:
        if self._is_over or self._force_close or self._close:
            return
        if self._upgraded or self._payload_parser is not None:
            super().data_received(data)
            return
        if self._unparsed:
            data, self._unparsed = self._unparsed + data, b""
        self._parse(data)
        if not self._is_over:
            self._account()

    def begins(self) -> None:
        """A request is being answered: what is behind it may be parsed."""
        if self._messages or not (self._unparsed or self._is_held):
            return
        self._is_held = False
        self.data_received(b"")
        if not (self._is_held or self._reading_paused or self._is_over):
            self._read(True)

    def ends(self, request: web.BaseRequest) -> None:
        """Its handler does not read it any more."""
        self.gathers_body = False
        if self._broken is not None:
            # Its traceback leads to the frame that has waited for it, and so to itself.
            self._broken.__traceback__ = None
            self._broken = None
        if not self._is_over:
            self._answered = request.content

    def _parse(self, data: bytes) -> None:
        """As much as there is room for."""
        at = 0
        while True:
            room = PIECE if self._is_in_body else self._intake.max_head - self._head
            piece = data[at : at + min(room, PIECE)]
            self._parse_piece(piece)
            at += len(piece)
            if self._is_over:
                return
            if self._upgraded:
                if at < len(data):
                    super().data_received(data[at:])
                return
            if len(self._messages) >= MAX_WAITING:
                self._is_held = True
                self._read(False)
            if at >= len(data):
                return
            if self._is_held or self._reading_paused:
                self._unparsed = data[at:]
                return

    def _parse_piece(self, piece: bytes) -> None:
        was_in_body = self._is_in_body
        self._is_foreign = self._is_foreign or not piece.isascii()
        try:
            messages, upgraded, tail = self._parser.feed_data(piece)  # type: ignore[union-attr]
        except HttpProcessingError as error:
            self._is_no_request(error)
            return
        for message, body in messages:
            if self._is_foreign and not _is_utf8(message):
                self._refuse(HTTPStatus.BAD_REQUEST, "the head is not UTF-8")
                return
            self._request_count += 1
            self._last_body = body
            self._messages.append((message, body))
        if messages and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        self._upgraded = upgraded
        if upgraded:
            self._message_tail = tail
        self._count(piece, bool(messages), was_in_body)

    def _count(self, piece: bytes, has_come: bool, was_in_body: bool) -> None:
        """What is not whole after this piece."""
        if self._is_in_body:
            self._head = 0
            self._body = len(piece) + (0 if has_come else self._body)
            if self._is_afterwards:
                self._discard(len(piece))
            return
        self._body = 0
        if has_come or was_in_body:
            self._head_since = self._loop.time()
            end = piece.rfind(END_OF_HEAD)
            self._head = 0 if end < 0 else len(piece) - end - len(END_OF_HEAD)
            self._is_foreign = self._head > 0 and not piece[-self._head :].isascii()
        else:
            self._head += len(piece)
        if self._head >= self._intake.max_head:
            self._is_too_long()

    def _is_no_request(self, error: HttpProcessingError) -> None:
        if isinstance(error, LineTooLong):
            self._is_too_long()
        elif error.message == TOO_MANY:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, TOO_MANY)
        else:
            self._refuse(HTTPStatus.BAD_REQUEST, _reason(error))

    def _is_too_long(self) -> None:
        why = f"the head is longer than {self._intake.max_head} bytes"
        self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, why)

    @property
    def _is_in_body(self) -> bool:
        return self._last_body is not None and not self._last_body.is_eof()

    @property
    def _is_afterwards(self) -> bool:
        """Whether the rest of a body comes that was answered before it was whole."""
        return self._answered is self._last_body and self._is_in_body

    def _discard(self, size: int) -> None:
        self._afterwards += size
        if self._afterwards > MAX_AFTERWARDS:
            self._end()

    def _let_rest_go(self) -> None:
        """aiohttp's task waits for the rest of a body that was answered. Cancelled there, it would
        keep all of this in a cycle; with this it comes to its end."""
        if self._is_afterwards:
            self._last_body.feed_eof()
            self._task_handler = None

    def _account(self) -> None:
        body = 0
        if self._is_in_body:
            body = self._body if self.gathers_body else self._last_body._size
        self._intake.inflow.holds(self, len(self._unparsed) + self._head + body)
        if self._is_over:
            return
        if self._head and self._deadline is None:
            self._head_since = self._loop.time()
            self._deadline = self._loop.call_later(HEAD_TIMEOUT, self._is_late)
        elif not self._head and self._deadline is not None and self._last_body is not None:
            self._deadline.cancel()
            self._deadline = None

    # ── how it ends ──

    def _is_late(self) -> None:
        self._deadline = None
        left = self._head_since + HEAD_TIMEOUT - self._loop.time()
        if self._is_held or self._reading_paused:
            # It is us who do not read.
            left = HEAD_TIMEOUT
        if self._head and left > 0:
            self._deadline = self._loop.call_later(left, self._is_late)
        elif self._head:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, f"no whole head within {HEAD_TIMEOUT:g} s")
        elif self._last_body is None:
            self._intake.count(0, f"nothing within {HEAD_TIMEOUT:g} s")
            self._is_over = True
            self.force_close()

    def give_up(self) -> None:
        """Of all connections it has sent most that is no request yet."""
        if self._body or self._unparsed:
            status = HTTPStatus.SERVICE_UNAVAILABLE
        else:
            status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        self._last_word(status, "too much is on its way here that is not whole yet")

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        """After the answers of the requests before it."""
        if self._is_in_body:
            self._break_off(status, why)
            return
        # Where nothing has come yet, aiohttp's task may not have begun to wait.
        is_idle = self._waiter is not None or self._last_body is None
        if is_idle and not self._messages and self._current_request is None:
            self._last_word(status, why)
            return
        self._intake.count(status, why)
        self._is_over = True
        self._forget()
        self._read(False)
        error = BadRequest(code=status, message=why)
        self._messages.append((_ErrInfo(status, error, why), EMPTY_PAYLOAD))
        self._request_count += 1
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _break_off(self, status: HTTPStatus, why: str) -> None:
        """Within a body: who reads it hears of that, and what it answers is the answer."""
        self._intake.count(status, why)
        if self._is_afterwards:
            self._end()
            return
        self._is_over = True
        self._forget()
        self._read(False)
        # aiohttp would wait for the rest, and keep the exception in a cycle.
        self._lingering_time = 0.0
        self._broken = web.RequestPayloadError(why)
        self._last_body.set_exception(self._broken)

    def _last_word(self, status: HTTPStatus, why: str) -> None:
        """Now; what was asked before it is not answered any more."""
        self._intake.count(status, why)
        request, transport = self._current_request, self.transport
        if transport is not None and (request is None or not request.writer.output_size):
            transport.write(_answer(status, why))
        self._end()

    def _end(self) -> None:
        """Nothing is read or written here any more."""
        self._is_over = True
        self._forget()
        transport, request, intake = self.transport, self._current_request, self._intake
        if transport is None:
            return
        self._let_rest_go()
        self._read(False)
        manager, task = self._manager, self._task_handler
        if request is not None and manager is not None and task is not None:
            if manager.handler_cancellation:
                task.cancel()
            else:
                request._cancel(ConnectionResetError("the request was given up"))
        if not transport.can_write_eof() or len(intake.lingering) >= MAX_LINGERING:
            self.force_close()
            return
        # As `force_close`, but for the end of the transport.
        self._force_close, self.transport = True, None
        if self._waiter is not None:
            self._waiter.cancel()
        # The client may have gone meanwhile.
        with suppress(OSError, RuntimeError):
            transport.write_eof()
        intake.lingering.add(transport)
        self._loop.call_later(LINGER, intake.close, transport)

    def _forget(self) -> None:
        self._unparsed = b""
        self._head = self._body = 0
        self._parser = None
        self._intake.inflow.holds(self, 0)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _read(self, goes_on: bool) -> None:
        if self.transport is None:
            return
        # Closed, or of a kind that cannot; aiohttp ignores the same.
        with suppress(AttributeError, NotImplementedError, RuntimeError):
            if goes_on:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Its sender's fault is no traceback here."""
        if isinstance(exc, HttpProcessingError):
            # It leads to the bytes, and through the frame that has seen them to itself.
            exc.__traceback__ = None
            code, why = exc.code, _reason(exc)
        elif isinstance(exc, web.RequestPayloadError):
            code, why = int(HTTPStatus.BAD_REQUEST), "the body is not what its headers say"
            if not self._is_over:
                self._intake.count(code, why)
        else:
            return super().handle_error(request, status, exc, message)
        if request.writer.output_size:
            raise ConnectionError("an answer has begun")
        answer = web.Response(status=code, text=f"{why}\n")
        answer.force_close()
        return answer


def _reason(error: HttpProcessingError) -> str:
    """The lines after the first show what came."""
    return error.message.partition("\n")[0].rstrip(":")[:120]


def _is_utf8(message: Any) -> bool:
    """aiohttp lets other bytes through as lone surrogates, which cannot be written again."""
    try:
        message.path.encode()
        for name, value in message.headers.items():
            name.encode()
            value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _answer(status: HTTPStatus, why: str) -> bytes:
    body = f"{why}\n".encode()
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join([*lines, "", ""]).encode() + body
