"""The collection of one stream: what moves it, what its window remembers, what a selector sees."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.apimachinery.objects import Item, read_event
from edge_sidecars.apimachinery.store import (
    Collection,
    Expired,
    ObjectChange,
    fingerprint_of,
    transition,
)
from edge_sidecars.apimachinery.watch_events import EventType
from tests.examples import play
from tests.unit.relay.streams.samples import bookmark, event, item, line, pod

ROOMY = 1 << 20


def collection(
    *items: Item, cursor: int = 10, window_bytes: int = ROOMY, window_events: int = 1000
) -> Collection:
    made = Collection(window_bytes=window_bytes, window_events=window_events)
    made.replace(items, cursor, kind="Pod", api_version="v1")
    return made


def told(changes: list[ObjectChange]) -> list[tuple[EventType, int, str]]:
    return [(change.type, change.version, change.item.key[1]) for change in changes]


def labelled(app: str) -> dict[str, str]:
    return {"app": app}


def is_web(item: Item) -> bool:
    return b'"app":"web"' in item.raw


# ── moves ──


def test_before_its_first_list_a_collection_is_not_synced() -> None:
    empty = Collection(window_bytes=ROOMY, window_events=10)

    assert not empty.is_synced
    assert collection().is_synced


def test_changes_that_are_given_up_leave_the_objects_and_what_came_after() -> None:
    kept = collection()
    for version in range(11, 16):
        kept.apply(event("ADDED", f"p{version}", version))
    assert kept.forget_up_to(13) > 0
    assert [change.version for change in kept.since(13)] == [14, 15]
    assert (kept.window_start, len(kept.objects)) == (13, 5)
    with pytest.raises(Expired):
        kept.since(12)
    assert kept.forget_up_to(13) == 0


def test_a_list_is_the_whole_truth_and_restarts_the_window() -> None:
    kept = collection(item("old", 5))
    kept.apply(event("ADDED", "new", 11))
    kept.replace([item("other", 15)], 20, kind="Pod", api_version="v1")

    assert list(kept.objects) == [("default", "other")]
    assert (kept.cursor, kept.window_start) == (20, 20)
    assert kept.since(20) == []
    with pytest.raises(Expired):
        kept.since(19)


def test_events_move_the_objects_and_the_cursor() -> None:
    kept = collection(item("a", 5), item("b", 6))
    kept.apply(event("ADDED", "c", 11))
    kept.apply(event("MODIFIED", "a", 12))
    kept.apply(event("DELETED", "b", 13))

    assert {key[1]: item.version for key, item in kept.objects.items()} == {"a": 12, "c": 11}
    assert kept.cursor == 13


def test_a_bookmark_moves_the_cursor_alone() -> None:
    kept = collection(item("a", 5))

    assert kept.apply(bookmark(30)) is None
    assert kept.cursor == 30
    assert kept.since(10) == []


def test_a_change_knows_what_was_before() -> None:
    first = item("a", 5)
    change = collection(first).apply(event("MODIFIED", "a", 11))

    assert change is not None
    assert change.previous is first


def test_an_added_object_that_is_known_is_modified_and_a_modified_one_that_is_not_is_added() -> (
    None
):
    kept = collection(item("a", 5))
    changes = [kept.apply(event("ADDED", "a", 11)), kept.apply(event("MODIFIED", "b", 12))]

    assert [change and change.type for change in changes] == [
        EventType.MODIFIED,
        EventType.ADDED,
    ]


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_what_is_known_already_changes_nothing(kind: str) -> None:
    kept = collection(item("a", 10), item("b", 9), cursor=10)
    for name, version in (("a", 10), ("b", 9), ("a", 3), ("c", 10)):
        assert kept.apply(event(kind, name, version)) is None

    assert {key[1]: item.version for key, item in kept.objects.items()} == {"a": 10, "b": 9}
    assert kept.cursor == 10


def test_an_old_bookmark_does_not_take_the_cursor_back() -> None:
    kept = collection(cursor=10)
    kept.apply(bookmark(9))

    assert kept.cursor == 10


def test_the_deletion_of_an_unknown_object_moves_the_cursor_alone() -> None:
    kept = collection(cursor=10)

    assert kept.apply(event("DELETED", "a", 11)) is None
    assert kept.cursor == 11
    assert kept.since(10) == []


def test_all_objects_that_end_with_one_lease_leave_at_its_version() -> None:
    kept = collection(item("a", 5), item("b", 6), item("c", 7))
    for name in ("a", "b", "b", "c"):
        kept.apply(event("DELETED", name, 11))

    assert not kept.objects
    assert told(kept.since(10)) == [(EventType.DELETED, 11, name) for name in "abc"]


def test_the_body_of_a_deleted_object_never_becomes_an_object() -> None:
    kept = collection(item("a", 5))
    change = kept.apply(event("DELETED", "a", 11))

    assert change is not None
    assert change.item.version == 11
    assert ("default", "a") not in kept.objects


# ── window ──


def test_the_window_tells_what_came_after_a_version() -> None:
    kept = collection(item("a", 5))
    kept.apply(event("ADDED", "b", 11))
    kept.apply(bookmark(15))
    kept.apply(event("DELETED", "a", 20))
    added, deleted = (EventType.ADDED, 11, "b"), (EventType.DELETED, 20, "a")

    assert told(kept.since(10)) == [added, deleted]
    for version in (11, 15, 19):
        assert told(kept.since(version)) == [deleted]
    for version in (20, 21, 1000):
        assert kept.since(version) == []


def test_the_oldest_changes_leave_first_and_are_expired_then() -> None:
    kept = collection(window_events=3)
    for version in range(11, 16):
        kept.apply(event("ADDED", f"pod-{version}", version))

    assert kept.window_start == 12
    assert [change.version for change in kept.since(12)] == [13, 14, 15]
    with pytest.raises(Expired):
        kept.since(11)


def test_a_window_without_room_knows_nothing_but_its_end() -> None:
    kept = collection(window_events=0)
    kept.apply(event("ADDED", "a", 11))

    assert kept.window_start == kept.cursor == 11
    assert kept.since(11) == []
    with pytest.raises(Expired):
        kept.since(10)


def test_the_window_holds_no_more_bytes_than_it_may() -> None:
    big = {"app": "x" * 5000}
    kept = collection(window_bytes=30_000)
    for version in range(11, 100):
        kept.apply(event("MODIFIED", "a", version, labels=big))

    assert kept.size_bytes <= 30_000 + 6000
    assert 3 <= len(kept.since(kept.window_start)) <= 6


def test_new_objects_cost_the_window_nothing_but_their_mention() -> None:
    kept = collection(window_bytes=30_000)
    for version in range(11, 61):
        kept.apply(event("ADDED", f"pod-{version}", version, labels={"app": "x" * 5000}))

    assert len(kept.since(10)) == 50


def test_the_size_is_that_of_the_objects_once_the_window_is_empty() -> None:
    kept = collection(item("a", 5), window_events=0)
    kept.apply(event("MODIFIED", "a", 11, labels={"app": "x" * 50}))
    kept.apply(event("ADDED", "b", 12))

    assert kept.size_bytes == sum(len(item.raw) for item in kept.objects.values())


# ── fingerprints ──


def test_fingerprints_are_equal_for_equal_objects_at_equal_versions_only() -> None:
    a, b = item("a", 5), item("b", 6)
    assert fingerprint_of([a, b]) == fingerprint_of([b, a])
    others = [[a], [b], [], [a, item("b", 7)], [a, item("c", 6)], [item("a", 6), item("b", 5)]]
    assert fingerprint_of([a, b]) not in map(fingerprint_of, others)


def test_a_namespace_is_no_part_of_a_name() -> None:
    def in_namespace(namespace: str, name: str) -> Item:
        found = read_event(line("ADDED", pod(name, 5, namespace=namespace))).item
        assert found is not None
        return found

    assert fingerprint_of([in_namespace("a", "b")]) != fingerprint_of([in_namespace("b", "a")])
    assert fingerprint_of([in_namespace("ab", "c")]) != fingerprint_of([in_namespace("a", "bc")])


def test_a_fingerprint_follows_the_objects() -> None:
    kept = collection(item("a", 5))
    before = kept.fingerprint
    kept.apply(event("ADDED", "b", 11))
    assert kept.fingerprint == fingerprint_of(kept.objects.values()) != before
    kept.apply(event("MODIFIED", "b", 12))
    assert kept.fingerprint == fingerprint_of(kept.objects.values())
    kept.apply(event("DELETED", "b", 13))
    assert kept.fingerprint == before


# ── selectors (convertToWatchEvent) ──


def seen(before: dict[str, str] | None, kind: str, after: dict[str, str]) -> object:
    kept = collection(*([] if before is None else [item("a", 5, labels=before)]))
    change = kept.apply(event(kind, "a", 11, labels=after))
    assert change is not None
    return transition(change, is_web)


def test_what_comes_into_a_selector_is_added() -> None:
    added = (EventType.ADDED, pod("a", 11, labels=labelled("web")))

    assert seen(None, "ADDED", labelled("web")) == added
    assert seen(labelled("db"), "MODIFIED", labelled("web")) == added


def test_what_stays_in_a_selector_is_modified() -> None:
    assert seen(labelled("web"), "MODIFIED", labelled("web")) == (
        EventType.MODIFIED,
        pod("a", 11, labels=labelled("web")),
    )


def test_what_leaves_a_selector_is_deleted_as_it_was_at_the_version_of_the_event() -> None:
    assert seen(labelled("web"), "MODIFIED", labelled("db")) == (
        EventType.DELETED,
        pod("a", 11, labels=labelled("web")),
    )


def test_what_was_never_in_a_selector_is_nothing() -> None:
    assert seen(None, "ADDED", labelled("db")) is None
    assert seen(labelled("db"), "MODIFIED", labelled("db")) is None
    assert seen(labelled("db"), "DELETED", labelled("db")) is None


def test_what_was_in_a_selector_is_deleted_as_upstream_says() -> None:
    """Its last state may be one that does not match any more."""
    for last in ("web", "db"):
        assert seen(labelled("web"), "DELETED", labelled(last)) == (
            EventType.DELETED,
            pod("a", 11, labels=labelled(last)),
        )


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(1, 3)), max_size=25))
@play(200)
def test_a_fingerprint_of_the_past_is_that_of_the_objects_as_they_were(
    steps: list[tuple[str, bool, int]],
) -> None:
    it, version = collection(item("a", 1), cursor=1), 1
    was = {1: it.fingerprint}
    for name, is_deleted, ahead in steps:
        version += ahead
        it.apply(event("DELETED" if is_deleted else "MODIFIED", name, version))
        was[version] = it.fingerprint

    for at, fingerprint in was.items():
        found = it.fingerprint_at(at)
        assert found == fingerprint or (found is None and (at == it.cursor or at < it.window_start))
    assert it.fingerprint_at(it.cursor + 1) is None
