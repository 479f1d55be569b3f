"""Bytes of a long body in the pieces that it is made of, from any place in it on.

Pure. A list of megabytes is never joined for one reader: what is written at once goes to the kernel
as it lies in memory, and of what waits for a slow reader only a part is joined.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

# Bytes that are joined for one write.
PART = 256 * 1024
# Bytes of a piece that is a part by itself.
ALONE = 64 * 1024
# Pieces of one system call: limits.h, IOV_MAX.
MOST = 1024


class Pieces:
    def __init__(self, pieces: Sequence[bytes | memoryview]) -> None:
        """None of them is empty."""
        self._pieces = pieces
        self._ends = array("Q", accumulate(map(len, pieces)))

    @property
    def length(self) -> int:
        return self._ends[-1] if self._ends else 0

    def begun_with(self, first: bytes) -> "Pieces":
        """The same with another first piece."""
        return Pieces([first, *self._pieces[1:]])

    def joined(self) -> "Pieces":
        """The same in parts, but for the first piece."""
        return Pieces([*self._pieces[:1], *Pieces(self._pieces[1:]).parts()])

    def rest(self, at: int, size: int) -> list[bytes | memoryview]:
        """What follows `at` bytes: `size` of them or a piece more, as much as one system call
        takes."""
        first = bisect_right(self._ends, at)
        behind = min(bisect_right(self._ends, at + size) + 1, first + MOST)
        pieces = [*self._pieces[first:behind]]
        if pieces:
            inside = at - (self._ends[first] - len(pieces[0]))
            pieces[0] = memoryview(pieces[0])[inside:]
        return pieces

    def part(self, at: int, size: int = PART) -> bytes | memoryview:
        """What follows `at` bytes, `size` of them at most, or one piece of up to `PART`: no copy
        where they lie together."""
        first = bisect_right(self._ends, at)
        if first == len(self._ends):
            return b""
        piece = self._pieces[first]
        inside = at - (self._ends[first] - len(piece))
        if not inside and len(piece) <= PART and (len(piece) >= ALONE or piece is self._pieces[-1]):
            return piece
        if len(piece) - inside >= ALONE:
            return memoryview(piece)[inside : inside + size]
        behind = bisect_right(self._ends, at + size) + 1
        pieces = [*self._pieces[first:behind]]
        surplus = self._ends[first + len(pieces) - 1] - at - size
        if surplus > 0:
            pieces[-1] = memoryview(pieces[-1])[:-surplus]
        pieces[0] = memoryview(pieces[0])[inside:]
        return b"".join(pieces)

    def parts(self) -> Iterator[bytes]:
        """All of it, copied piece by piece where it is not in parts."""
        at = 0
        while at < self.length:
            part = bytes(self.part(at))
            yield part
            at += len(part)
