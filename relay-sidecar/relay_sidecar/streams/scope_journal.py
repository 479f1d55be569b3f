"""Streams and objects back after a restart; and what is known of scopes beside their streams,
persisted: at which version upstream held what a wider stream holds, and what the node itself asked
for.

Guarantee: after a restart while the link is cut, a list has the version that it had when the link
went. One version is written at once, those that follow within `PACE` together, and all that wait
when the link goes: clients that ask again and again cost the disk no write each.
"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from edge_sidecars.apimachinery.objects import Page
from edge_sidecars.apimachinery.scope import ListScope
from relay_sidecar.core.caching import NODE_SCOPES, may_be_kept
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import (
    Blob,
    ListReplaced,
    ObjectEvicted,
    Record,
    StreamDeleted,
)
from relay_sidecar.journal.records import Saved as SavedStreams
from relay_sidecar.journal.rows import scope_of
from relay_sidecar.journal.tables import scope_text
from relay_sidecar.streams.stream_journal import SPACE as EQUAL
from relay_sidecar.streams.stream_journal import (
    UNREADABLE,
    Equal,
    equal_record,
    key_of,
    missed_record,
    read_equal,
)
from relay_sidecar.streams.streams import Streams

# Of the journal's `Blob`.
SPACE: Final = "listed"
# Seconds.
PACE: Final = 1.0

Saved = Mapping[str, Mapping[bytes, bytes]]


class _Listed(Struct, frozen=True):
    """Upstream held at `version` objects of this fingerprint; which is longer than MessagePack's
    numbers."""

    version: int
    fingerprint: str


class ScopeJournal:
    """`saved` are the journal's spaces; to be made once the streams are restored."""

    def __init__(self, streams: Streams, journal: Journal, saved: Saved) -> None:
        self._streams = streams
        self._journal = journal
        self._states = streams.minimum.states
        # What is on disk, and scopes of which it may be something else.
        self._persisted: dict[ListScope, _Listed] = {}
        self._changed: set[ListScope] = set()
        self._writing: asyncio.Handle | None = None
        for scope in map(_read, saved.get(NODE_SCOPES, {})):
            streams.of_node.add(scope)
        for key, value in saved.get(SPACE, {}).items():
            scope, listed = _read(key), msgspec.msgpack.decode(value, type=_Listed)
            self._persisted[scope] = listed
            self._states.listed(scope, listed.version, int(listed.fingerprint, 16))
            self._changed.add(scope)
        self._write()
        self._states.on_change = self._note
        streams.of_node.on_change = self._note_node
        journal.rewrite_from(self._records)

    def link(self, is_up: bool) -> None:
        """What was handed out up to now is what clients have while the link is cut."""
        if not is_up:
            self._write()

    def _note_node(self, scope: ListScope, is_there: bool) -> None:
        self._journal.send(_of_node(scope, is_there=is_there))

    def _note(self, scope: ListScope) -> None:
        self._changed.add(scope)
        if self._writing is None:
            # What is listed is compared with its stream first.
            self._writing = asyncio.get_running_loop().call_soon(self._write_and_rest)

    def _write_and_rest(self) -> None:
        had_some = bool(self._changed)
        self._write()
        self._writing = None
        if had_some:
            loop = asyncio.get_running_loop()
            self._writing = loop.call_later(PACE, self._write_and_rest)

    def _write(self) -> None:
        changed, self._changed = self._changed, set()
        records = []
        for scope in changed:
            wanted, before = self._wanted(scope), self._persisted.pop(scope, None)
            if wanted is not None:
                self._persisted[scope] = wanted
            if wanted != before:
                records.append(_record(scope, wanted))
        if records:
            self._journal.send(*records)

    def _wanted(self, scope: ListScope) -> _Listed | None:
        """What a stream that answers for the scope does not say itself."""
        listed = self._states.get(scope)
        if listed is None:
            return None
        version, fingerprint = listed
        is_beyond = any(it.version < version for it in self._streams.covering(scope))
        return _Listed(version, f"{fingerprint:x}") if is_beyond else None

    def _records(self) -> Iterator[Blob]:
        for scope in self._streams.of_node:
            yield _of_node(scope, is_there=True)
        for scope, listed in self._persisted.items():
            yield _record(scope, listed)


def _record(scope: ListScope, listed: _Listed | None) -> Blob:
    value = None if listed is None else msgspec.msgpack.encode(listed)
    return Blob(SPACE, scope_text(scope).encode(), value, resource=scope.resource)


def _of_node(scope: ListScope, *, is_there: bool) -> Blob:
    key = scope_text(scope).encode()
    return Blob(NODE_SCOPES, key, b"" if is_there else None, resource=scope.resource)


def _read(key: bytes) -> ListScope:
    return scope_of(key.decode())


def everything(streams: Streams) -> Iterator[Record]:
    """What a disk that missed something is to be given."""
    for stream in streams:
        if stream.collection.is_synced:
            yield ListReplaced(
                stream.scope,
                stream.list_kind,
                stream.api_version,
                stream.collection.cursor,
                tuple(stream.collection.objects.values()),
                stream.confirmed_at,
            )
            if stream.equal_at:
                yield equal_record(stream)
            if not stream.is_whole:
                yield missed_record(stream)
    yield from streams.seen


def restore(streams: Streams, saved: SavedStreams, *, now: float, wall: float) -> list[Record]:
    """The streams and objects as the last run left them; times of use become monotonic ones.
    Returns what the disk is to lose: there is no room for it, or an earlier release kept what is
    never kept."""
    kept, unreadable = saved.kept.get(EQUAL, {}), saved.kept.get(UNREADABLE, {})
    surplus: list[Record] = []
    for one in saved.streams:
        if not may_be_kept(one.scope.resource):
            surplus += (StreamDeleted(one.scope), Blob(EQUAL, key_of(one.scope), None))
            continue
        lost = int(unreadable.get(key_of(one.scope), b"0"))
        page = Page(one.kind, one.api_version, one.cursor, "", one.items)
        used_at = now - max(wall - one.used_at, 0.0)
        equal = read_equal(kept, one.scope)
        if equal is None or equal.cursor != one.cursor:
            equal = Equal(one.cursor, 0, 0.0)
        streams.restore(
            one.scope,
            page,
            equal_at=equal.version,
            missed=lost,
            confirmed_at=max(one.confirmed_at, equal.at),
            now=used_at,
        )
    for seen in saved.seen:
        if not may_be_kept(seen.resource):
            surplus.append(ObjectEvicted(seen.resource, seen.item.key, seen.is_of_node))
            continue
        records = streams.seen.remember(
            seen.resource, seen.item, at=seen.at, is_of_node=seen.is_of_node
        )
        surplus += (record for record in records if isinstance(record, ObjectEvicted))
    return surplus
