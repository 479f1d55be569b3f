"""A list that is read while it arrives, so that little is left to do when its last byte is there.

Knows no connection. Guarantees: what it reads is what `read_page` reads, and what it cannot read
piece by piece is left to that: a candidate for an item counts only when it is one whole JSON
object, which no text of an array's element is before its own end.
"""

from typing import Final

from edge_sidecars.apimachinery.objects import (
    Item,
    Malformed,
    Page,
    Prefixes,
    read_item,
    read_page,
)

# Where the types of an API server in Go have their items: behind kind, apiVersion and metadata.
_ITEMS: Final = b'"items":['
# Bytes in which that is to be found.
_HEAD: Final = 16 * 1024
# Objects may hold arrays of what looks like items. After so many that did not end where it seemed,
# the list is read at its end.
_MISTAKES: Final = 16


class ArrivingList:
    """Of one body, which is handed over as far as it has come, each time from its first byte on.
    Its items are told in batches of at least so many bytes."""

    def __init__(self, *, batch: int = 1) -> None:
        self._batch = batch
        self._told = self._untold_bytes = 0
        self._head: Page | None = None
        self._prefixes: Prefixes | None = None
        self._items: list[Item] = []
        self._is_given_up = False
        # What is between two items: the end of one and the beginning of the next.
        self._border = b""
        self._start = self._look_from = 0
        self._mistakes = 0

    def more(self, body: bytearray) -> list[Item]:
        """The next batch of items, once it is there; items of the last one may never be told."""
        self._read(body)
        if self._untold_bytes < self._batch:
            return []
        told, self._told, self._untold_bytes = self._told, len(self._items), 0
        return self._items[told:]

    def whole(self, body: bytearray) -> Page:
        """The list, once all of it is there. Raises `Malformed`."""
        self._read(body)
        head, prefixes = self._head, self._prefixes
        last = bytes(body[self._start :]).rstrip()
        if head is None or prefixes is None or self._is_given_up or not last.endswith(b"}]}"):
            return read_page(body)
        try:
            self._items.append(read_item(last[:-2], prefixes))
        except Malformed:
            return read_page(body)
        return Page(
            head.kind,
            head.api_version,
            head.version,
            head.continue_token,
            self._items,
            head.remaining,
        )

    def _read(self, body: bytearray) -> None:
        if self._head is None and not self._is_given_up:
            self._begin(body)
        prefixes = self._prefixes
        while prefixes is not None and not self._is_given_up:
            end = body.find(self._border, self._look_from)
            if end < 0:
                self._look_from = max(self._start, len(body) - len(self._border))
                break
            self._look_from = end + 1
            try:
                item = read_item(bytes(body[self._start : end + 1]), prefixes)
            except Malformed:
                self._mistakes += 1
                self._is_given_up = self._mistakes > _MISTAKES
                continue
            self._items.append(item)
            self._untold_bytes += len(item.raw)
            self._start = end + 2

    def _begin(self, body: bytearray) -> None:
        """Looks for the first item."""
        found = body.find(_ITEMS, 0, _HEAD)
        start = found + len(_ITEMS)
        colon = body.find(b":", start, start + _HEAD)
        if found < 0 or colon < 0:
            self._is_given_up = len(body) > 2 * _HEAD
            return
        try:
            self._head = read_page(body[:start] + b"]}")
        except Malformed:
            # Custom resources tell their metadata behind the items.
            self._is_given_up = True
            return
        kind = self._head.kind.removesuffix("List")
        self._prefixes = Prefixes(kind, self._head.api_version)
        self._border = bytes(b"}," + body[start : colon + 1])
        self._start = self._look_from = start
