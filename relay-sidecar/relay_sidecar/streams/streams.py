"""All streams: which one answers a request, when one is opened, closed, forgotten.

A list by selectors opens no stream by itself: its answer is kept as a snapshot, a stream that does
not follow upstream, until the same is listed again soon or watched.

Guarantees: one upstream list+watch per thing for all clients (promise R2); an answer comes from
exactly one stream; while the link is up only from one that is live. What an object's newest known
state is, it finds in everything that the relay has seen. Knows no HTTP.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Protocol

from edge_sidecars.apimachinery.objects import Item, Key, Page
from edge_sidecars.apimachinery.scope import ListScope, ResourceName
from edge_sidecars.apimachinery.status import Status, expired
from edge_sidecars.apimachinery.store import Collection
from edge_sidecars.apimachinery.watch_events import Failure
from edge_sidecars.runtime.log import fields, logger, sparing
from relay_sidecar.core.caching import NodeScopes
from relay_sidecar.core.link import UNAUTHORIZED
from relay_sidecar.core.min_resource_version import MinResourceVersion
from relay_sidecar.journal.journal import Journal
from relay_sidecar.streams.seen_objects import OVERHEAD, Askings, SeenObjects
from relay_sidecar.streams.stream import Mover, Stream
from relay_sidecar.streams.stream_journal import deletion_records
from relay_sidecar.telemetry.metrics import RelayCounters
from relay_sidecar.telemetry.status import StreamState

# Seconds for which a scope that upstream refused is not requested again.
REFUSAL_TTL = 10.0
MAX_REFUSALS = 1000
# Bytes, where no limit of memory is known.
DEFAULT_BUDGET = 128 * 1024 * 1024
# Each has a connection and a descriptor; a node's own components have some 40.
DEFAULT_STREAMS = 256
# Bytes of a stream besides its objects: its tasks, parsers and buffers (measured: 12 KiB).
STREAM_BYTES = 16 * 1024
BUDGET_FLAG, STREAMS_FLAG = "--memory-budget", "--max-streams"
# For each stream that may follow upstream; more are of no use, and each costs time.
SNAPSHOTS_PER_STREAM = 4
# Fields that an object has for life: a pod that is bound stays so.
LASTING = frozenset({"metadata.name", "metadata.namespace", "spec.nodeName"})
# Seconds for which it is known how much is kept: to add all of it up for each event costs more.
MEASURED_FOR = 0.25


@dataclass(frozen=True, slots=True)
class Limits:
    """`window_*` are per stream; `max_*` for the whole relay; times are seconds."""

    max_objects: int
    max_watchers: int
    window_bytes: int
    window_events: int
    idle_timeout: float
    retain: float
    open_timeout: float
    # Bytes, of all that is kept.
    memory_budget: int = DEFAULT_BUDGET
    # That follow upstream at a time.
    max_streams: int = DEFAULT_STREAMS


class NoRoom(Exception):
    """There is none for another stream: upstream is to be asked each time."""

    def __init__(self, limit: str) -> None:
        super().__init__(f"{limit} of the relay is reached")


class Move(Protocol):
    """Begins to move a stream, and reports to `owner` afterwards; `is_up`: the link, as it was
    reported last."""

    def __call__(self, stream: Stream, owner: "Streams", *, is_up: bool) -> Mover: ...


class Reachability(Protocol):
    """To what streams come from."""

    @property
    def is_up(self) -> bool: ...


class Streams:
    """`kind_of`: the kind of a resource's objects, "" where
    that is unknown; `is_shared`: whether neighbours have one stream of the scope for all."""

    def __init__(
        self,
        move: Move,
        minimum: MinResourceVersion,
        limits: Limits,
        counters: RelayCounters,
        journal: Journal,
        *,
        link: Reachability,
        kind_of: Callable[[ResourceName], str] = lambda _: "",
        is_shared: Callable[[ListScope], bool] = lambda _: False,
    ) -> None:
        self.counters = counters
        self._move = move
        self._journal = journal
        self._link = link
        # The link as it was reported last: what is done about it waits for the report.
        self._may_ask = False
        self.minimum = minimum
        self.limits = limits
        self.seen = SeenObjects(limits.memory_budget)
        self._kind_of = kind_of
        self._is_shared = is_shared
        # Bytes of what is kept beside objects, and is to be within the same budget.
        self.beside: list[Callable[[], int]] = []
        # What goes first: called for want of room, each says whether it gave some.
        self.passing: list[Callable[[], bool]] = []
        self.askings = Askings(limits.idle_timeout)
        self.of_node = NodeScopes()
        # How many bytes are kept, and when that was added up last.
        self._measured: tuple[int, float] | None = None
        # Called with each stream that starts to follow upstream.
        self.on_start: list[Callable[[Stream], None]] = []
        # Called each time that upstream turns out to have another history.
        self.on_history_lost: list[Callable[[], None]] = []
        self.evicted = 0
        # Of these, streams were evicted, and by which limit last.
        self._evicted_of: dict[ResourceName, str] = {}
        self._streams: dict[ResourceName, dict[ListScope, Stream]] = {}
        self._refusals: dict[ListScope, tuple[Failure, float]] = {}

    def __iter__(self) -> Iterator[Stream]:
        for scopes in tuple(self._streams.values()):
            yield from tuple(scopes.values())

    def of(self, resource: ResourceName) -> Iterable[Stream]:
        return tuple(self._streams.get(resource, {}).values())

    @property
    def objects(self) -> int:
        return sum(len(stream.collection.objects) for stream in self)

    @property
    def size(self) -> int:
        """Bytes, of all that is kept."""
        streams = sum(STREAM_BYTES + it.collection.size_bytes + it.bodies_size for it in self)
        beside = sum(size() for size in self.beside)
        return streams + OVERHEAD * self.objects + self.seen.size + beside

    @property
    def running(self) -> int:
        """Streams that follow upstream, or try to."""
        return sum(stream.is_started for stream in self)

    @property
    def watchers(self) -> int:
        return sum(stream.watchers for stream in self)

    @property
    def is_up(self) -> bool:
        return self._link.is_up

    def is_current(self, stream: Stream, since: float) -> bool:
        """A request that came at `since` (boot clock) gets no state that was past then: the stream
        is live, or is known to have had upstream's objects at that moment or later."""
        return stream.is_live() or (self._link.is_up and stream.known_at >= since)

    def state(self, stream: Stream) -> StreamState:
        if stream.is_live():
            return "live"
        if not stream.is_started:
            return "idle"
        return "catching up" if self.is_up else "offline"

    def exactly(self, scope: ListScope) -> Stream | None:
        return self._streams.get(scope.resource, {}).get(scope)

    def refusal(self, scope: ListScope, *, now: float) -> Failure | None:
        """Upstream's, or for want of room, of a moment ago."""
        found = self._refusals.get(scope)
        return found[0] if found is not None and now < found[1] else None

    def forget_refusal(self, scope: ListScope) -> None:
        """Upstream is to be asked anew."""
        self._refusals.pop(scope, None)

    # ── which stream ──

    def covering(self, scope: ListScope) -> list[Stream]:
        """The synced streams that hold all of `scope`, the newest first."""
        streams = self.of(scope.resource)
        found = [s for s in streams if s.collection.is_synced and s.scope.covers(scope)]
        found.sort(key=lambda stream: stream.version, reverse=True)
        return found

    def at_hand(self, scope: ListScope) -> Stream | None:
        """The stream that answers at once: a live one, or while the link is down any."""
        found = self.covering(scope)
        if self.is_up:
            found = [stream for stream in found if stream.is_live()]
        return found[0] if found else None

    def use(self, stream: Stream, *, now: float) -> None:
        """It is read, and so follows upstream; while the link is down, as soon as that is back."""
        stream.used_at = now
        self._start(stream)

    def open(self, scope: ListScope, *, now: float) -> Stream:
        """Lets the stream for `scope` run: a covering one that is in use, else one of its own.
        Raises `NoRoom`."""

        own = self.exactly(scope)
        if own is not None and own.is_started:
            stream = own
        else:
            stream = self._wider(scope, now=now) or own or self._added(scope, now=now)
        if not stream.is_started:
            self._make_way(now=now)
        stream.used_at = now
        stream.refusal = None
        self._start(stream)
        return stream

    def _wider(self, scope: ListScope, *, now: float) -> Stream | None:
        """Another one that is in use and holds all of `scope`. After a restart the first client
        may be one that wants less than the others: then also one that ran when the relay ended."""
        own = self.exactly(scope)

        def is_used(stream: Stream) -> bool:
            if stream.is_started:
                return True
            is_recent = now - stream.used_at <= self.limits.idle_timeout
            has_run = stream.collection.is_synced and not stream.is_snapshot
            return own is None and is_recent and has_run

        others = (s for s in self.of(scope.resource) if s is not own and s.scope.covers(scope))
        return next(filter(is_used, others), None)

    def is_one_question(self, scope: ListScope, *, now: float) -> bool:
        """Whether a list of it is not worth a stream: it is by selectors, no client asked for it
        lately, and no stream has followed it or something wider (limits of what is followed)."""
        own = self.exactly(scope)
        return (
            bool(scope.params)
            and (own is None or own.is_snapshot)
            and self.is_up
            and not self._is_shared(scope)
            and self.askings.is_new(scope, now=now)
            and self._wider(scope, now=now) is None
        )

    def seed(
        self, scope: ListScope, page: Page, *, known_at: float, at: float, now: float
    ) -> Stream | None:
        """A whole list that a client asked upstream for at `known_at` (boot clock), wall time `at`.
        The stream that begins from it is to be persisted at once, before it moves on; None where
        none does. Raises `NoRoom`."""
        stream = self.exactly(scope)
        is_held = any(it.is_open() for it in self.covering(scope))
        is_followed = stream is not None and stream.is_started
        if not is_held and not is_followed and not self.askings.are_worth_a_stream(scope):
            return self._snapshot(scope, page, known_at=known_at, at=at, now=now)
        if stream is None and not is_held:
            self._make_way(now=now)
            stream = self._added(scope, now=now, more=len(page.items))
        if stream is not None and not stream.collection.is_synced:
            stream.known(known_at=known_at, confirmed_at=at, is_asked=True)
            stream.replace(page, gone=expired())
            self._start(stream)
            return stream
        if stream is None or not stream.is_open():
            self.open(scope, now=now)
        return None

    def _snapshot(
        self, scope: ListScope, page: Page, *, known_at: float, at: float, now: float
    ) -> Stream | None:
        """As `seed`, but that nothing follows upstream."""
        stream = self.exactly(scope)
        if stream is None:
            self._make_way_for_snapshot()
            stream = self._added(scope, now=now, more=len(page.items))
            stream.is_snapshot = True
        elif page.version < stream.version:
            return None
        stream.used_at = now
        self._measured = None
        stream.replace(page, gone=expired())
        stream.known(known_at=known_at, confirmed_at=at)
        return stream

    def restore(
        self,
        stream_scope: ListScope,
        page: Page,
        *,
        equal_at: int,
        confirmed_at: float,
        now: float,
        missed: int = 0,
    ) -> None:
        """A stream as it was when the relay ended, however many objects there are; it follows
        upstream again at the first request for it. `missed`: how much of it could not be read."""
        stream = self._made(stream_scope, now=now)
        stream.replace(page, gone=expired())
        stream.confirmed_at = confirmed_at
        stream.missed = missed
        stream.was_equal(equal_at)

    def adopt(self, stream: Stream) -> None:
        """A stream that is moved by its owner, not by a reflector."""
        self._streams.setdefault(stream.scope.resource, {})[stream.scope] = stream

    def drop(self, stream: Stream, status: Status | None) -> None:
        """Deletes it with its objects."""
        stream.stop()
        stream.is_dropped = True
        stream.end_watchers(status)
        stream.nudge()
        scopes = self._streams.get(stream.scope.resource, {})
        self._measured = None
        if scopes.get(stream.scope) is stream:
            del scopes[stream.scope]
            if not scopes:
                del self._streams[stream.scope.resource]

    def refused(self, stream: Stream, failure: Failure) -> None:
        """Upstream does not let the relay read this, or there is no room for it: what was kept of
        it goes."""
        stream.refuse(failure)
        # Of its credentials, the link's probe tells once for all streams.
        if failure.code != UNAUTHORIZED and sparing.allows(stream.scope, failure.code):
            logger.warning(
                "upstream refuses a stream",
                extra=fields(stream=stream.scope, status=failure.code, why=failure.message),
            )
        self.counters.refused(str(stream.scope.resource), failure.code)
        while len(self._refusals) >= MAX_REFUSALS:
            del self._refusals[next(iter(self._refusals))]
        self._refusals[stream.scope] = (failure, time.monotonic() + REFUSAL_TTL)
        if failure.code == UNAUTHORIZED:
            return  # of the token, which is to be renewed, not of the data
        records = tuple(deletion_records([stream]))
        self.drop(stream, expired())
        self._journal.send(*records)

    def evicted_for(self, resource: ResourceName) -> str:
        """The limit for which something of the resource was evicted last, "" where nothing was."""
        by_name = BUDGET_FLAG if resource in self.seen.evicted_of else ""
        return self._evicted_of.get(resource, by_name)

    def has_room(self, more: int) -> bool:
        """For so many objects more of a stream that is there, after what no reader has asked for
        lately is evicted. Before such a stream ends for want of room, all windows are given up: a
        client whose watch breaks lists anew, the others notice nothing."""
        now = time.monotonic()
        if self._lacks(more, now=now) is None:
            return True
        for stream in self:
            stream.collection.forget_up_to(stream.collection.cursor)
        self._measured = None
        return self._lacks(more, now=now) is None

    def _lacks(self, more: int, *, now: float, is_of_node: bool = False) -> str | None:
        """The limit that is in the way."""
        while True:
            size = self._measure(now)
            if self.objects + more > self.limits.max_objects:
                limit = "--max-objects"
            elif size > self.limits.memory_budget:
                limit = BUDGET_FLAG
            else:
                return None
            if self._give_up_passing():
                continue
            _say_reached(limit)
            if not self._evict(limit, now=now, is_of_node=is_of_node):
                return limit

    def _measure(self, now: float) -> int:
        if self._measured is None or not 0 <= now - self._measured[1] < MEASURED_FOR:
            self._measured = (self.size, now)
        return self._measured[0]

    def keep_within(self, *, now: float) -> None:
        """From time to time: windows grow without any object more."""
        for stream in self:
            stream.mark(now)
        self._measured = None
        self._lacks(0, now=now)

    def _give_up_passing(self) -> bool:
        self._measured = None
        # Bodies of lists are made again when a client asks for them.
        given = sum(stream.give_up_bodies() for stream in self)
        return given > 0 or any(give_up() for give_up in self.passing)

    def _evict(self, limit: str, *, now: float, is_of_node: bool) -> bool:
        """Deletes the stream that was asked for longest ago; where all were lately, the oldest
        snapshot; where there is none, changes of over a minute ago in all windows. What the node
        asked for goes last, and only for what the node asks for."""
        self._measured = None
        before = now - self.limits.idle_timeout
        unused = [s for s in self if not s.is_read and s.used_at < before]
        of_node = [s for s in unused if self.of_node.are_held_by(s.scope)]
        unused = [s for s in unused if s not in of_node] or self._unread_snapshots()
        if not unused and sum(stream.forget_old_changes(now) for stream in self) > 0:
            return True
        if not unused and is_of_node:
            unused = of_node
        if not unused:
            return False
        self._delete(min(unused, key=lambda stream: stream.used_at), limit)
        return True

    def _unread_snapshots(self) -> list[Stream]:
        snapshots = (s for s in self if s.is_snapshot and not s.is_read)
        return [s for s in snapshots if not self.of_node.are_held_by(s.scope)]

    def _make_way_for_snapshot(self) -> None:
        snapshots = self._unread_snapshots()
        if len(snapshots) >= SNAPSHOTS_PER_STREAM * self.limits.max_streams:
            _say_reached(STREAMS_FLAG)
            self._delete(min(snapshots, key=lambda stream: stream.used_at), STREAMS_FLAG)

    def _delete(self, oldest: Stream, limit: str) -> None:
        """For want of room."""
        self.evicted += 1
        self._evicted_of[oldest.scope.resource] = limit
        self._journal.send(*deletion_records([oldest]))
        self.drop(oldest, None)

    def _make_way(self, *, now: float) -> None:
        """For one stream more that follows upstream: another one, without readers, is closed. Its
        data stays. Raises `NoRoom`."""
        if self.running < self.limits.max_streams:
            return
        unread = [s for s in self if s.is_started and not s.is_read]
        if not unread:
            _say_reached(STREAMS_FLAG)
            raise NoRoom(STREAMS_FLAG)
        min(unread, key=lambda stream: stream.used_at).stop()

    def link(self, is_up: bool) -> None:
        """The link went or came back."""
        self._may_ask = is_up
        for mover in self._movers():
            mover.link(is_up)
        for stream in self:
            stream.nudge()

    def doubt(self) -> None:
        """The process stood still: what came meanwhile is unread."""
        for mover in self._movers():
            mover.doubt()

    def reopen(self) -> None:
        """There is another way to upstream: open watches go on there."""
        for mover in self._movers():
            mover.reopen()

    def refresh(self) -> None:
        """There may be another hub of the pool, or none any more."""
        for mover in self._movers():
            mover.refresh()

    def _movers(self) -> list[Mover]:
        return [stream.mover for stream in self if stream.mover is not None]

    async def list_again(
        self, resources: Iterable[ResourceName], *, timeout: float
    ) -> Stream | None:
        """Returns when all streams of these have new lists; else one that got none in time."""
        before = {s: s.lists for resource in resources for s in self.of(resource)}
        for stream in before:
            stream.relist()
            self._start(stream)
        for stream, lists in before.items():
            if not await stream.until(partial(_has_listed, stream, lists), timeout=timeout):
                return stream
        return None

    def _start(self, stream: Stream) -> None:
        stream.is_snapshot = False
        if not stream.is_started:
            stream.start(self._move(stream, self, is_up=self._may_ask))
            for observer in self.on_start:
                observer(stream)

    def _added(self, scope: ListScope, *, now: float, more: int = 1) -> Stream:
        limit = self._lacks(more, now=now, is_of_node=self.of_node.are_held_by(scope))
        if limit is not None:
            self.counters.refused(str(scope.resource), HTTPStatus.TOO_MANY_REQUESTS.value)
            raise NoRoom(limit)
        return self._made(scope, now=now)

    def _made(self, scope: ListScope, *, now: float) -> Stream:
        collection = Collection(
            window_bytes=self.limits.window_bytes, window_events=self.limits.window_events
        )
        stream = Stream(scope, collection, self.counters, now=now)
        stream.on_shown = partial(self.minimum.raise_to, scope.resource)
        stream.named_kind = lambda: self._kind_of(scope.resource)
        # What leaves another selection may be there still.
        if not scope.labels.requirements and LASTING.issuperset(scope.fields.paths):
            stream.on_gone = partial(self._ended, scope.resource)
        self._measured = None
        self._streams.setdefault(scope.resource, {})[scope] = stream
        return stream

    # ── single objects ──

    def _ended(self, resource: ResourceName, key: Key, version: int) -> None:
        gone = self.seen.ended(resource, key, version)
        if gone:
            self._journal.send(*gone)

    def stands_at(self, resource: ResourceName, version: int) -> None:
        """Upstream is at `version`, and was beyond it, before it was restored from a backup."""
        self._back(resource, version, None)

    def went_back(self, stream: Stream, version: int) -> None:
        """As `stands_at`, of a stream that is empty now, and about to be listed."""
        self._back(stream.scope.resource, version, stream)

    def _back(self, resource: ResourceName, version: int, but: Stream | None) -> None:
        """What was learned of the resource beyond `version` is of no history any more; `but` is a
        stream that knows."""
        logger.warning("upstream went back", extra=fields(resource=resource, version=version))
        for observer in self.on_history_lost:
            observer()
        self.minimum.went_back(resource, version)
        evicted = self.seen.went_back(resource, version)
        alike = [s for s in self if s.scope.resource.storage == resource.storage]
        streams = [s for s in alike if s is not but and s.version > version]
        for stream in streams:
            if stream.is_started:
                stream.forget(gone=expired())
                stream.relist(is_paced=True)
            else:
                self.drop(stream, expired())
        if but is not None:
            streams.append(but)
        self._journal.send(*deletion_records(streams), *evicted)

    def newest(self, resource: ResourceName, key: Key) -> tuple[Item, Stream | float] | None:
        """The highest version known of one object, with the stream or wall time it is from.

        None where it is unknown, or where a stream that would know is newer and lacks it.
        """
        best: tuple[Item, Stream | float] | None = self.seen.get(resource, key)
        for stream in self.of(resource):
            if not stream.collection.is_synced:
                continue
            item = stream.collection.objects.get(key)
            if item is not None and (best is None or item.version >= best[0].version):
                best = (item, stream)
        return best

    def lacking(self, scope: ListScope, key: Key) -> Stream | None:
        """The newest stream that covers `scope` and does not have the object."""
        found = (stream for stream in self.covering(scope) if stream.is_whole)
        return next((stream for stream in found if key not in stream.collection.objects), None)


def _say_reached(limit: str) -> None:
    """Once a minute."""
    if sparing.allows("limit", limit):
        logger.warning("a limit is reached", extra=fields(limit=limit))


def _has_listed(stream: Stream, before: int) -> bool:
    return stream.lists > before
