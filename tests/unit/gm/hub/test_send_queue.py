"""What waits on a stream: order, replacement, and which deletes are needed."""

from edge_sidecars.sedna_api.core.messages import (
    Ack,
    Delete,
    Put,
    ReportRefused,
    Rewound,
    SnapshotEnd,
    ToNode,
)
from gm.hub.core.session import SendQueue
from tests.unit.gm.hub.samples import document


def drained(queue: SendQueue) -> list[ToNode]:
    told: list[ToNode] = []
    while (message := queue.pop()) is not None:
        told.append(message)
    return told


def test_objects_leave_in_the_order_in_which_they_came() -> None:
    queue = SendQueue()
    documents = [document(name) for name in ("b", "a", "c")]
    for each in documents:
        queue.put(each)
    queue.end_snapshot()
    assert drained(queue) == [*map(Put, documents), SnapshotEnd()]


def test_the_newest_state_waits_in_the_place_of_the_first() -> None:
    queue = SendQueue()
    queue.put(document("a", version=1))
    queue.put(document("b", version=2))
    queue.put(document("a", version=3))
    assert drained(queue) == [Put(document("a", version=3)), Put(document("b", version=2))]


def test_an_object_that_came_after_the_snapshot_is_told_after_its_end() -> None:
    queue = SendQueue()
    queue.put(document("a"))
    queue.end_snapshot()
    queue.put(document("late"))
    assert drained(queue) == [Put(document("a")), SnapshotEnd(), Put(document("late"))]


def test_what_lc_has_is_deleted_under_the_uid_that_it_has() -> None:
    queue = SendQueue()
    queue.put(document("a", version=1, uid="first"))
    drained(queue)
    queue.put(document("a", version=2, uid="second"))
    queue.delete(document("a", version=3, uid="second"))
    assert drained(queue) == [Delete("dataset", "shop", "a", "first", 3)]


def test_what_lc_never_had_needs_no_delete() -> None:
    queue = SendQueue()
    queue.put(document("a"))
    queue.delete(document("a", version=2))
    queue.delete(document("unheard-of"))
    assert drained(queue) == []
    assert len(queue) == 0


def test_a_deleted_object_that_returns_before_lc_heard_of_it_is_told_as_it_is_now() -> None:
    queue = SendQueue()
    queue.put(document("a"))
    drained(queue)
    queue.delete(document("a", version=2))
    queue.put(document("a", version=3))
    assert drained(queue) == [Put(document("a", version=3))]
    queue.delete(document("a", version=4))
    assert drained(queue) == [Delete("dataset", "shop", "a", "uid-a", 4)]


def test_a_delete_that_was_told_is_not_told_again() -> None:
    queue = SendQueue()
    queue.put(document("a"))
    drained(queue)
    queue.delete(document("a", version=2))
    drained(queue)
    queue.delete(document("a", version=2))
    assert drained(queue) == []


def test_answers_overtake_objects_and_one_ack_stands_for_all_before_it() -> None:
    queue = SendQueue()
    queue.put(document("a"))
    queue.ack("s", "u", 2)
    queue.ack("s", "u", 1)
    refused = ReportRefused("s", "v", 1, "its object is gone")
    queue.refuse(refused)
    assert drained(queue) == [refused, Ack("s", "u", 2), Put(document("a"))]


def test_that_history_is_rewound_is_told_before_all_objects() -> None:
    queue = SendQueue()
    queue.put(document("a"))
    queue.rewound()
    assert drained(queue) == [Rewound(), Put(document("a"))]


def test_a_slow_lc_holds_no_more_than_one_change_of_each_object() -> None:
    queue = SendQueue()
    for version in range(1, 500):
        for name in ("a", "b"):
            queue.put(document(name, version=version))
        queue.put(document(f"passing-{version}", version=version))
        queue.delete(document(f"passing-{version}", version=version + 1))
    assert len(queue) == 2
