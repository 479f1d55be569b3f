"""One stream: the objects, window and cursor of one upstream list+watch, and its readers.

Guarantees: it is moved only by its own events, in order; a reader that waits for a state goes on
in the moment when the stream gets there. Knows neither how events come nor what is answered from
them.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Protocol

from edge_sidecars.apimachinery.objects import Event, Item, Key, Malformed, Page, kind_of
from edge_sidecars.apimachinery.resources import known_fields
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.status import Status
from edge_sidecars.apimachinery.store import Collection, ObjectChange, fingerprint_of
from edge_sidecars.apimachinery.watch_events import EventType, Failure
from relay_sidecar.core.stream.commands import ListEvidence
from relay_sidecar.streams.fanout import Broadcaster, StreamView
from relay_sidecar.streams.list_encoder import ListBody
from relay_sidecar.telemetry.metrics import RelayCounters

# Cached bodies of lists: of few views, since clients choose the selectors, and while the link is
# down nothing moves that would make a body old.
MAX_BODIES = 8
# Seconds; of changes that a window keeps where there is no room for more: clients that lose their
# watch come back at once.
KEPT_CHANGES = 60.0


class Mover(Protocol):
    """What moves one stream: lists and watches of upstream, or another stream that it follows. A
    subclass reacts to what it overrides."""

    @property
    def source(self) -> str:
        """From where it comes: "cloud", or the name of a hub."""
        ...

    def is_open(self) -> bool: ...
    def is_live(self) -> bool: ...

    def confirmed_at(self) -> float:
        """Wall time at which upstream showed that nothing is missing; 0 where it did not."""
        ...

    def stop(self) -> None:
        """It moves the stream no more."""
        return

    def confirm(self) -> None:
        """A reader waits for what upstream holds now."""
        return

    def compare(self, listed: ListEvidence) -> None:
        """What upstream held, beside the watch."""
        return

    def relist(self, *, is_paced: bool) -> None:
        """What the stream holds is doubtful."""
        return

    def link(self, is_up: bool) -> None:
        """The link went or came back."""
        return

    def reopen(self) -> None:
        """There is another way to upstream: an open watch goes on there."""
        return

    def refresh(self) -> None:
        """There may be another hub of the pool, or none any more."""
        return

    def doubt(self) -> None:
        """The process stood still: what came meanwhile is unread."""
        return


class Stream:
    """Its objects are known to have been upstream's state at `confirmed_at` (wall time, persisted)
    and at `known_at` (boot clock, of this process only), and since then while it is live."""

    def __init__(
        self, scope: ListScope, collection: Collection, counters: RelayCounters, *, now: float
    ) -> None:
        self.scope = scope
        self.collection = collection
        self.list_kind = ""
        self.api_version = ""
        self.confirmed_at = 0.0
        self.known_at = -math.inf
        # What upstream held when it was asked then (boot clock) is here, or what came after it.
        self.asked_at = -math.inf
        self.used_at = now
        # Objects here may differ from upstream's at the same version: only a list helps.
        self.is_doubtful = False
        self.lists = 0
        # Upstream held something else at a version that the stream has passed: its objects are of
        # a history that upstream lost, and has written on since.
        self.has_diverged = False
        # How often all of its objects turned out to be of a history that upstream lost.
        self.turns = 0
        # Its cursor at moments of the last minute, the oldest first.
        self.marks: deque[tuple[float, int]] = deque()
        # It holds one answer of upstream's, and has never followed upstream.
        self.is_snapshot = False
        # It is no longer among the streams, and no longer moves.
        self.is_dropped = False
        self.refusal: Failure | None = None
        # Upstream did not manage its last list, or refused its last watch, while the link was up.
        self.is_failing = False
        # It did not manage the last question beside the watch, by which that is proved.
        self.is_unproved = False
        # Items of the last list, and events since, that could not be read: of what is not here,
        # only upstream can tell that it is not there.
        self.unreadable = self.missed = 0
        # A list of upstream that this stream is not known to have reached yet.
        self._expected: ListEvidence | None = None
        # A version, and the fingerprint that upstream and this stream had then.
        self._equal = (0, 0)
        # The stream to which its watchers moved when it was closed last.
        self.successor: Stream | None = None
        # The successor's `turns` then.
        self.successor_turns = 0
        # The kind of an object, as discovery names it.
        self.named_kind: Callable[[], str] = str
        # Of objects that were here.
        self._former_kind = ""
        # Called with each version before watchers see it, and whose it is: an object's or this
        # stream's own.
        self.on_shown: Callable[[int, Item | ListScope], None] | None = None
        # Called with each object that is gone upstream, and the version of its end.
        self.on_gone: Callable[[Key, int], None] | None = None
        self.counters = counters
        self._mover: Mover | None = None
        # Watches that have yet to get what was before: no broadcaster has them.
        self.behind: set[object] = set()
        self._broadcasters: dict[StreamView, Broadcaster] = {}
        self._waiters: set[tuple[Callable[[], bool], asyncio.Future[None]]] = set()
        # Of the present state: which objects there are, in order, they themselves, and the bodies
        # of lists.
        self._order: list[Key] | None = None
        self._sorted: list[Item] | None = None
        self._bodies: dict[StreamView, ListBody] = {}

    @property
    def kind(self) -> str:
        """Of one object. By convention a list's kind is that with "List" behind, but a CRD may name
        any other: only where there was no object and is no discovery is it gone by."""
        return self._known_kind or self.list_kind.removesuffix("List")

    @property
    def is_kind_known(self) -> bool:
        """`kind` is no guess; the convention holds for all that is built in."""
        return bool(self._known_kind) or known_fields(self.scope.resource) is not None

    @property
    def _known_kind(self) -> str:
        return self.collection.kind or self.named_kind() or self._former_kind

    @property
    def watchers(self) -> int:
        return len(self.behind) + sum(len(each.watchers) for each in self._broadcasters.values())

    @property
    def is_read(self) -> bool:
        """It has watchers, or readers that wait for a state."""
        return bool(self._waiters) or self.watchers > 0

    @property
    def is_waited_for(self) -> bool:
        """Readers wait for a state."""
        return bool(self._waiters)

    @property
    def is_stuck(self) -> bool:
        """Upstream fails what would make it current: no reader is to wait for that."""
        return self.is_failing or self.is_unproved

    @property
    def is_watched_whole(self) -> bool:
        """It has watchers of all of its objects."""
        return any(view.only is None and each.watchers for view, each in self._broadcasters.items())

    @property
    def is_whole(self) -> bool:
        """All that upstream sent of it could be read."""
        return not self.unreadable and not self.missed

    @property
    def equal_at(self) -> int:
        """A version at which upstream had just the objects that are here now, or 0.

        The cursor of a quiet stream moves with bookmarks only. A stream whose objects change
        before it gets beyond that version is older than it again: watchers still see what came and
        went in between, so the cursor itself does not move.
        """
        version, fingerprint = self._equal
        return version if fingerprint == self.collection.fingerprint else 0

    @property
    def version(self) -> int:
        """The highest that the objects here are known to have."""
        return max(self.collection.cursor, self.equal_at)

    def fingerprint_of(self, scope: ListScope) -> int:
        """Of the part of the objects here that is in a scope which this stream covers."""
        predicate = self.scope.residual(scope)
        if predicate is None:
            return self.collection.fingerprint
        return fingerprint_of(filter(predicate.matches, self.collection.objects.values()))

    def items(self) -> Sequence[Item]:
        """In kube-apiserver's order, that of etcd's keys."""
        if self._sorted is None:
            objects = self.collection.objects
            if self._order is None:
                self._order = sorted(objects, key="/".join)
            self._sorted = [objects[key] for key in self._order]
        return self._sorted

    def body(self, view: StreamView) -> ListBody:
        """The list as of now; encoded once for all readers with the same view."""
        body = self._bodies.get(view)
        if body is not None and body.version != self.version:
            body = self._bodies[view] = body.at(self.version)
        if body is None:
            while len(self._bodies) >= MAX_BODIES:
                del self._bodies[next(iter(self._bodies))]
            body = self._bodies[view] = ListBody(
                self.items(),
                view,
                kind=self.list_kind,
                api_version=self.api_version,
                version=self.version,
            )
        return body

    @property
    def bodies_size(self) -> int:
        """Bytes of the bodies of lists, beside the objects."""
        return sum(body.size for body in self._bodies.values())

    def give_up_bodies(self) -> bool:
        """They are made again for the next reader. Whether there were any."""
        had_some = bool(self._bodies)
        self._bodies.clear()
        return had_some

    def mark(self, now: float) -> None:
        """It is at its cursor now, which tells later how old the changes of its window are."""
        while len(self.marks) > 1 and self.marks[1][0] <= now - KEPT_CHANGES:
            self.marks.popleft()
        self.marks.append((now, self.collection.cursor))

    def forget_old_changes(self, now: float) -> int:
        """Leaves the window the changes of a minute; how many bytes went."""
        old = [cursor for at, cursor in self.marks if at <= now - KEPT_CHANGES]
        return self.collection.forget_up_to(old[-1]) if old else 0

    def growth(self, events: Iterable[Event]) -> int:
        """How many objects more there are after these events."""
        objects = self.collection.objects
        last = {e.item.key: e.type is not EventType.DELETED for e in events if e.item is not None}
        return sum(is_there - (key in objects) for key, is_there in last.items())

    # ── what moves it ──

    def start(self, mover: Mover) -> None:
        """The mover has begun; there is one at a time."""
        self._mover = mover

    def stop(self) -> None:
        """It moves no more; its objects stay."""
        mover, self._mover = self._mover, None
        if mover is not None:
            mover.stop()

    @property
    def mover(self) -> Mover | None:
        return self._mover

    @property
    def is_started(self) -> bool:
        """It follows upstream, or tries to."""
        return self._mover is not None

    def is_open(self) -> bool:
        """What happens upstream comes here; something from before may be missing yet."""
        return self._mover is not None and self._mover.is_open()

    def is_live(self) -> bool:
        """Nothing that happened upstream is missing, but for what is on its way."""
        return self._mover is not None and self._mover.is_live()

    @property
    def runs(self) -> bool:
        """It follows upstream, or is about to; upstream has not refused it."""
        return self.refusal is None and self.is_started

    @property
    def source(self) -> str:
        """From where it comes; "" where nothing moves it."""
        return "" if self._mover is None else self._mover.source

    @property
    def as_of(self) -> float:
        """Wall time of which its objects are known to be upstream's state."""
        if self._mover is None:
            return self.confirmed_at
        return max(self.confirmed_at, self._mover.confirmed_at())

    def confirm(self) -> None:
        """A reader waits for what upstream holds now."""
        if self._mover is not None:
            self._mover.confirm()

    def compare(self, listed: ListEvidence) -> None:
        """What upstream held, beside the watch."""
        if self._mover is not None:
            self._mover.compare(listed)

    def relist(self, *, is_paced: bool = False) -> None:
        """What it holds is doubtful; one that does not run lists before it does."""
        self.is_doubtful = True
        if self._mover is not None:
            self._mover.relist(is_paced=is_paced)

    # ── moves ──

    def replace(self, page: Page, *, gone: Status) -> None:
        """A whole list. What happened since the last one is unknown, so that watchers end."""
        was_followed = self.collection.is_synced and not self.is_snapshot
        self.is_doubtful = self.is_failing = self.is_unproved = self.has_diverged = False
        self.lists += 1
        self.list_kind, self.api_version = page.kind, page.api_version
        self.unreadable, self.missed = page.unreadable, 0
        self._order = self._sorted = None
        self._bodies.clear()
        kind = _kind_of(page)
        self._former_kind = kind or self.collection.kind or self._former_kind
        self.collection.replace(page.items, page.version, kind=kind, api_version=page.api_version)
        self.refusal = None
        self._expected, self._equal = None, (0, 0)
        if was_followed:
            self.counters.relists += 1
            self.end_watchers(gone)
        self._tell()

    def apply(self, events: Iterable[Event], *, came_at: float | None = None) -> None:
        """`came_at`: when they came from upstream (monotonic clock)."""
        changes: list[ObjectChange] = []
        marked = False
        for event in events:
            change = self.collection.apply(event)
            if change is not None:
                changes.append(change)
            marked = event.type is EventType.BOOKMARK
        self.publish(changes, came_at=came_at)
        if marked:
            cursor = self.collection.cursor
            broadcasters = self._broadcasters.values()
            # A client that has seen a version sees nothing older from another stream.
            if self.on_shown is not None and any(each.has_listeners for each in broadcasters):
                self.on_shown(cursor, self.scope)
            # Clients take no bookmark of another kind than their objects'.
            for each in broadcasters if self.is_kind_known else ():
                each.bookmark(cursor, self.kind, self.api_version)
        self._come_up()
        self._tell()

    def publish(self, changes: Sequence[ObjectChange], *, came_at: float | None = None) -> None:
        """The collection has changed by these: watchers see them."""
        self.counters.events_received += len(changes)
        self._bodies.clear()
        if changes:
            self._sorted = None
            if any(change.type is not EventType.MODIFIED for change in changes):
                self._order = None
            if self.on_gone is not None:
                for change in changes:
                    if change.type is EventType.DELETED:
                        self.on_gone(change.item.key, change.version)
            broadcasters = self._broadcasters.values()
            if self.on_shown is not None and any(each.watchers for each in broadcasters):
                self.on_shown(changes[-1].version, changes[-1].item)
            for each in broadcasters:
                each.publish(changes, came_at=came_at)

    def expect(self, evidence: ListEvidence) -> None:
        """Upstream had this list: the stream reaches it, or is beyond it. A later one without the
        objects does not take the place of one that has them."""
        before = self._expected
        is_later = before is None or evidence.version >= before.version
        if is_later and (evidence.fingerprint is not None or before is None):
            self._expected = evidence
            self._come_up()
            self._tell()

    def was_equal(self, version: int) -> None:
        """Upstream had at `version` just the objects here, as a former run found out."""
        self._equal = (version, self.collection.fingerprint)

    def known(self, *, known_at: float, confirmed_at: float, is_asked: bool = False) -> None:
        """Upstream had the objects here then, or these are newer; `is_asked`: it was asked then,
        so that nothing is on its way. The wall clock may have been set back since the last time:
        the boot clock decides which is later."""
        if is_asked:
            self.asked_at = max(self.asked_at, known_at)
        if known_at > self.known_at:
            self.known_at, self.confirmed_at = known_at, confirmed_at
        else:
            self.confirmed_at = max(self.confirmed_at, confirmed_at)

    def forget(self, *, gone: Status) -> None:
        """Its objects are of a history that upstream lost."""
        self.has_diverged = False
        self.collection.clear()
        self.turns += 1
        self.known_at = self.asked_at = -math.inf
        self.confirmed_at = 0.0
        self._expected, self._equal = None, (0, 0)
        self._order = self._sorted = None
        self._bodies.clear()
        self.end_watchers(gone)
        self._tell()

    def accepted(self) -> None:
        """Upstream lets the relay watch this."""
        self.refusal = None
        self.is_failing = False
        self._tell()

    def refuse(self, failure: Failure) -> None:
        """Upstream does not let the relay read this: readers that wait go on."""
        self.refusal = failure
        self._tell()

    def end_watchers(self, status: Status | None) -> None:
        """`status` goes to each as its last event; without, the watch just ends."""
        last = None if status is None else status.event()
        for each in tuple(self._broadcasters.values()):
            each.end(last)
        self._broadcasters.clear()

    def move_watchers(self, successor: "Stream") -> bool:
        """Whether each watcher goes on at the other stream, where it loses and repeats nothing.
        The successor's window includes the version up to which this stream has delivered all, and
        the successor has come that far itself, so that no watcher waits or sees an older state."""
        collection = self.collection
        if self.is_doubtful or not collection.is_whole:
            return False
        held = successor.collection
        if held.window_start > collection.cursor or held.cursor < collection.cursor:
            return False
        self.successor, self.successor_turns = successor, successor.turns
        for each in tuple(self._broadcasters.values()):
            each.move(collection.cursor)
        self._broadcasters.clear()
        return True

    # ── readers ──

    def broadcaster(self, view: StreamView) -> Broadcaster:
        if view not in self._broadcasters:
            self._broadcasters = {
                v: each for v, each in self._broadcasters.items() if each.watchers
            }
            self._broadcasters[view] = Broadcaster(view, self.counters)
        return self._broadcasters[view]

    async def until(self, is_so: Callable[[], bool], *, timeout: float | None = None) -> bool:
        """Whether it became so (it is asked after each move) within `timeout` seconds."""
        if is_so():
            return True
        if timeout is not None and timeout <= 0:
            return False
        waiter = (is_so, asyncio.get_running_loop().create_future())
        self._waiters.add(waiter)
        try:
            async with asyncio.timeout(timeout):
                await waiter[1]
        except TimeoutError:
            return is_so()
        finally:
            self._waiters.discard(waiter)
        return True

    def _come_up(self) -> None:
        evidence = self._expected
        if evidence is None:
            return
        is_equal = evidence.fingerprint == self.collection.fingerprint
        if is_equal:
            self.missed = 0
        if is_equal and evidence.version > self._equal[0]:
            self._equal = (evidence.version, evidence.fingerprint or 0)
        if not is_equal and self.collection.cursor < evidence.version:
            return
        if not is_equal and evidence.fingerprint is not None:
            was = self.collection.fingerprint_at(evidence.version)
            if was is None and evidence.version == self.collection.cursor:
                return  # deletions may come that share this version
            # Of what cannot be read, another form of the list may have names and versions.
            if was is not None and was != evidence.fingerprint and not self.unreadable:
                self.has_diverged = True
                return
        self._expected = None
        asked_at, at_wall = evidence.asked_at, evidence.asked_at_wall
        self.known(known_at=asked_at, confirmed_at=at_wall, is_asked=True)

    def _tell(self) -> None:
        for waiter in tuple(self._waiters):
            if not waiter[1].done() and waiter[0]():
                waiter[1].set_result(None)

    nudge = _tell


def _kind_of(page: Page) -> str:
    """Of its items; "" where there are none that say it."""
    with suppress(Malformed):
        return kind_of(page.items[0].raw) if page.items else ""
    return ""
