"""What a stream knows of itself beyond its collection."""

import asyncio
import gc
import math
import os
import time
import weakref

from edge_sidecars.apimachinery.objects import Item, Page
from edge_sidecars.apimachinery.scope import ListScope, ResourceName
from edge_sidecars.apimachinery.status import expired
from edge_sidecars.apimachinery.store import Collection, fingerprint_of
from relay_sidecar.core.min_resource_version import MinResourceVersion
from relay_sidecar.core.stream.commands import ListEvidence
from relay_sidecar.streams.fanout import FEW, StreamView, Watcher, as_lines
from relay_sidecar.streams.stream import MAX_BODIES, Stream
from relay_sidecar.telemetry.metrics import RelayCounters
from tests.unit.relay.streams.samples import bookmark, event, item

PODS = ListScope(ResourceName("", "v1", "pods"))


def stream() -> Stream:
    made = Stream(
        PODS, Collection(window_bytes=1 << 20, window_events=100), RelayCounters(), now=0.0
    )
    made.replace(Page("PodList", "v1", 10, "", [item("a", 5)]), gone=expired())
    return made


def told(version: int, items: list[Item]) -> ListEvidence:
    return ListEvidence(version, fingerprint_of(items), 7.0, 1007.0, 0)


def test_a_quiet_stream_is_equal_to_what_upstream_held_later() -> None:
    quiet = stream()
    assert quiet.equal_at == 0
    quiet.expect(told(100, [item("a", 5)]))

    assert quiet.equal_at == quiet.version == 100
    assert quiet.collection.cursor == 10, "what came and went is still told to watchers"
    assert quiet.known_at == 7.0
    # Another change, which is still on its way: what was equal stays so.
    quiet.expect(told(110, [item("a", 105)]))

    assert quiet.equal_at == 100


def test_a_stream_that_has_events_to_come_becomes_equal_with_them() -> None:
    late = stream()
    late.expect(told(100, [item("a", 5), item("b", 50)]))
    assert late.equal_at == 0
    late.apply([event("ADDED", "b", 50)])

    assert late.equal_at == 100


def test_an_event_from_before_the_confirmation_takes_it_back() -> None:
    """Something came and went, and the stream learns it late: meanwhile nobody may be shown it."""
    late, floor = stream(), MinResourceVersion()
    floor.raise_to(PODS.resource, 100)
    late.expect(told(100, [item("a", 5)]))
    assert floor.is_reached(PODS, late.collection, equal_at=late.equal_at)
    late.apply([event("ADDED", "b", 50)])
    assert not floor.is_reached(PODS, late.collection, equal_at=late.equal_at)
    late.apply([event("DELETED", "b", 60)])

    assert floor.is_reached(PODS, late.collection, equal_at=late.equal_at)


def test_a_confirmation_of_what_is_past_says_nothing() -> None:
    ahead = stream()
    ahead.apply([bookmark(200)])
    ahead.expect(told(100, [item("a", 5)]))

    assert ahead.version == 200


def test_a_wall_clock_that_is_set_right_does_not_hide_an_age() -> None:
    kept = stream()
    kept.known(known_at=10.0, confirmed_at=9999.0)
    kept.known(known_at=20.0, confirmed_at=1000.0)
    assert kept.confirmed_at == 1000.0
    kept.known(known_at=-math.inf, confirmed_at=900.0)
    assert (kept.known_at, kept.confirmed_at) == (20.0, 1000.0)


def test_what_watchers_are_told_is_the_floor_for_other_streams() -> None:
    """Whoever has seen an event is not shown by another stream what was before it."""
    told: list[int] = []

    async def watch() -> None:
        read, write = os.pipe()
        transport, _ = await asyncio.get_running_loop().connect_write_pipe(
            asyncio.BaseProtocol, os.fdopen(write, "wb")
        )
        watched = stream()
        watched.on_shown = lambda version, _: told.append(version)
        watched.apply([event("ADDED", "b", 50)])
        assert told == [], "no client watches"
        watcher = Watcher(transport, framing=as_lines, allows_bookmarks=True, limit=1000)
        watched.broadcaster(StreamView()).join(watcher)
        watched.apply([event("ADDED", "c", 60), event("ADDED", "d", 61)])
        watched.apply([bookmark(70)])
        assert told == [61, 70], "a bookmark tells a version as well"
        transport.close()
        os.close(read)

    asyncio.run(watch())


def test_how_late_events_reach_watchers_is_counted_for_each_of_them() -> None:
    async def watch() -> None:
        read, write = os.pipe()
        transport, _ = await asyncio.get_running_loop().connect_write_pipe(
            asyncio.BaseProtocol, os.fdopen(write, "wb")
        )
        watched = stream()
        watched.apply([event("ADDED", "b", 50)], came_at=time.monotonic())
        assert _delays(watched) == (0, 0.0), "no client watches"
        for _ in range(2):
            watcher = Watcher(transport, framing=as_lines, allows_bookmarks=True, limit=1000)
            watched.broadcaster(StreamView()).join(watcher)
        came_at = time.monotonic() - 2.0
        watched.apply([event("ADDED", "c", 60), event("ADDED", "d", 61)], came_at=came_at)
        # Bookmarks are no news, and of what upstream did not send no arrival is known.
        watched.apply([bookmark(70)], came_at=came_at)
        watched.apply([event("ADDED", "e", 71)])
        count, seconds = _delays(watched)
        assert count == 4
        assert 8.0 <= seconds < 8.0 + 4 * (time.monotonic() - came_at - 2.0)
        transport.close()
        os.close(read)

    asyncio.run(watch())


def test_many_watchers_get_lines_together_and_the_first_ones_delay_counts() -> None:
    async def watch() -> None:
        read, write = os.pipe()
        transport, _ = await asyncio.get_running_loop().connect_write_pipe(
            asyncio.BaseProtocol, os.fdopen(write, "wb")
        )
        watched = stream()
        view = watched.broadcaster(StreamView())
        for _ in range(FEW + 1):
            view.join(Watcher(transport, framing=as_lines, allows_bookmarks=True, limit=10**6))
        now = time.monotonic()
        watched.apply([event("ADDED", "b", 50)], came_at=now - 3.0)
        watched.apply([event("ADDED", "c", 60)], came_at=now)
        assert _delays(watched) == (0, 0.0)
        view.flush()
        count, seconds = _delays(watched)
        assert count == 2 * (FEW + 1)
        assert seconds >= 3.0 * count
        transport.close()
        os.close(read)

    asyncio.run(watch())


def _delays(watched: Stream) -> tuple[float, float]:
    """How many events reached watchers, and the sum of their delays."""
    found = {suffix: value for suffix, _, value in watched.counters.event_delay.series()}
    return found["_count"], found["_sum"]


def test_watchers_move_only_where_they_lose_nothing() -> None:
    narrow, wide = stream(), stream()
    assert narrow.move_watchers(wide), "both are where their lists were"
    narrow.apply([event("DELETED", "a", 20)])
    assert not narrow.move_watchers(wide), "another deletion may share the version"
    narrow.apply([bookmark(21)])
    assert not narrow.move_watchers(wide), "it would show what was before"
    wide.apply([bookmark(21)])
    assert narrow.move_watchers(wide)
    narrow.is_doubtful = True
    assert not narrow.move_watchers(wide), "they are to learn that bytes may differ"
    narrow.is_doubtful = False
    wide.replace(Page("PodList", "v1", 22, "", []), gone=expired())
    assert not narrow.move_watchers(wide), "what was before its list it cannot tell"


def test_of_lists_that_nobody_asks_for_again_only_a_few_are_kept() -> None:
    """While the link is cut nothing makes them old, and clients may select by anything."""
    still = stream()
    asked = [
        weakref.ref(
            still.body(
                StreamView(PODS.residual(ListScope(PODS.resource, namespace=f"ns-{number}")))
            )
        )
        for number in range(100)
    ]
    gc.collect()

    assert sum(body() is not None for body in asked) <= MAX_BODIES


def diverged(of: Stream) -> bool:
    return of.has_diverged


def test_a_stream_that_held_something_else_at_a_version_that_it_has_passed_has_diverged() -> None:
    """Upstream was restored from a backup, and has written on since."""
    lost = stream()
    lost.expect(told(100, [item("a", 90)]))
    assert not diverged(lost), "what changed may be on its way"
    lost.apply([event("ADDED", "b", 120)])

    assert diverged(lost)
    assert lost.known_at == -math.inf


def test_what_was_still_on_its_way_when_the_list_came_is_no_divergence() -> None:
    busy = stream()
    busy.expect(told(100, [item("a", 90), item("b", 95)]))
    busy.apply([event("MODIFIED", "a", 90)])
    busy.apply([event("ADDED", "b", 95), event("ADDED", "c", 130)])

    assert not diverged(busy)
    assert busy.known_at == 7.0


def test_a_list_that_comes_after_the_events_behind_it_is_compared_with_what_was() -> None:
    for listed, has_diverged in (([item("a", 5)], False), ([item("a", 5), item("x", 7)], True)):
        ahead = stream()
        ahead.apply([event("ADDED", "b", 50), event("MODIFIED", "a", 60)])
        ahead.expect(told(40, listed))

        assert ahead.has_diverged is has_diverged


def test_deletions_that_share_a_version_are_waited_for() -> None:
    ended = stream()
    ended.apply([event("ADDED", "b", 50)])
    ended.expect(told(60, []))
    ended.apply([event("DELETED", "a", 60)])
    assert not diverged(ended)
    ended.apply([event("DELETED", "b", 60)])

    assert not diverged(ended)
    assert ended.known_at == 7.0


def test_a_list_without_objects_does_not_take_the_place_of_one_with_them() -> None:
    lost = stream()
    lost.expect(told(100, [item("a", 90)]))
    lost.expect(ListEvidence(110, None, 8.0, 1008.0, 0))
    lost.apply([bookmark(120)])

    assert diverged(lost)
