"""What one kind of reader sees of a stream: which objects, in which representation.

Turns items and changes into the bytes of list items and watch lines. Objects pass as upstream
sent them; `PartialObjectMetadata` is cut out of them. Knows no connection.
"""

from dataclasses import dataclass
from typing import Final

from edge_sidecars.apimachinery.objects import Item
from edge_sidecars.apimachinery.resource_version import metadata_only
from edge_sidecars.apimachinery.scope import Predicate
from edge_sidecars.apimachinery.store import ObjectChange, transition
from edge_sidecars.apimachinery.watch_events import EventType

_HEADS: Final = {each: b'{"type":"%s","object":' % each.encode() for each in EventType}


@dataclass(frozen=True, slots=True)
class StreamView:
    """`only` keeps what matches (None: all); `metadata` is meta.k8s.io's version to project to."""

    only: Predicate | None = None
    metadata: str | None = None

    def shows(self, item: Item) -> bool:
        return self.only is None or self.only.matches(item)

    def body(self, item: Item) -> bytes:
        if self.metadata is None:
            return item.raw
        return metadata_only(item.raw, self.metadata)

    def line(self, change: ObjectChange) -> bytes | None:
        """The line of a watch, None where this reader sees nothing of the change."""
        if self.only is None:
            return self._framed(change.type, change.item.raw)
        seen = transition(change, self.only.matches)
        return None if seen is None else self._framed(*seen)

    def added(self, item: Item) -> bytes:
        """The line of an object that was there before the watch."""
        return self._framed(EventType.ADDED, item.raw)

    def bookmark(self, version: int, kind: str, api_version: str, *, ends_initial: bool) -> bytes:
        """A BOOKMARK carries kind, apiVersion and the version only (KEP-956, KEP-3157)."""
        if self.metadata is not None:
            kind, api_version = "PartialObjectMetadata", self.metadata
        mark = b',"annotations":{"k8s.io/initial-events-end":"true"}' if ends_initial else b""
        return (
            b'{"type":"BOOKMARK","object":{"kind":"%s","apiVersion":"%s",'
            b'"metadata":{"resourceVersion":"%d"%s}}}\n'
            % (kind.encode(), api_version.encode(), version, mark)
        )

    def list_kind(self, kind: str, api_version: str) -> tuple[str, str]:
        if self.metadata is not None:
            return "PartialObjectMetadataList", self.metadata
        return kind, api_version

    def _framed(self, type: EventType, raw: bytes) -> bytes:
        if self.metadata is not None:
            raw = metadata_only(raw, self.metadata)
        return b"".join((_HEADS[type], raw, b"}\n"))
