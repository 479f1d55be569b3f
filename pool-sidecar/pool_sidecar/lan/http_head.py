"""The head of a request or answer, as far as members need HTTP: no body, no folding.

Guarantee: a head is bounded in bytes and seconds.
"""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

# Bytes; ours have some 200.
MAX_HEAD: Final = 8192
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class BadHead(Exception):
    """What came is not the head of a message."""


@dataclass(frozen=True)
class Head:
    """`first`: the three words of the first line; `headers` by lower-case names."""

    first: tuple[str, str, str]
    headers: Mapping[str, str]


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """None where the other end closed before it began. Raises `BadHead`, OSError."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise BadHead("it broke off") from error
        return None
    except asyncio.LimitOverrunError as error:
        raise BadHead(f"over {MAX_HEAD} bytes") from error
    line, *rest = raw[:-4].decode("latin-1").split("\r\n")
    # RFC 9112, 2.2: a bare CR or LF is a line's end to some and not to others.
    if any(_CONTROL.search(it) for it in (line, *rest)):
        raise BadHead("it has a control character")
    words = line.split(" ", 2)
    if len(words) != 3 or not all(words):
        raise BadHead("its first line is none of HTTP")
    headers = {}
    for each in rest:
        name, colon, value = each.partition(":")
        if not colon or not name or name != name.strip() or name.lower() in headers:
            raise BadHead("a header is none, or is there twice")
        headers[name.lower()] = value.strip()
    return Head((words[0], words[1], words[2]), headers)


# Of a state: by what the peer is known again at its next handshake.
TICKET: Final = "Pool-Ticket"


def answer(
    status: HTTPStatus, body: bytes = b"", *, is_last: bool = False, ticket: str = ""
) -> bytes:
    """A whole answer; JSON where it has a body and is 200."""
    lines = [f"HTTP/1.1 {status.value} {status.phrase}"]
    if status is not HTTPStatus.OK or body:
        lines.append(f"Content-Length: {len(body)}")
    if body:
        kind = "application/json" if status is HTTPStatus.OK else "text/plain; charset=utf-8"
        lines.append(f"Content-Type: {kind}")
    if ticket:
        lines.append(f"{TICKET}: {ticket}")
    if is_last:
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def refusal(status: HTTPStatus, why: str) -> bytes:
    """An answer after which the connection is closed."""
    return answer(status, f"{why}\n".encode(), is_last=True)
