"""The body of one list: its parts as they are sent, compressed once however many ask for it.

Objects pass as they are, but for kind and apiVersion where kube-apiserver's lists leave them out; a
big list is never in one piece, so that who reads it slowly costs no memory. Knows no connection.
"""

import asyncio
import zlib
from collections.abc import Iterator, Sequence

from edge_sidecars.apimachinery.go_format import json_text
from edge_sidecars.apimachinery.objects import Item
from edge_sidecars.apimachinery.selection.shards import ShardSelector
from relay_sidecar.streams.fanout import StreamView

# k8s.io/apiserver: defaultGzipContentEncodingLevel.
GZIP_LEVEL = 1
# Bytes that are joined for one write.
PART = 256 * 1024
_ITEMS = b'"items":['
_TAIL = b"]}\n"


class ListBody:
    """`length` in bytes, uncompressed."""

    def __init__(
        self, items: Sequence[Item], view: StreamView, *, kind: str, api_version: str, version: int
    ) -> None:
        self.version = version
        # So API servers in Go begin an object of a type of their own, and in a list they leave it
        # out. A client of such types keeps what it finds there: client-go's comparison of a list
        # with a watch (util/consistencydetector) would fail. Custom resources begin differently.
        named = b'{"kind":"%s","apiVersion":"%s",' % (
            kind.removesuffix("List").encode(),
            api_version.encode(),
        )
        kind, api_version = view.list_kind(kind, api_version)
        head = b'{"kind":"%s","apiVersion":"%s","metadata":{"resourceVersion":"%d"%s},"items":['
        info = _shard_info(view.shards)
        self._head = head % (kind.encode(), api_version.encode(), version, info)
        shown = items if view.only is None else [item for item in items if view.shows(item)]
        self._bodies = [_unnamed(view.body(item), named) for item in shown]
        commas = max(len(self._bodies) - 1, 0)
        size = sum(len(opening) + len(rest) for opening, rest in self._bodies)
        self.length = len(self._head) + size + commas + len(_TAIL)
        self._compressed: asyncio.Future[bytes] | None = None

    def parts(self) -> Iterator[bytes]:
        """About `PART` bytes each."""
        part: list[bytes | memoryview] = [self._head]
        size, comma = len(self._head), b""
        for opening, rest in self._bodies:
            part += (comma, opening, rest)
            size += len(rest)
            comma = b","
            if size > PART:
                yield b"".join(part)
                part, size = [], 0
        part.append(_TAIL)
        yield b"".join(part)

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


def _unnamed(raw: bytes, named: bytes) -> tuple[bytes, bytes | memoryview]:
    """The object in two pieces, none of them a copy."""
    if raw.startswith(named):
        return b"{", memoryview(raw)[len(named) :]
    return b"", raw
