"""What waits to be sent on one stream.

Owns the order: answers to reports first, then objects and the snapshot's end in one FIFO.
Guarantees: of one object only the newest state waits, in its first place; an object that LC has
from this stream is never forgotten without a Delete; what LC cannot have gets none, since it drops
what the snapshot lacks. So the queue never holds more than what concerns the node and what LC has,
however slow LC is. Documents are shared with the objects, not copied.
"""

from __future__ import annotations

from collections import OrderedDict

from edge_sidecars.sedna_api.core.api_object import Document, ObjectKey
from edge_sidecars.sedna_api.core.messages import (
    Ack,
    Delete,
    Put,
    ReportRefused,
    Rewound,
    SnapshotEnd,
)

Change = Put | Delete
Message = Put | Delete | SnapshotEnd | Rewound | Ack | ReportRefused


class SendQueue:
    """One stream's, from the snapshot on."""

    def __init__(self) -> None:
        # A key that is set again keeps its place. None: the snapshot's end.
        self._changes: OrderedDict[ObjectKey | None, Change | SnapshotEnd] = OrderedDict()
        # What LC has from this stream, by uid.
        self._told: dict[ObjectKey, str] = {}
        self._acks: dict[tuple[str, str], int] = {}
        self._refusals: list[ReportRefused] = []
        self._is_rewound = False

    def __len__(self) -> int:
        """Messages that wait."""
        answers = len(self._acks) + len(self._refusals)
        return answers + len(self._changes) + self._is_rewound

    def rewound(self) -> None:
        """Tells LC to forget the versions that it knows, before all objects."""
        self._is_rewound = True

    def put(self, document: Document) -> None:
        self._changes[document.key] = Put(document)

    def delete(self, document: Document) -> None:
        """`document`: its last state. LC may have an earlier object of that name."""
        key = document.key
        uid = self._told.get(key)
        if uid is None:
            self._changes.pop(key, None)
        else:
            version = document.resource_version
            self._changes[key] = Delete(key.kind, key.namespace, key.name, uid, version)

    def end_snapshot(self) -> None:
        """Everything of the snapshot was put."""
        self._changes[None] = SnapshotEnd()

    def ack(self, store_id: str, uid: str, seq: int) -> None:
        """An ack stands for all lower ones."""
        key = (store_id, uid)
        self._acks[key] = max(seq, self._acks.get(key, 0))

    def refuse(self, refused: ReportRefused) -> None:
        self._refusals.append(refused)

    def pop(self) -> Message | None:
        """The next message; it counts as told."""
        if self._refusals:
            return self._refusals.pop(0)
        if self._acks:
            (store_id, uid), seq = self._acks.popitem()
            return Ack(store_id, uid, seq)
        if self._is_rewound:
            self._is_rewound = False
            return Rewound()
        return self._pop_change()

    def _pop_change(self) -> Change | SnapshotEnd | None:
        if not self._changes:
            return None
        key, change = self._changes.popitem(last=False)
        if key is not None and isinstance(change, Put):
            self._told[key] = change.document.uid
        elif key is not None:
            del self._told[key]
        return change
