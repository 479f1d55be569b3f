"""Limits: a stream more than there is room for takes the place of one that is not read, or is not
opened at all; what is read is never closed nor evicted."""

import pytest

from edge_sidecars.apimachinery.objects import Event, Item, Page
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.selection.fields import FieldSelector
from edge_sidecars.apimachinery.selection.labels import LabelSelector
from edge_sidecars.apimachinery.status import expired
from edge_sidecars.apimachinery.watch_events import EventType
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Record, StreamDeleted
from relay_sidecar.streams.fanout import StreamView
from relay_sidecar.streams.seen_objects import OVERHEAD
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import STREAM_BYTES, Limits, NoRoom, Streams
from tests.unit.relay.streams.movers import still_streams

CONFIGMAPS = ResourceName("", "v1", "configmaps")
IDLE = 600.0
SIZE = 10_000


class Deletions(Journal):
    """The scopes of streams that leave the disk."""

    def __init__(self) -> None:
        super().__init__(None)
        self.scopes: list[ListScope] = []

    def send(self, *records: Record) -> None:
        self.scopes += [it.scope for it in records if isinstance(it, StreamDeleted)]


def made(
    *, max_streams: int = 100, budget: int = 1 << 30, journal: Journal | None = None
) -> Streams:
    limits = Limits(
        max_objects=100_000,
        max_watchers=100,
        window_bytes=1 << 20,
        window_events=100,
        idle_timeout=IDLE,
        retain=9e9,
        open_timeout=5.0,
        memory_budget=budget,
        max_streams=max_streams,
    )
    return still_streams(limits, journal=journal)


def scope(number: int) -> ListScope:
    labels = LabelSelector.parse(f"job=j{number}")
    return ListScope(CONFIGMAPS, "n", labels, FieldSelector())


def read(stream: Stream) -> None:
    """A client watches it."""
    stream.behind.add(object())


def listed(streams: Streams, number: int, *, now: float = 0.0) -> Stream:
    stream = streams.open(scope(number), now=now)
    item = Item(("n", f"cm-{number}"), 1, b"x" * SIZE)
    stream.replace(Page("ConfigMapList", "v1", 1, "", [item]), gone=expired())
    return stream


def running(streams: Streams) -> list[int]:
    return [n for n in range(1000) if (s := streams.exactly(scope(n))) and s.runs]


def test_any_number_of_selectors_are_no_more_streams_than_the_limit() -> None:
    streams = made(max_streams=3)
    for number in range(100):
        listed(streams, number, now=float(number))
        assert streams.running <= 3

    assert running(streams) == [97, 98, 99]
    # What was closed is there for when the link is cut.
    assert streams.exactly(scope(0)) is not None


def test_what_is_read_is_not_closed_for_another() -> None:
    streams = made(max_streams=2)
    for number in range(2):
        read(listed(streams, number))
    with pytest.raises(NoRoom, match="--max-streams"):
        streams.open(scope(2), now=1.0)

    assert running(streams) == [0, 1]


def test_one_that_runs_already_needs_no_place() -> None:
    streams = made(max_streams=1)
    read(listed(streams, 0))

    assert streams.open(scope(0), now=1.0) is streams.exactly(scope(0))


def test_beyond_the_budget_what_was_asked_for_longest_ago_goes() -> None:
    journal = Deletions()
    streams = made(budget=5 * (STREAM_BYTES + SIZE + OVERHEAD + 400), journal=journal)
    read(listed(streams, 0))
    for number in range(1, 30):
        listed(streams, number, now=2 * IDLE * number)

    assert streams.size <= streams.limits.memory_budget + STREAM_BYTES + 2 * SIZE
    kept = [n for n in range(30) if streams.exactly(scope(n)) is not None]
    assert kept[0] == 0
    assert kept[1:] == list(range(30 - len(kept) + 1, 30))
    assert journal.scopes == [scope(n) for n in range(1, len(journal.scopes) + 1)]
    assert streams.evicted == len(journal.scopes) == 30 - len(kept)


def test_where_all_was_asked_for_lately_upstream_is_asked_instead() -> None:
    streams = made(budget=5 * (STREAM_BYTES + SIZE))
    for number in range(5):
        listed(streams, number)
    with pytest.raises(NoRoom, match="--memory-budget"):
        listed(streams, 5)

    assert streams.evicted == 0


def seeded(streams: Streams, number: int, *, now: float, version: int = 1) -> Stream | None:
    """A client's list that upstream answered."""
    streams.askings.asked(scope(number), now=now)
    item = Item(("n", f"cm-{number}"), version, b"x" * SIZE)
    page = Page("ConfigMapList", "v1", version, "", [item])
    return streams.seed(scope(number), page, known_at=now, at=now, now=now)


def test_a_list_by_selector_is_kept_and_follows_nothing_until_it_is_asked_for_again() -> None:
    streams = made(max_streams=3)
    for number in range(10):
        kept = seeded(streams, number, now=float(number))
        assert kept is not None
        assert kept.collection.objects
    assert streams.running == 0

    seeded(streams, 4, now=11.0)
    assert running(streams) == [4]
    # Long afterwards, once is once again; and what is kept is what upstream said last.
    seeded(streams, 5, now=2 * IDLE, version=7)
    assert running(streams) == [4]
    assert {stream.version for stream in streams.covering(scope(5))} == {7}


def test_a_list_of_a_namespace_follows_at_once() -> None:
    streams = made()
    whole = ListScope(CONFIGMAPS, "n")
    streams.askings.asked(whole, now=0.0)
    page = Page("ConfigMapList", "v1", 1, "", [])
    begun = streams.seed(whole, page, known_at=0.0, at=0.0, now=0.0)
    assert begun is not None
    assert begun.is_started


def test_snapshots_are_bounded_and_give_way_before_what_is_followed() -> None:
    streams = made(max_streams=3)
    for number in range(3):
        streams.open(scope(1000 + number), now=0.0)
    for number in range(100):
        seeded(streams, number, now=1.0 + number / 100)
    assert [n for n in range(100) if streams.exactly(scope(n))] == list(range(88, 100))
    assert streams.running == 3

    tight = made(budget=5 * (STREAM_BYTES + SIZE + OVERHEAD + 400))
    listed(tight, 1000)
    for number in range(50):
        # All was asked for lately.
        seeded(tight, number, now=number)
    assert tight.exactly(scope(1000)) is not None
    assert tight.exactly(scope(49)) is not None
    assert tight.exactly(scope(0)) is None
    assert tight.size <= tight.limits.memory_budget + STREAM_BYTES + 2 * SIZE


def test_windows_keep_the_changes_of_a_minute_where_there_is_no_room_for_more() -> None:
    streams = made(budget=5 * SIZE + STREAM_BYTES)
    stream = listed(streams, 0)
    read(stream)
    versions = iter(range(2, 1000))
    for second in range(0, 200, 10):
        body = b'{"metadata":{"name":"cm-0","namespace":"n","resourceVersion":"%d"}}'
        version = next(versions)
        raw = (body % version).ljust(SIZE)
        stream.apply([Event(EventType.MODIFIED, version, Item(("n", "cm-0"), version, raw))])
        streams.keep_within(now=float(second))

    collection = stream.collection
    assert collection.cursor == version
    # One change in ten seconds.
    assert version - 8 <= collection.window_start <= version - 5
    assert streams.evicted == 0


def test_what_is_kept_beside_objects_counts_and_what_is_put_together_goes_first() -> None:
    streams = made(budget=10 * (STREAM_BYTES + SIZE))
    pages = [100_000_000]
    streams.beside.append(lambda: sum(pages))
    streams.passing.append(lambda: bool(pages) and pages.pop() > 0)
    listed(streams, 0)
    assert pages == []
    assert listed(streams, 1, now=2 * IDLE).collection.objects
    assert streams.evicted == 0

    pages.append(100_000_000)
    streams.passing.clear()
    with pytest.raises(NoRoom, match="--memory-budget"):
        listed(streams, 2, now=2 * IDLE)


def test_l3_encoded_lists_count_and_go_before_all_else() -> None:
    """What was projected for who asks for metadata only is a copy."""
    streams = made(budget=10 * (STREAM_BYTES + SIZE))
    name = b'{"kind":"ConfigMap","metadata":{"name":"cm","annotations":{"a":"%s"}}}'
    page = Page("ConfigMapList", "v1", 2, "", [Item(("n", "cm"), 2, name % (b"x" * SIZE))])
    read = [listed(streams, number) for number in range(6)]
    for stream in read:
        stream.replace(page, gone=expired())
        before = streams.size
        stream.body(StreamView(metadata="v1"))
        assert streams.size - before > SIZE

    streams.beside.append(lambda: 4 * STREAM_BYTES)
    streams.keep_within(now=0.0)
    assert [stream.bodies_size for stream in read] == [0] * 6
    assert streams.evicted == 0


def test_windows_are_given_up_before_a_stream_that_grows_ends() -> None:
    streams = made(budget=5 * SIZE + STREAM_BYTES)
    stream = listed(streams, 0)
    read(stream)
    for version in range(2, 20):
        changed = Item(("n", "cm-0"), version, b"{}".ljust(SIZE))
        stream.apply([Event(EventType.MODIFIED, version, changed)])
    assert stream.collection.size_bytes > 10 * SIZE
    assert streams.has_room(1)
    assert stream.collection.size_bytes == SIZE
    assert not streams.has_room(100_000)


def test_l5_what_the_node_listed_goes_last_and_only_for_what_the_node_lists() -> None:
    streams = made(budget=5 * (STREAM_BYTES + SIZE + OVERHEAD + 400))
    for number in range(3):
        streams.of_node.add(scope(number))
        listed(streams, number)
    for number in range(10, 40):
        listed(streams, number, now=2 * IDLE * number)
    assert [n for n in range(10) if streams.exactly(scope(n))] == [0, 1, 2]

    for number in range(3, 8):
        streams.of_node.add(scope(number))
        listed(streams, number, now=2 * IDLE * (100 + number))
    kept = [n for n in range(10) if streams.exactly(scope(n))]
    assert kept == list(range(8 - len(kept), 8))


def test_l5_a_wide_stream_that_has_what_the_node_listed_is_the_nodes_too() -> None:
    streams = made()
    streams.of_node.add(scope(0))
    assert streams.of_node.are_held_by(ListScope(CONFIGMAPS, "n"))
    assert streams.of_node.are_held_by(ListScope(CONFIGMAPS))
    assert not streams.of_node.are_held_by(ListScope(CONFIGMAPS, "other"))
    assert not streams.of_node.are_held_by(scope(1))
