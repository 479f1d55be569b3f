"""How the events of a watch travel over a connection: as lines, in HTTP's chunks, or as messages.

Each event is a line of JSON, its newline included. Whatever the framing, several events make one
piece of bytes, which all watchers with that framing share.
"""

from collections.abc import Callable, Sequence
from typing import Final

Framing = Callable[[Sequence[bytes]], bytes]
# RFC 6455, 5.2: the last frame of a message, which is text. A server masks nothing.
_TEXT: Final = 0x81
_MAX_SHORT: Final = 125
_TWO_BYTES, _EIGHT_BYTES = 126, 127


def as_lines(events: Sequence[bytes]) -> bytes:
    """A body without a framing: that of HTTP/1.0."""
    return b"".join(events)


def as_chunk(events: Sequence[bytes]) -> bytes:
    """One chunk of HTTP/1.1's chunked coding (RFC 9112, 7.1)."""
    lines = b"".join(events)
    return b"%x\r\n%s\r\n" % (len(lines), lines)


def as_messages(events: Sequence[bytes]) -> bytes:
    """A message of text for each event, as kube-apiserver sends them over a WebSocket
    (k8s.io/apiserver v0.37, pkg/endpoints/handlers/watch.go: HandleWS)."""
    pieces: list[bytes] = []
    for event in events:
        pieces.append(_head(len(event)))
        pieces.append(event)
    return b"".join(pieces)


def _head(size: int) -> bytes:
    if size <= _MAX_SHORT:
        return bytes((_TEXT, size))
    if size < 1 << 16:
        return bytes((_TEXT, _TWO_BYTES)) + size.to_bytes(2, "big")
    return bytes((_TEXT, _EIGHT_BYTES)) + size.to_bytes(8, "big")
