"""LC's side of a stream: what messages do to the store (G4)."""

import json

import pytest

from edge_sidecars.sedna_api.core.api_object import Document, ObjectKey
from edge_sidecars.sedna_api.core.messages import (
    Ack,
    Delete,
    Drain,
    Put,
    ReportRefused,
    Rewound,
    SnapshotEnd,
    ToNode,
)
from lc.core.session import (
    Effect,
    KeepOnly,
    RemoveObject,
    Session,
    hello,
)

KEY = ObjectKey("dataset", "shop", "d1")


def document(version: int, *, uid: str = "u1", name: str = "d1") -> Document:
    metadata = {"name": name, "namespace": "shop", "uid": uid, "resourceVersion": str(version)}
    return Document.parse(json.dumps({"metadata": metadata}).encode(), "dataset")


def delete(version: int, *, uid: str = "u1") -> Delete:
    return Delete("dataset", "shop", "d1", uid, version)


def session(*stored: Document) -> Session:
    by_key = {each.key: each for each in stored}
    return Session("store-1", by_key.get)


@pytest.mark.parametrize(
    ("held", "message", "effects"),
    [
        (None, Put(document(5)), [Put(document(5))]),
        (document(4), Put(document(5)), [Put(document(5))]),
        (document(5), Put(document(5)), []),
        (document(6), Put(document(5)), []),
        (
            document(6, uid="old"),
            Put(document(5)),
            [RemoveObject(KEY, "old", 6), Put(document(5))],
        ),
        (None, delete(5), []),
        (document(4), delete(5), [RemoveObject(KEY, "u1", 5)]),
        (document(5), delete(5), [RemoveObject(KEY, "u1", 5)]),
        (document(6), delete(5), []),
        (document(4), delete(5, uid="other"), []),
        (None, Ack("store-1", "u1", 3), [Ack("store-1", "u1", 3)]),
        (None, Ack("store-0", "u1", 3), []),
        (
            None,
            ReportRefused("store-1", "u1", 3, "gone"),
            [ReportRefused("store-1", "u1", 3, "gone")],
        ),
        (None, ReportRefused("store-0", "u1", 3, "gone"), []),
        (None, Drain("bye"), [Drain("bye")]),
    ],
)
def test_one_message(held: Document | None, message: ToNode, effects: list[Effect]) -> None:
    stored = () if held is None else (held,)
    assert list(session(*stored).received(message)) == effects


def test_versions_are_compared_with_what_was_decided_before_it_is_stored() -> None:
    link = session()
    link.received(Put(document(5)))
    assert link.received(Put(document(4))) == ()
    assert link.received(delete(6)) == (RemoveObject(KEY, "u1", 6),)
    assert link.received(delete(6)) == ()


def test_the_snapshots_end_keeps_what_was_put_and_drops_the_rest() -> None:
    link = session(document(9), document(3, name="missing", uid="u2"))
    # A late state of what is held is no sign that the object is gone.
    link.received(Put(document(5)))
    link.received(Put(document(6, name="passing", uid="u3")))
    link.received(Delete("dataset", "shop", "passing", "u3", 7))
    assert not link.has_snapshot
    assert link.received(SnapshotEnd()) == (KeepOnly(frozenset({(KEY, "u1")})),)
    assert link.has_snapshot


def test_after_the_snapshot_what_it_dropped_is_not_held_any_more() -> None:
    link = session(document(9, uid="u1"))
    link.received(SnapshotEnd())
    assert link.received(Put(document(2))) == (Put(document(2)),)


def test_a_rewound_history_is_taken_whatever_its_versions_and_only_in_its_snapshot() -> None:
    link = session(document(9))
    link.received(Rewound())
    assert link.received(Put(document(2))) == (Put(document(2)),)
    assert link.received(SnapshotEnd()) == (KeepOnly(frozenset({(KEY, "u1")}), is_rewound=True),)
    assert link.received(Put(document(1))) == ()


def test_a_kind_of_which_nothing_is_known_is_not_waited_for() -> None:
    assert hello("edge-a", "s", {"dataset": 7, "model": 0}, "1").known == {"dataset": 7}
