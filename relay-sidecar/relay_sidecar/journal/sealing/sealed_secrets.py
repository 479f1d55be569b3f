"""Secrets on their way to the journal and back: sealed, or not written at all. What says who may
read them, on the same way: authenticated (`authentic_rows`).

Guarantees: Only Secrets that were watched by name are written, never a list of all. A stream of
which one row cannot be unsealed is unknown as a whole, since a part of it would pass for all. What
another key sealed stays until the first row is sealed with this one.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from edge_sidecars.apimachinery.objects import Item
from edge_sidecars.apimachinery.scope import ListScope
from relay_sidecar.journal.journal import is_secret, without_secrets
from relay_sidecar.journal.records import (
    Blob,
    EventsApplied,
    ListReplaced,
    Record,
    Saved,
    SavedStream,
    StreamDeleted,
    StreamTouched,
)
from relay_sidecar.journal.sealing.authentic_rows import SPACES as AUTHENTIC_SPACES
from relay_sidecar.journal.sealing.authentic_rows import AuthenticRows
from relay_sidecar.journal.sealing.sealer import Sealer

# The journal's space of the wrapped data key.
SPACE: Final = "sealing"
DATA_KEY: Final = b"data-key"
# The journal's space of kept TokenRequest answers, which their owner seals.
TOKENS: Final = "tokens"
NAME: Final = "metadata.name"


class SealedSecrets:
    """Of one journal."""

    def __init__(self, sealer: Sealer) -> None:
        self.sealer = sealer
        self.rows = AuthenticRows(sealer)
        self._unknown: list[Record] = []
        self._is_new = sealer.is_new

    @property
    def failure(self) -> str | None:
        """Why a restart now would not find what is watched by name, or what an earlier life sealed
        is unknown; None where neither is so. With the first row that a new key seals, what was
        sealed before is over."""
        is_over = self.sealer.is_new and not self._is_new
        return None if is_over else self.sealer.failure

    def stored(self, record: Record) -> Sequence[Record]:
        """What is written instead of a record; nothing, where nothing may be."""
        if isinstance(record, Blob) and record.space in AUTHENTIC_SPACES:
            written = self.rows.stored(record)
            return self._with_data_key(written) if self.rows.is_active else written
        is_token = isinstance(record, Blob) and record.space == TOKENS and record.value is not None
        if not is_token and without_secrets(record):
            return (record,)
        sealed = record if is_token else self._sealed(record)
        return () if sealed is None else self._with_data_key((sealed,))

    def all_stored(self, records: Iterable[Record]) -> list[Record]:
        """The same of all records that the disk is to hold from now on, and of no others."""
        self.rows.begin_anew()
        return [
            *(stored for record in records for stored in self.stored(record)),
            *self.rows.records(),
        ]

    def records(self) -> list[Record]:
        """The data key, once something is sealed with it."""
        if self._is_new or self.sealer.wrapped is None:
            return []
        return [Blob(SPACE, DATA_KEY, self.sealer.wrapped)]

    def restored(self, saved: Saved) -> tuple[Saved, list[Record]]:
        """With the Secrets that can be read and the rows that are authentic, and what the disk is
        to lose. What another key sealed is deleted with the first row that this one seals."""
        if self.sealer.is_new:
            tokens = saved.kept.get(TOKENS, {})
            self._unknown += [Blob(TOKENS, name, None) for name in tokens]
        saved, outdated = self.rows.verified(saved)
        streams = [self._restored(stream) for stream in saved.streams]
        known = replace(saved, streams=[stream for stream in streams if stream is not None])
        return known, outdated

    def _with_data_key(self, records: Sequence[Record]) -> Sequence[Record]:
        """The first that are sealed or authenticated with a new data key bring it."""
        if not self._is_new:
            return records
        self._is_new = False
        outdated, self._unknown = self._unknown, []
        tagged = [] if self.rows.is_active else self.rows.activate()
        return (*self.records(), *outdated, *tagged, *records)

    def _sealed(self, record: Record) -> Record | None:
        match record:
            case ListReplaced() if is_by_name(record.scope):
                items = self._all(record.scope, record.items)
                return None if items is None else replace(record, items=items)
            case EventsApplied() if is_by_name(record.scope):
                present = [item for _, item in record.changes if item is not None]
                items = self._all(record.scope, present)
                if items is None:
                    return None
                left = iter(items)
                changes = [
                    (key, None if item is None else next(left)) for key, item in record.changes
                ]
                return replace(record, changes=changes)
            case StreamDeleted() | StreamTouched():
                return record
            case _:
                return None

    def _all(self, scope: ListScope, items: Iterable[Item]) -> list[Item] | None:
        """None where nothing can be sealed."""
        sealed = []
        for item in items:
            namespace, name = item.key
            raw = self.sealer.seal(
                item.raw,
                resource=str(scope.resource),
                namespace=namespace,
                name=name,
                # Known only once it is unsealed; no version is another object's.
                uid="",
                version=item.version,
            )
            if raw is None:
                return None
            sealed.append(replace(item, raw=raw))
        return sealed if self.sealer.wrapped is not None else None

    def _restored(self, stream: SavedStream) -> SavedStream | None:
        if not is_secret(stream.scope.resource):
            return stream
        items = []
        for item in stream.items:
            namespace, name = item.key
            raw = self.sealer.unseal(
                item.raw,
                resource=str(stream.scope.resource),
                namespace=namespace,
                name=name,
                uid="",
                version=item.version,
            )
            if raw is None:
                self._unknown.append(StreamDeleted(stream.scope))
                return None
            items.append(replace(item, raw=raw))
        return replace(stream, items=items)


def is_by_name(scope: ListScope) -> bool:
    return bool(scope.namespace) and scope.fields.exact(NAME) is not None
