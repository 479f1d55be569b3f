"""LC's side of one stream: what GM's messages do to the store.

Owns the rules of versions; knows no sockets, no disk and no clock. Guarantees (G4): of one uid a
lower resourceVersion changes nothing; another uid is a deletion and a creation; what a snapshot
lacks is dropped at its end, and not before; an equal version costs no write. One session is one
connection: nothing of an earlier one is heard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

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


class Incarnation(NamedTuple):
    """Which object of that name, and its state."""

    uid: str
    resource_version: int


@dataclass(frozen=True, slots=True)
class RemoveObject:
    """`resource_version`: the version at which it went, or the last one known."""

    key: ObjectKey
    uid: str
    resource_version: int


@dataclass(frozen=True, slots=True)
class KeepOnly:
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
    """A kind of which nothing is known is not told: GM waits for none of it."""
    told = {kind: highest for kind, highest in known.items() if highest > 0}
    return Hello(node, store_id, told, version)
