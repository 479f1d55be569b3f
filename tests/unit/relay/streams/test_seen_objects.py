"""Limits: what callers and the node read by name is bounded in bytes, and the node's goes last."""

from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.apimachinery.objects import Item
from edge_sidecars.apimachinery.resources import ResourceName
from relay_sidecar.journal.records import ObjectEvicted, ObjectSeen
from relay_sidecar.streams.seen_objects import CONFIRMED_EVERY, OVERHEAD, SeenObjects
from tests.examples import play

CONFIGMAPS = ResourceName("", "v1", "configmaps")
CLAIMS = ResourceName("", "v1", "persistentvolumeclaims")
SIZE = 1000
# Others may have ten objects of this size, the node twenty.
BUDGET = 40 * (SIZE + OVERHEAD)
NOW = 1000.0


def item(name: str, version: int = 1, size: int = SIZE) -> Item:
    return Item(("n", name), version, b"x" * size)


def names(seen: SeenObjects) -> list[str]:
    return [it.item.key[1] for it in seen]


def test_others_never_evict_what_the_node_asked_for() -> None:
    seen = SeenObjects(BUDGET)
    for number in range(5):
        seen.remember(CLAIMS, item(f"claim-{number}"), at=NOW, is_of_node=True)
    for number in range(10_000):
        seen.remember(CONFIGMAPS, item(f"cm-{number}"), at=NOW)

    assert all(seen.get(CLAIMS, ("n", f"claim-{number}")) for number in range(5))
    assert len(names(seen)) == 15


def test_what_others_read_after_the_node_stays_the_nodes() -> None:
    seen = SeenObjects(BUDGET)
    seen.remember(CLAIMS, item("claim"), at=NOW, is_of_node=True)
    seen.remember(CLAIMS, item("claim", 2), at=NOW)
    for number in range(100):
        seen.remember(CONFIGMAPS, item(f"cm-{number}"), at=NOW)

    assert [it.item.version for it in seen if it.is_of_node] == [2]


def test_what_the_node_asks_for_after_others_moves_on_disk_too() -> None:
    seen = SeenObjects(BUDGET)
    [others] = seen.remember(CLAIMS, item("claim"), at=NOW)
    moved = seen.remember(CLAIMS, item("claim"), at=NOW, is_of_node=True)

    assert isinstance(others, ObjectSeen)
    assert [(type(it), it.is_of_node) for it in moved] == [
        (ObjectEvicted, False),
        (ObjectSeen, True),
    ]


def test_what_was_asked_for_longest_ago_goes_first() -> None:
    seen = SeenObjects(BUDGET)
    for number in range(10):
        seen.remember(CONFIGMAPS, item(f"cm-{number}"), at=NOW)
    seen.get(CONFIGMAPS, ("n", "cm-0"))
    gone = seen.remember(CONFIGMAPS, item("more"), at=NOW)

    assert [it.key[1] for it in gone if isinstance(it, ObjectEvicted)] == ["cm-1"]
    assert seen.evicted == 1


def test_one_that_is_larger_than_all_its_room_is_not_remembered() -> None:
    seen = SeenObjects(BUDGET)
    seen.remember(CONFIGMAPS, item("big"), at=NOW)
    gone = seen.remember(CONFIGMAPS, item("big", 2, BUDGET), at=NOW)

    assert [type(it) for it in gone] == [ObjectEvicted]
    assert names(seen) == []
    assert seen.size == 0


def test_an_object_that_did_not_change_is_written_once_a_minute() -> None:
    seen = SeenObjects(BUDGET)
    written = [
        number
        for number in range(1000)
        if seen.remember(CONFIGMAPS, item("cm"), at=NOW + number / 10)
    ]

    assert written == [0, int(CONFIRMED_EVERY * 10)]


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 3), st.integers(0, 3 * SIZE), st.booleans()),
        max_size=80,
    )
)
@play(200)
def test_the_disk_follows_and_the_limits_hold(steps: list[tuple[int, int, int, bool]]) -> None:
    seen = SeenObjects(BUDGET)
    disk: dict[tuple[str, bool], Item] = {}
    for name, version, size, is_of_node in steps:
        for record in seen.remember(
            CONFIGMAPS, item(str(name), version, size), at=NOW, is_of_node=is_of_node
        ):
            if isinstance(record, ObjectSeen):
                disk[record.item.key[1], record.is_of_node] = record.item
            else:
                del disk[record.key[1], record.is_of_node]
        assert {(it.item.key[1], it.is_of_node): it.item for it in seen} == disk
        assert seen.size == sum(len(it.raw) + OVERHEAD for it in disk.values())
        assert seen.size <= BUDGET * 3 // 4
