"""LC's side of one stream: what GM's messages do to the store, and which reports are to be sent.

Owns the rules of versions; knows no sockets, no disk and no clock. One session, and one window, is
one connection: nothing of an earlier one is heard.

Guarantees (G4): of one uid a lower resourceVersion changes nothing; another uid is a deletion and a
creation; what a snapshot lacks is dropped at its end, and not before; an equal version costs no
write. The reports of one object leave in the order of their seq, each once, and once more where GM
stayed silent for long (it may have had no room, or have lost the lead in between). Nothing is
dropped here: only the store forgets reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

import msgspec

from edge_sidecars.sedna_api.core.api_object import Document, ObjectKey
from edge_sidecars.sedna_api.core.messages import (
    Ack,
    Delete,
    Drain,
    Hello,
    Pace,
    Put,
    ReportRefused,
    Rewound,
    SnapshotEnd,
    ToNode,
)
from edge_sidecars.sedna_api.core.report import Report


class Incarnation(NamedTuple):
    """Which object of that name, and its state."""

    uid: str
    resource_version: int


class RemoveObject(msgspec.Struct, frozen=True):
    """`resource_version`: the version at which it went, or the last one known."""

    key: ObjectKey
    uid: str
    resource_version: int


class KeepOnly(msgspec.Struct, frozen=True):
    """Everything else is to be removed: the snapshot is complete. `is_rewound`: it holds whatever
    the versions are, and the versions known before are of another history."""

    objects: frozenset[tuple[ObjectKey, str]]
    is_rewound: bool = False


# GM's message is the effect where nothing is to be judged: a `Put` replaces what has its key.
Effect: TypeAlias = Put | RemoveObject | KeepOnly | Ack | ReportRefused | Drain | Pace


class Session:
    """One connection's. `stored`: what the store holds under a key."""

    def __init__(self, store_id: str, stored: Callable[[ObjectKey], Document | None]) -> None:
        self._store_id = store_id
        self._stored = stored
        # What was decided on this connection: effects may not have reached the store yet.
        self._decided: dict[ObjectKey, Incarnation | None] = {}
        self._is_rewound = False
        self.has_snapshot = False

    def received(self, message: ToNode) -> tuple[Effect, ...]:
        """What is to be done, in this order."""
        match message:
            case Put():
                return self._put(message)
            case Delete():
                return self._delete(message)
            case SnapshotEnd():
                return (self._keep_only(),)
            case Rewound():
                self._is_rewound = True
                return ()
            case Ack(store_id) | ReportRefused(store_id):
                return (message,) if store_id == self._store_id else ()
            case Drain() | Pace():
                return (message,)

    def _put(self, put: Put) -> tuple[Effect, ...]:
        document, key = put.document, put.document.key
        held = self._held(key)
        new = Incarnation(document.uid, document.resource_version)
        if held is not None and held.uid == new.uid and not self._is_rewound:
            self._decided[key] = max(held, new, key=lambda one: one.resource_version)
            is_newer = new.resource_version > held.resource_version
            return (put,) if is_newer else ()
        self._decided[key] = new
        if held is not None and held.uid != new.uid:
            return (RemoveObject(key, held.uid, held.resource_version), put)
        return (put,)

    def _delete(self, delete: Delete) -> tuple[Effect, ...]:
        key = ObjectKey(delete.kind, delete.namespace, delete.name)
        held = self._held(key)
        if held is None or held.uid != delete.uid:
            return ()
        if delete.resource_version < held.resource_version and not self._is_rewound:
            return ()
        self._decided[key] = None
        return (RemoveObject(key, held.uid, delete.resource_version),)

    def _keep_only(self) -> KeepOnly:
        is_rewound, self._is_rewound = self._is_rewound, False
        self.has_snapshot = True
        kept = ((key, held.uid) for key, held in self._decided.items() if held is not None)
        return KeepOnly(frozenset(kept), is_rewound)

    def _held(self, key: ObjectKey) -> Incarnation | None:
        if key in self._decided:
            return self._decided[key]
        document = None if self.has_snapshot else self._stored(key)
        if document is None:
            return None
        return Incarnation(document.uid, document.resource_version)


def hello(node: str, store_id: str, known: Mapping[str, int], version: str) -> Hello:
    """A kind of which nothing is known is left out: GM waits for none of it."""
    versions = {kind: highest for kind, highest in known.items() if highest > 0}
    return Hello(node, store_id, versions, version)


# Seconds without an answer for an object after which its reports are sent again. A GM that works
# answers within one write to the API server and its time-out.
RESEND_AFTER: Final = 30.0


class SendWindow:
    """One connection's."""

    def __init__(self) -> None:
        # By uid: the highest seq that was sent, and when something last happened.
        self._sent: dict[str, int] = {}
        self._active_at: dict[str, float] = {}

    def due(self, pending: Iterable[Report], now: float) -> tuple[Report, ...]:
        """What is to be sent now, of everything that the store keeps, in order per object."""
        reports = tuple(pending)
        for report in reports:
            is_sent = report.seq <= self._sent.get(report.uid, 0)
            if is_sent and now - self._active_at[report.uid] >= RESEND_AFTER:
                del self._sent[report.uid]
        return tuple(one for one in reports if one.seq > self._sent.get(one.uid, 0))

    def sent(self, report: Report, now: float) -> None:
        self._sent[report.uid] = report.seq
        self._active_at[report.uid] = now

    def answered(self, uid: str, now: float) -> None:
        """GM answered a report of this object."""
        self._active_at[uid] = now

    def refused(self, uid: str) -> None:
        """What followed in flight was not taken, because the one before it is missing there."""
        self._sent.pop(uid, None)
