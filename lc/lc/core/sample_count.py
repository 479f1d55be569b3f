"""How many samples a dataset has: lines of a text, lines of a CSV but its header.

Guarantees: no line is held; a count goes on from where it stopped. A last line without an end
counts as one, and is the same one when it is completed; empty lines count, as Sedna counts them.
Whether what was counted is still what the file begins with, a `Position` judges by the file's
identity, its size and what was read last.
"""

import hashlib
from typing import Final

import msgspec
from msgspec.structs import replace

TEXT: Final = "txt"
CSV: Final = "csv"
FORMATS: Final = (TEXT, CSV)
# Bytes before the place where a count stopped, by which the file is known again.
TAIL: Final = 4096
DIGEST_BYTES: Final = 16


class Look(msgspec.Struct, frozen=True):
    """What the file system says of a file; `changed_at` in nanoseconds."""

    device: int
    inode: int
    size: int
    changed_at: int


class Position(msgspec.Struct, frozen=True, gc=False):
    """How far a dataset was counted; `url` and `format` as they were then.

    `validator` is what tells whether a remote one changed. `ends` are line ends up to `offset`;
    `is_open`: what follows the last of them is a line too. `tail` is a digest of the bytes before
    `offset`.
    """

    url: str
    format: str
    device: int = 0
    inode: int = 0
    changed_at: int = 0
    offset: int = 0
    ends: int = 0
    is_open: bool = False
    tail: bytes = b""
    validator: str = ""

    def samples(self) -> int:
        lines = self.ends + self.is_open
        return max(lines - 1, 0) if self.format == CSV else lines

    def is_current(self, look: Look) -> bool:
        """Nothing has happened to the file since."""
        return self._is_of(look) and (look.size, look.changed_at) == (self.offset, self.changed_at)

    def may_follow(self, look: Look) -> bool:
        """It may have grown; else it was truncated, rotated, or written anew in its place."""
        return self._is_of(look) and look.size > self.offset

    def follows(self, before: bytes) -> bool:
        """`before`: the bytes that end at `offset`, `TAIL` of them where there are as many."""
        return digest(before) == self.tail

    def begun_anew(self, look: Look) -> "Position":
        return Position(self.url, self.format, look.device, look.inode)

    def _is_of(self, look: Look) -> bool:
        return (self.device, self.inode) == (look.device, look.inode)


class SampleCounter:
    """Goes on from a position, chunk by chunk."""

    def __init__(self, position: Position, *, before: bytes = b"") -> None:
        self._position = position
        self._offset = position.offset
        self._ends = position.ends
        self._is_open = position.is_open
        self._last = before[-TAIL:]

    @property
    def offset(self) -> int:
        return self._offset

    def count(self, chunk: bytes) -> None:
        if not chunk:
            return
        self._offset += len(chunk)
        self._ends += chunk.count(b"\n")
        self._is_open = not chunk.endswith(b"\n")
        self._last = chunk[-TAIL:] if len(chunk) >= TAIL else (self._last + chunk)[-TAIL:]

    def position(self, *, changed_at: int = 0, validator: str = "") -> Position:
        return replace(
            self._position,
            offset=self._offset,
            ends=self._ends,
            is_open=self._is_open,
            tail=digest(self._last),
            changed_at=changed_at,
            validator=validator,
        )


def digest(tail: bytes) -> bytes:
    return hashlib.sha256(tail).digest()[:DIGEST_BYTES]


def encoded(position: Position) -> bytes:
    return msgspec.json.encode(position)


def decoded(kept: bytes) -> Position | None:
    """None for what another release wrote: the count begins anew."""
    try:
        return msgspec.json.decode(kept, type=Position)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
