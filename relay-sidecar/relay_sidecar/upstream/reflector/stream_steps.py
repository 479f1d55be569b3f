"""What a stream takes in of lists and watches, one step after another.

Guarantees: a step is persisted before it is delivered, and taken whole or not at all, also where
the request that brought it is cancelled; a step of a history that was evicted meanwhile is none.
The first objects of a long list are in the journal before its last ones arrive.
"""

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from typing import Final, Protocol

from edge_sidecars.apimachinery.objects import Event, Item, Key, Malformed, Page
from edge_sidecars.apimachinery.status import expired
from edge_sidecars.apimachinery.watch_events import EventType, Failure
from edge_sidecars.kubeapi import Unreachable
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger, sparing
from relay_sidecar.core.stream.commands import ListRequest
from relay_sidecar.core.stream.lists import ArrivingList
from relay_sidecar.core.stream.reflection import Reflection
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import EventsApplied, ListAborted, ListChunk
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.stream_journal import equal_record, list_records, missed_record
from relay_sidecar.upstream.reflector.source import Feed

# HTTP 429; what a stream is refused with that the relay has no room for.
# Below each version: nothing that is known is of this history.
NO_VERSION: Final = -1
# Seconds between two equalities that are written: each is some kB on a disk that may be flash.
EQUAL_PACE: Final = 0.25
FULL: Final = Failure(429, "TooManyRequests", "--max-objects of the relay is reached")


class StreamOwner(Protocol):
    """Who decides what becomes of a stream that upstream refuses."""

    def refused(self, stream: Stream, failure: Failure) -> None: ...
    def has_room(self, more: int) -> bool: ...
    def went_back(self, stream: Stream, version: int) -> None:
        """Upstream is at `version`, and this stream was beyond it: it is empty now, and about
        to be listed."""
        ...


class StreamSteps:
    """Of one stream. `wake` makes its reflector look at what is to be done next."""

    def __init__(
        self,
        stream: Stream,
        reflection: Reflection,
        journal: Journal,
        owner: StreamOwner,
        *,
        feed: Feed,
        wake: Callable[[], None],
    ) -> None:
        self.stream = stream
        self.reflection = reflection
        self.journal = journal
        self.owner = owner
        self.feed = feed
        self.wake = wake
        self._taking: asyncio.Future[None] | None = None
        # The last equality that is in the journal; one that is to be written soon.
        self._persisted_equal = 0
        self._persisting: asyncio.TimerHandle | None = None

    def is_live(self) -> bool:
        """Upstream's watch brings what happens, and nothing from before is missing."""
        return self.reflection.is_live(boottime(), equal_at=self.stream.equal_at)

    def was_live(self) -> bool:
        """The same as of upstream's latest answer."""
        return self.reflection.was_live(boottime(), equal_at=self.stream.equal_at)

    def note_confirmed(self) -> None:
        """It was live at upstream's latest answer, and may be no more from now on."""
        if self.was_live():
            self.stream.known(known_at=-math.inf, confirmed_at=self.feed.answered_at)

    # ── one step after another ──

    async def begin(self, step: Coroutine[None, None, None]) -> None:
        """After the step before. A request that is cancelled meanwhile does not tear it in two."""
        with ExitStack() as stack:
            stack.callback(step.close)
            await self.settled()
            stack.pop_all()
        self._taking = asyncio.create_task(step)

    async def settled(self) -> None:
        """The step before is taken; whatever went wrong with it is raised."""
        if self._taking is not None and not self._taking.done():
            await asyncio.shield(self._taking)
        elif self._taking is not None:
            self._taking.result()

    async def ended(self) -> None:
        """The step before is taken, or has failed."""
        if self._taking is not None:
            await asyncio.wait([self._taking])
            self._taking = None

    # ── steps ──

    async def replace(
        self, whole: Page, *, lists: int, known_at: float, confirmed_at: float
    ) -> None:
        """A list that was asked for when the stream had been listed `lists` times."""
        stream = self.stream
        while not self._is_overtaken(whole, lists):
            if whole.version < stream.collection.cursor:
                self.go_back(whole.version)
            listed, turns = stream.lists, stream.turns
            await self.journal.commit(*list_records(stream, whole, at=confirmed_at))
            if stream.turns != turns:
                return  # what was forgotten meanwhile is listed again
            if stream.lists == listed:
                stream.known(known_at=known_at, confirmed_at=confirmed_at, is_asked=True)
                stream.replace(whole, gone=expired())
                if whole.unreadable:
                    self._note_unreadable("item", whole.unreadable, "")
                return

    def _is_overtaken(self, whole: Page, lists: int) -> bool:
        """Whether a list that a client was given has begun the stream meanwhile, at this version
        or a newer one: then the watch, from here on, brings nothing twice."""
        return self.stream.lists != lists and self.stream.collection.cursor >= whole.version

    async def take(self, events: Sequence[Event], *, came_at: float) -> None:
        """Events that came then (monotonic clock), after the step before. In the caller's own
        task, which hundreds of these a second ask for; where that is cancelled, another one takes
        them to their end."""
        await self.settled()
        stream = self.stream
        if not stream.collection.is_synced:
            return
        if self.is_live():
            stream.known(known_at=boottime(), confirmed_at=time.time())
        turns = stream.turns
        record = _events_record(stream, events)
        written = None if record is None else self.journal.begin(record)
        if written is None:
            self._deliver(events, turns, came_at)
            return
        taken = self._taking = asyncio.get_running_loop().create_future()
        try:
            # A future that is awaited itself would be cancelled with its caller.
            await asyncio.shield(written)
        except asyncio.CancelledError:
            self._taking = asyncio.create_task(self._deliver_later(written, events, turns, came_at))
            self._taking.add_done_callback(lambda _: taken.set_result(None))
            raise
        except BaseException:
            taken.set_result(None)
            raise
        try:
            self._deliver(events, turns, came_at)
        finally:
            taken.set_result(None)

    async def _deliver_later(
        self, written: asyncio.Future[None], events: Sequence[Event], turns: int, came_at: float
    ) -> None:
        await written
        self._deliver(events, turns, came_at)

    def _deliver(self, events: Sequence[Event], turns: int, came_at: float) -> None:
        """What is in the journal; `turns`: the stream's when they came."""
        stream = self.stream
        if stream.turns != turns:
            return  # these are of the history that was forgotten meanwhile
        was_live = self.is_live()
        stream.apply(events, came_at=came_at)
        if self.has_diverged():
            return
        if self.reflection.received(events[-1].version, boottime()):
            self.go_back(events[-1].version)
        self.persist_equal()
        if not was_live and self.is_live():
            stream.nudge()

    def step_over(self, missed: Sequence[Malformed]) -> None:
        """Events that cannot be read: what they would have brought is missing here until a list is
        found to be equal, or takes the place of what is here."""
        self.stream.missed += len(missed)
        self.journal.send(missed_record(self.stream))
        self._note_unreadable("event", len(missed), str(missed[0]))

    def _note_unreadable(self, what: str, count: int, why: str) -> None:
        stream = self.stream
        stream.counters.unreadable_came(str(stream.scope.resource), what, count)
        if sparing.allows(stream.scope, f"unreadable {what}"):
            logger.warning(
                "upstream sent what cannot be read",
                extra=fields(stream=stream.scope, what=what, count=count, why=why),
            )

    def has_diverged(self) -> bool:
        """Whether the stream turned out to be of a history that upstream lost, and is listed anew:
        all that was learned of its resource may be of that history."""
        if not self.stream.has_diverged:
            return False
        if self.stream.missed:
            # No other history: it is what an event would have brought that could not be read.
            self.stream.has_diverged, self.stream.missed = False, 0
            self.reflection.relist(boottime(), is_paced=True)
            self.wake()
            return True
        logger.warning("upstream has another history", extra=fields(stream=self.stream.scope))
        self.reflection.relist(boottime(), is_paced=True)
        self.go_back(NO_VERSION)
        return True

    def go_back(self, version: int) -> None:
        """Upstream is at `version`, which the stream was beyond."""
        self.stream.forget(gone=expired())
        self.owner.went_back(self.stream, version)
        self.wake()

    def persist_equal(self) -> None:
        """At once, or together with those that follow soon: each list that a client asks for may
        show one."""
        if self._persisting is None and self._is_equal_news():
            self._write_equal()
            loop = asyncio.get_running_loop()
            self._persisting = loop.call_later(EQUAL_PACE, self._persist_later)

    def stop_persisting(self) -> None:
        """The stream is no longer moved from here: what waits is written."""
        if self._persisting is not None:
            self._persisting.cancel()
            self._persist_later()

    def _persist_later(self) -> None:
        self._persisting = None
        if not self.stream.is_dropped and self._is_equal_news():
            self._write_equal()

    def _is_equal_news(self) -> bool:
        return self.stream.equal_at > max(self.stream.collection.cursor, self._persisted_equal)

    def _write_equal(self) -> None:
        self._persisted_equal = self.stream.equal_at
        self.journal.send(equal_record(self.stream))


def _events_record(stream: Stream, events: Sequence[Event]) -> EventsApplied | None:
    """What moves the stream on from its cursor; None where none of the events does."""
    after = stream.collection.cursor
    news = [event for event in events if event.version >= after]
    if not news:
        return None
    changes: list[tuple[Key, Item | None]] = [
        (event.item.key, None if event.type is EventType.DELETED else event.item)
        for event in news
        if event.item is not None
    ]
    return EventsApplied(stream.scope, after, news[-1].version, changes, stream.confirmed_at)


# Bytes of objects of a list that is still arriving, which are kept together.
KEPT_TOGETHER = 1024 * 1024
# HTTP 406; never sent, it marks what upstream serves and the relay cannot keep.
NOT_READABLE: Final = 406


class ListPhase:
    """Of one stream, list by list."""

    def __init__(self, steps: StreamSteps, feed: Feed) -> None:
        self._steps = steps
        self._feed = feed
        # Objects on the pages of the list that is under way; how often the stream had been listed
        # when it began.
        self._listed = self._lists = 0
        self._persists_early = False
        # When that list was asked for: boot clock and wall time.
        self._asked = (math.inf, math.inf)

    async def run(self, command: ListRequest) -> None:
        """One page, or all. Raises `ApiError`, `Unreachable`, `Malformed`."""
        steps, stream = self._steps, self._steps.stream
        params = dict(stream.scope.params)
        if command.limit:
            params["limit"] = str(command.limit)
        if command.continue_token:
            params["continue"] = command.continue_token
        else:
            await self._feed.choose()
            self._listed, self._lists = 0, stream.lists
            self._asked = boottime(), time.time()
        arriving = ArrivingList(batch=KEPT_TOGETHER)
        body = await self._feed.page(
            stream.scope.path,
            params,
            arrived=lambda body: self._persist_early(arriving.more(body)),
            aged=self._was_old,
        )
        known_at, confirmed_at = self._asked
        try:
            page = arriving.whole(body)
            self._check_readable(page, command)
        except Malformed as error:
            if stream.collection.is_synced or not self._feed.is_cloud:
                raise
            # Versions that cannot be compared, most likely: only upstream can serve this.
            steps.owner.refused(stream, Failure(NOT_READABLE, "", str(error)))
            return
        del body
        is_believed = self._feed.is_cloud and known_at > -math.inf
        if not is_believed and page.version < stream.version:
            # The relay above is behind; that the API server went back, only an answer of now tells.
            raise Unreachable(f"a list at {page.version}, older than what is kept")
        # A list takes the place of what is there; of the pages to come, upstream tells the objects.
        self._listed += len(page.items)
        more = self._listed + (page.remaining or 0) - len(stream.collection.objects)
        if not steps.owner.has_room(more):
            if not self._feed.is_cloud:
                raise Unreachable(FULL.message)
            steps.owner.refused(stream, FULL)
            return
        whole = steps.reflection.page(page, boottime())
        if whole is not None:
            step = steps.replace(
                whole, lists=self._lists, known_at=known_at, confirmed_at=confirmed_at
            )
            await steps.begin(step)
        # Its watch is opened while the list is being kept.
        steps.wake()

    def abort(self) -> None:
        """No list follows: what is persisted of one that is not whole is of no use."""
        if self._persists_early and not self._steps.stream.collection.is_synced:
            self._steps.journal.send(ListAborted(self._steps.stream.scope))

    def _check_readable(self, page: Page, command: ListRequest) -> None:
        """Single items are stepped over. Raises `Malformed` where a first list would be without
        any: then only upstream can serve this; and for what a hub sends."""
        if not page.unreadable:
            return
        is_first = not command.continue_token and not self._steps.stream.collection.is_synced
        if not self._feed.is_cloud or (is_first and not page.items):
            raise Malformed(f"{page.unreadable} items that cannot be read")

    def _was_old(self, age: float) -> None:
        """Upstream is another relay, which answered from its cache. That proves nothing about now,
        whatever its age; the age counts from its wall clock."""
        self._asked = -math.inf, self._asked[1] - age

    def _persist_early(self, items: Sequence[Item]) -> None:
        """What is left to do at the end of a first list is what clients wait for."""
        steps = self._steps
        is_first = not steps.stream.collection.is_synced
        if items and is_first and steps.owner.has_room(self._listed + len(items)):
            steps.journal.send(ListChunk(steps.stream.scope, items))
            self._persists_early = True
