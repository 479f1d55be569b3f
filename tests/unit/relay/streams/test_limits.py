"""Limits: a stream more than there is room for takes the place of one that is not read, or is not
opened at all; what is read is never closed nor evicted."""

import pytest

from edge_sidecars.apimachinery.objects import Item, Page
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.selection.fields import FieldSelector
from edge_sidecars.apimachinery.selection.labels import LabelSelector
from edge_sidecars.apimachinery.status import expired
from relay_sidecar.core.min_resource_version import MinResourceVersion
from relay_sidecar.streams.reflector_control import NoReflectors
from relay_sidecar.streams.seen_objects import OVERHEAD
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import STREAM_BYTES, Limits, NoRoom, Streams
from relay_sidecar.telemetry.metrics import RelayCounters

CONFIGMAPS = ResourceName("", "v1", "configmaps")
IDLE = 600.0
SIZE = 10_000


class Running(NoReflectors):
    """Streams run from `start` to `stop`."""

    is_up = True

    def __init__(self) -> None:
        self.streams: set[Stream] = set()

    def runs(self, stream: Stream) -> bool:
        return stream in self.streams

    def start(self, stream: Stream) -> None:
        self.streams.add(stream)

    def stop(self, stream: Stream) -> None:
        self.streams.discard(stream)

    def is_open(self, stream: Stream) -> bool:
        return self.runs(stream)

    is_live = is_open


def made(*, max_streams: int = 100, budget: int = 1 << 30) -> Streams:
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
    running = Running()
    return Streams(lambda _: running, MinResourceVersion(), limits, RelayCounters())


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
    return [n for n in range(1000) if (s := streams.exactly(scope(n))) and streams.runs(s)]


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
    streams = made(budget=5 * (STREAM_BYTES + SIZE + OVERHEAD + 400))
    gone: list[Stream] = []
    streams.on_evicted.append(gone.append)
    read(listed(streams, 0))
    for number in range(1, 30):
        listed(streams, number, now=2 * IDLE * number)

    assert streams.size <= streams.limits.memory_budget + STREAM_BYTES + 2 * SIZE
    kept = [n for n in range(30) if streams.exactly(scope(n)) is not None]
    assert kept[0] == 0
    assert kept[1:] == list(range(30 - len(kept) + 1, 30))
    assert [s.scope for s in gone] == [scope(n) for n in range(1, len(gone) + 1)]
    assert streams.evicted == len(gone) == 30 - len(kept)


def test_where_all_was_asked_for_lately_upstream_is_asked_instead() -> None:
    streams = made(budget=5 * (STREAM_BYTES + SIZE))
    for number in range(5):
        listed(streams, number)
    with pytest.raises(NoRoom, match="--memory-budget"):
        listed(streams, 5)

    assert streams.evicted == 0
