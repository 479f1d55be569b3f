"""The body of one list: its parts as they are sent, compressed once however many ask for it.

Objects pass as they are, but for kind and apiVersion where kube-apiserver's lists leave them out. A
big list is never joined for one reader: what is written at once goes to the kernel as it lies in
memory. One of a few megabytes that several ask for is joined once. Knows no connection.
"""

import asyncio
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from copy import copy
from itertools import accumulate
from weakref import WeakKeyDictionary

from edge_sidecars.apimachinery.go_format import json_text
from edge_sidecars.apimachinery.objects import Item
from edge_sidecars.apimachinery.selection.shards import ShardSelector
from relay_sidecar.streams.fanout import StreamView

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


# k8s.io/apiserver: defaultGzipContentEncodingLevel.
GZIP_LEVEL = 1
# Bytes of lists that lie here in one piece beside their objects, of all streams together.
MAX_JOINED = 8 * 1024 * 1024
# Bytes of an object's place in a list: two pointers and a view (sys.getsizeof, rounded).
PIECE_BYTES = 200
_ITEMS = b'"items":['
_HEAD = b'{"kind":"%s","apiVersion":"%s","metadata":{"resourceVersion":"%d"%s},' + _ITEMS
_TAIL = b"]}\n"


class ListBody:
    """`length` in bytes, uncompressed."""

    def __init__(
        self, items: Sequence[Item], view: StreamView, *, kind: str, api_version: str, version: int
    ) -> None:
        # So API servers in Go begin an object of a type of their own, and in a list they leave it
        # out. A client of such types keeps what it finds there: client-go's comparison of a list
        # with a watch (util/consistencydetector) would fail. Custom resources begin differently.
        named = b'{"kind":"%s","apiVersion":"%s",' % (
            kind.removesuffix("List").encode(),
            api_version.encode(),
        )
        kind, api_version = view.list_kind(kind, api_version)
        self._kinds = kind.encode(), api_version.encode()
        self._shards = _shard_info(view.shards)
        shown = items if view.only is None else [item for item in items if view.shows(item)]
        self._lead, rests = _unnamed(_bodies(shown, view), named)
        self._is_empty = not rests
        copied = 0 if view.metadata is None else sum(map(len, rests))
        self._own = copied + PIECE_BYTES * len(rests)
        self._joined: Pieces | None = None
        self._loose = Pieces(_interleaved(self._begin(version), self._lead, rests))

    @property
    def length(self) -> int:
        return self._loose.length

    @property
    def size(self) -> int:
        """Bytes that it takes beside the objects."""
        compressed = self._compressed
        is_compressed = compressed is not None and compressed.done() and not compressed.cancelled()
        return (
            self._own
            + (self.length if self._joined is not None else 0)
            + (len(compressed.result()) if is_compressed and compressed is not None else 0)
        )

    def at(self, version: int) -> "ListBody":
        """The same objects at another version."""
        other = copy(self)
        first = other._begin(version)
        other._loose = self._loose.begun_with(first)
        if self._joined is not None:
            other._joined = self._joined.begun_with(first)
            _JOINED.hand_over(self, other)
        return other

    def _begin(self, version: int) -> bytes:
        """The first piece, at this version."""
        self.version = version
        self._is_read = False
        self._compressed: asyncio.Future[bytes] | None = None
        head = _HEAD % (*self._kinds, version, self._shards)
        return head + (_TAIL if self._is_empty else self._lead)

    def parts(self) -> Iterator[bytes]:
        """All of it, `PART` bytes each."""
        return self._pieces.parts()

    def part(self, at: int, size: int = PART) -> bytes | memoryview:
        """As `Pieces.part`."""
        return self._pieces.part(at, size)

    def rest(self, at: int, size: int) -> list[bytes | memoryview]:
        """Some `size` bytes that follow `at` ones."""
        return self._pieces.rest(at, size)

    def is_asked_for(self) -> None:
        """By one more reader. A list that several ask for is joined once for all of them."""
        if self._is_read and self._joined is None and _JOINED.make_room(self):
            self._joined = self._loose.joined()
        self._is_read = True

    def gives_way(self) -> None:
        """Others are asked for now."""
        self._joined = None

    @property
    def _pieces(self) -> Pieces:
        return self._joined or self._loose

    async def gzipped(self) -> bytes:
        """Made beside the event loop, once."""
        if self._compressed is None:
            loop = asyncio.get_running_loop()
            self._compressed = loop.run_in_executor(None, self._compress)
        return await asyncio.shield(self._compressed)

    def _compress(self) -> bytes:
        compress = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
        compressed = [compress.compress(part) for part in self.parts()]
        return b"".join([*compressed, compress.flush()])


class _Joined:
    """The bodies that are joined, of all streams: the one that was joined first gives way."""

    def __init__(self) -> None:
        # Ordered. Streams drop a body with the state that it shows.
        self._bodies: WeakKeyDictionary[ListBody, None] = WeakKeyDictionary()

    def make_room(self, body: ListBody) -> bool:
        """Whether it may be joined now."""
        if body.length > MAX_JOINED // 2:
            return False
        held = [*self._bodies]
        used = sum(one.length for one in held)
        for oldest in held:
            if used + body.length <= MAX_JOINED:
                break
            used -= oldest.length
            del self._bodies[oldest]
            oldest.gives_way()
        self._bodies[body] = None
        return True

    def hand_over(self, body: ListBody, successor: ListBody) -> None:
        """Which shows the same bytes."""
        self._bodies.pop(body, None)
        self._bodies[successor] = None


_JOINED = _Joined()


class Comparison:
    """Whether bytes that pass by are those of a list, whatever its version and page tokens."""

    def __init__(self, body: ListBody) -> None:
        self._parts = body.parts()
        self._expected = memoryview(b"")
        self._is_equal = True
        self._begun = b""
        self._skip_head()

    def more(self, passed: bytes) -> None:
        """The next bytes, in whichever pieces; the first one with the whole head."""
        rest = memoryview(passed)
        if not self._begun:
            self._begun = passed[:1]
            at = passed.find(_ITEMS)
            self._is_equal = at >= 0
            rest = rest[at + len(_ITEMS) :]
        while self._is_equal and rest:
            if not self._expected:
                self._expected = memoryview(next(self._parts, b""))
            size = min(len(rest), len(self._expected))
            # As bytes: views are compared byte by byte, which takes thirty times as long.
            self._is_equal = bool(size) and bytes(rest[:size]) == bytes(self._expected[:size])
            rest, self._expected = rest[size:], self._expected[size:]

    @property
    def is_equal(self) -> bool:
        """After all of them."""
        return self._is_equal and not self._expected and next(self._parts, None) is None

    def _skip_head(self) -> None:
        first = next(self._parts)
        self._expected = memoryview(first)[first.index(_ITEMS) + len(_ITEMS) :]


def _shard_info(shards: ShardSelector) -> bytes:
    """KEP-5866: that the list is not of all, but of these."""
    if shards.is_everything:
        return b""
    return b',"shardInfo":{"selector":%s}' % json_text(str(shards)).encode()


def _bodies(items: Sequence[Item], view: StreamView) -> list[bytes]:
    if view.metadata is None:
        return [item.raw for item in items]
    return [view.body(item) for item in items]


def _unnamed(bodies: list[bytes], named: bytes) -> tuple[bytes, list[bytes | memoryview]]:
    """What each object begins with in the list, and the rest of each; hardly any is a copy."""
    are_named = [body.startswith(named) for body in bodies]
    if all(are_named):
        begin = len(named)
        return b"{", [memoryview(body)[begin:] for body in bodies]
    if not any(are_named):
        return b"", [*bodies]
    # Objects of both kinds come from an API server that is being upgraded.
    return b"", [
        b"{" + body[len(named) :] if is_named else body
        for body, is_named in zip(bodies, are_named, strict=True)
    ]


def _interleaved(
    first: bytes, lead: bytes, rests: list[bytes | memoryview]
) -> list[bytes | memoryview]:
    """The list in pieces, at the speed of slices: there may be ten thousand objects."""
    if not rests:
        return [first]
    pieces: list[bytes | memoryview] = [b"," + lead] * (2 * len(rests) + 1)
    pieces[1::2] = rests
    pieces[0], pieces[-1] = first, _TAIL
    return pieces
