"""Moves a stream: performs upstream what `Reflection` says, and persists each step before delivery.

Guarantees: What was delivered is in the journal, so that a restart does not take it back. A stream
has one request under way at most. When the link goes its requests end at once, and when it is back
each goes on from its cursor. Knows no rule of reflection: those are in `core`.
"""

import asyncio
import math
import random
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from http import HTTPStatus
from typing import Final

from edge_sidecars.apimachinery.objects import Event, Malformed, read_event
from edge_sidecars.apimachinery.watch_events import EventType, Failure
from edge_sidecars.kubeapi import ApiError, Unreachable
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger, sparing
from edge_sidecars.runtime.tasks import Spawn
from relay_sidecar.core.stream.commands import (
    CloseRequest,
    ListEvidence,
    ListRequest,
    Trouble,
    Wait,
    WatchRequest,
)
from relay_sidecar.core.stream.reflection import WATCH_TIMEOUT, Reflection
from relay_sidecar.journal.journal import Journal
from relay_sidecar.streams.stream import Stream
from relay_sidecar.upstream.reflector.confirmer import Confirmer
from relay_sidecar.upstream.reflector.source import (
    LONGEST_START,
    SETTLED,
    Arrivals,
    Feed,
    is_ready,
    serves_groups,
)
from relay_sidecar.upstream.reflector.stream_steps import FULL, ListPhase, StreamOwner, StreamSteps
from relay_sidecar.upstream.reflector.turns import Turn, Turns

# What a list is refused with that upstream will not serve at a second attempt either.
UNSERVABLE: Final = frozenset({400, 405, 406, 422, 501})
# Seconds between two steps of a stream: each costs a transaction and a wake-up of two threads, a
# millisecond of processor time whether it brings one event or five. An event waits half of it.
COALESCED: Final = 0.0065
# Seconds from a step on, after which an event has come alone: to wait for company behind it would
# cost a wake-up for nothing.
LONE: Final = 1.5 * COALESCED
# At a time. A watch has a connection of its own, whose handshake costs 3 ms of a processor; the
# questions share as many connections as there are at a time.
BEGINNINGS: Final = 16
QUESTIONS: Final = 8


class AllTurns:
    """Of all streams: lists and watches that begin, and the questions beside watches."""

    def __init__(self) -> None:
        self.beginnings, self.questions = Turns(BEGINNINGS), Turns(QUESTIONS)


class ReflectorFactory:
    """Begins to move streams, as `streams.Move`. `feed`: from where a stream comes; `spawn` runs a
    coroutine whose failure ends the process; `watch_timeout` in seconds."""

    def __init__(
        self,
        feed: Callable[[Stream], Feed],
        journal: Journal,
        *,
        spawn: Spawn,
        watch_timeout: int = WATCH_TIMEOUT,
    ) -> None:
        self._feed = feed
        self._journal = journal
        self._spawn = spawn
        self._watch_timeout = watch_timeout
        self._turns = AllTurns()

    def __call__(self, stream: Stream, owner: StreamOwner, *, is_up: bool) -> "Reflector":
        logger.debug("stream opened", extra=fields(stream=stream.scope))
        return Reflector(
            stream,
            self._feed(stream),
            self._journal,
            owner,
            self._turns,
            is_up=is_up,
            watch_timeout=self._watch_timeout,
            spawn=self._spawn,
        )


class Reflector:
    """Of one stream; `run` ends only when it is cancelled or the stream is given up. `is_up`: the
    link, as it was reported last."""

    def __init__(
        self,
        stream: Stream,
        feed: Feed,
        journal: Journal,
        owner: StreamOwner,
        turns: AllTurns,
        *,
        is_up: bool,
        watch_timeout: int,
        spawn: Spawn,
    ) -> None:
        knows = stream.collection.is_synced and not stream.is_doubtful
        version = stream.collection.cursor if knows else None
        self.reflection = Reflection(
            feed.link,
            version=version,
            may_ask=feed.may_ask(is_up=is_up),
            watch_timeout=watch_timeout,
        )
        stream.is_failing = stream.is_unproved = False
        self._stream = stream
        self.feed = feed
        self._owner = owner
        # As it was reported last.
        self._is_link_up = is_up
        self._kick = asyncio.Event()
        self._steps = StreamSteps(
            stream, self.reflection, journal, owner, feed=feed, wake=self._kick.set
        )
        # And nothing from before is missing.
        self.is_live = self._steps.is_live
        self._confirmer = Confirmer(self._steps, feed, turns.questions)
        self._list = ListPhase(self._steps, feed)
        self._turns = turns.beginnings
        # Since when upstream refuses it.
        self._refused_at = math.inf
        self._task = spawn(self.run())

    @property
    def source(self) -> str:
        return self.feed.source

    def is_open(self) -> bool:
        """Upstream's watch brings what happens."""
        return self.reflection.is_open(boottime())

    def confirmed_at(self) -> float:
        return self.feed.answered_at if self._steps.was_live() else 0.0

    def link(self, is_up: bool) -> None:
        self._is_link_up = is_up
        self._may_ask(self.feed.may_ask(is_up=is_up))

    def _may_ask(self, may_ask: bool) -> None:
        self._steps.note_confirmed()
        self._confirmer.lost_sight()
        self.reflection.link(may_ask, boottime())
        # What failed may have failed by the link.
        self._stream.is_failing = self._stream.is_unproved = False
        self._refused_at = math.inf
        self._kick.set()

    def relist(self, *, is_paced: bool) -> None:
        self._steps.note_confirmed()
        self.reflection.relist(boottime(), is_paced=is_paced)
        self._kick.set()

    def refresh(self) -> None:
        """There may be another source, or none any more."""
        may_ask = self.feed.may_ask(is_up=self._is_link_up)
        if may_ask is not self.reflection.may_ask:
            self._may_ask(may_ask)
        if self.feed.is_wrong:
            self._open_again()

    def reopen(self) -> None:
        """There is another way to upstream."""
        if self.feed.is_cloud:
            self._open_again()

    def _open_again(self) -> None:
        self._steps.note_confirmed()
        self.reflection.reopen()
        self._kick.set()

    def doubt(self) -> None:
        """The process stood still: what happened meanwhile is still to be read, if it comes."""
        self._steps.note_confirmed()
        self._confirmer.lost_sight()
        now = boottime()
        self.reflection.doubt(now)
        if self.reflection.is_watching(now):
            self._confirmer.watch_opened()
        self._kick.set()

    def confirm(self) -> None:
        """A reader waits for what upstream holds now."""
        self._confirmer.wanted()
        self._kick.set()

    def compare(self, listed: ListEvidence) -> None:
        """What upstream held, beside the watch."""
        self._confirmer.compare(listed)

    def stop(self) -> None:
        self._steps.note_confirmed()
        self._task.cancel()
        logger.debug("stream closed", extra=fields(stream=self._stream.scope))

    async def run(self) -> None:
        request: asyncio.Task[None] | None = None
        try:
            while True:
                self._kick.clear()
                self._confirmer.ask_if_due()
                match self.reflection.next(boottime(), random.random()):
                    case ListRequest() | WatchRequest() as command:
                        # The one before has reported all; it may still be taking its last step.
                        if request is not None:
                            await asyncio.wait([request])
                            request.result()
                        request = asyncio.create_task(self._perform(command))
                    case Wait(until):
                        await self._sleep(min(until, self._confirmer.due_at))
                    case CloseRequest(reason):
                        logger.debug(
                            "request ended", extra=fields(stream=self._stream.scope, why=reason)
                        )
                        await self._ended(request)
                        self._stream.nudge()
                if request is not None and request.done():
                    # One that was closed ends cancelled; the stream goes on.
                    if not request.cancelled():
                        request.result()
                    request = None
        finally:
            await self._confirmer.stop()
            await self._ended(request)
            self._steps.stop_persisting()
            self._list.abort()

    async def _sleep(self, until: float) -> None:
        try:
            async with asyncio.timeout(max(until - boottime(), 0.0)):
                await self._kick.wait()
        except TimeoutError:
            return

    async def _ended(self, request: asyncio.Task[None] | None) -> None:
        """What it took in is taken in whole."""
        if request is not None:
            request.cancel()
            await asyncio.wait([request])
        await self._steps.ended()

    async def _perform(
        self, command: ListRequest | WatchRequest, *, is_again: bool = False
    ) -> None:
        """`is_again`: it was refused, and upstream has become ready since."""
        is_list, retry_after = isinstance(command, ListRequest), 0.0
        is_answer = False
        try:
            if isinstance(command, ListRequest):
                async with self._turns.turn(self._stream):
                    await self._list.run(command)
                self._refused_at = math.inf
                if self.reflection.version is not None:
                    self._confirmer.compared()
                return
            async with self._turns.turn(self._stream) as turn:
                self.reflection.sent(boottime())
                failure = await self._watch(command, turn)
            if failure is not None:
                trouble = _trouble(failure.code)
                if self.feed.disappointed(is_expired=trouble is Trouble.EXPIRED):
                    self._failed(Trouble.UNREACHABLE, None, failure.message, retry_after=0.0)
                else:
                    self._failed(trouble, failure, failure.message, retry_after=0.0)
            return
        except ApiError as error:
            failure = Failure(error.status, error.reason, error.message)
            if is_list and error.status in UNSERVABLE and self.feed.is_cloud:
                self._owner.refused(self._stream, failure)
                return
            trouble, what, is_answer = _trouble(error.status), str(error), True
            retry_after = error.retry_after or 0.0
            if error.status == HTTPStatus.FORBIDDEN:
                self._refused_at = min(self._refused_at, boottime())
                if not is_again and self._may_be_premature:
                    self._is_failing()
                    if await is_ready(self.feed):
                        await asyncio.sleep(SETTLED)
                        await self._perform(command, is_again=True)
                        return
                    trouble, failure = Trouble.BROKEN, None
            elif trouble is Trouble.GONE_RESOURCE and not error.reason and self._is_kept:
                self._is_failing()
                if not await serves_groups(self.feed):
                    trouble, failure = Trouble.BROKEN, None
        except Unreachable as error:
            trouble, failure, what = Trouble.UNREACHABLE, None, str(error)
        except Malformed as error:
            trouble, failure, what = Trouble.BROKEN, None, f"upstream sent {error}"
        await self._steps.settled()
        if self.feed.disappointed(is_expired=trouble is Trouble.EXPIRED):
            # It was no word of the API server's, of whatever status.
            trouble, failure, retry_after, is_list = Trouble.UNREACHABLE, None, 0.0, False
            is_answer = False
        # Which page of a list has expired is no trouble of upstream's; a watch that breaks off is
        # opened again in a moment.
        if trouble is Trouble.EXPIRED:
            self._stream.is_failing = False
        elif is_list or is_answer:
            self._is_failing()
        self._failed(trouble, failure, what, retry_after=retry_after)

    def _is_failing(self) -> None:
        """Upstream is there, and fails this: what is kept is as new as it gets."""
        self._stream.is_failing = True
        self._stream.nudge()

    @property
    def _may_be_premature(self) -> bool:
        """Of a refusal of what is kept: the API server may not have read its rules yet."""
        return self._is_kept and boottime() - self._refused_at < LONGEST_START

    @property
    def _is_kept(self) -> bool:
        """The API server's refusal would take something away."""
        return self.feed.is_cloud and self._stream.collection.is_synced

    async def _watch(self, command: WatchRequest, turn: Turn) -> Failure | None:
        """Event by event, as many in one step as have come together. Returns the ERROR event that
        ended it, if one did; otherwise what it met is reported.
        Raises `ApiError`, `Unreachable`, `Malformed`."""
        steps, stream = self._steps, self._stream
        params = stream.scope.params | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": str(command.version),
            "timeoutSeconds": str(command.timeout_seconds),
        }
        await self.feed.choose()
        batches = self.feed.batches(stream.scope.path, params)
        began_at, lone_at = boottime(), -math.inf
        arrivals = Arrivals(time.monotonic())
        async with aclosing(batches):
            async for lines in batches:
                came_at = arrivals.came(time.monotonic())
                if not lines:
                    if self.reflection.is_opened:
                        self.reflection.progressed(boottime())
                    else:
                        turn.end()
                        await self._opened()
                    arrivals.asks(time.monotonic())
                    continue
                events, missed = _read(lines)
                if missed and not self.feed.is_cloud:
                    raise missed[0]
                if missed:
                    self._step_over(missed)
                trouble = next((e for e in events if e.type is EventType.ERROR), None)
                if trouble is not None:
                    events = events[: events.index(trouble)]
                if not self.feed.is_cloud:
                    _check_order(events, after=stream.collection.cursor)
                come = stream.growth(events)
                if come > 0 and not self._owner.has_room(come):
                    if not self.feed.is_cloud:
                        raise Unreachable(FULL.message)
                    self._owner.refused(stream, FULL)
                    return None
                if events:
                    is_lone = time.monotonic() >= lone_at
                    await steps.take(events, came_at=came_at)
                    lone_at = time.monotonic() + LONE
                    if not is_lone:
                        # What comes meanwhile is taken together.
                        await asyncio.sleep(COALESCED)
                if trouble is not None:
                    return trouble.status
                arrivals.asks(time.monotonic())
        steps.note_confirmed()
        if boottime() - began_at < command.timeout_seconds - 1:
            # Of a hub: the API server may end a watch at any time.
            self.feed.disappointed()
        self.reflection.ended(boottime(), random.random())
        self._confirmer.watch_ended()
        self._kick.set()
        return None

    def _step_over(self, missed: Sequence[Malformed]) -> None:
        """What they would have brought, a comparison of all names and versions shows."""
        self._steps.step_over(missed)
        self._confirmer.lost_sight()
        self._confirmer.wanted()
        self._kick.set()

    async def _opened(self) -> None:
        await self._steps.settled()
        self.reflection.opened(boottime())
        self._confirmer.watch_opened()
        self._refused_at = math.inf
        self._stream.accepted()
        self._kick.set()

    def _failed(
        self, trouble: Trouble, failure: Failure | None, what: str, *, retry_after: float
    ) -> None:
        stream = self._stream
        refusal = failure if trouble in (Trouble.DENIED, Trouble.GONE_RESOURCE) else None
        # Who is out of reach is so for all streams.
        about = () if trouble is Trouble.UNREACHABLE else (stream.scope,)
        if trouble is Trouble.EXPIRED:
            level = logger.info
        elif refusal is not None or not sparing.allows(*about, what):
            # The owner tells a refusal.
            level = logger.debug
        else:
            level = logger.warning
        level("stream interrupted", extra=fields(stream=stream.scope, why=what))
        self._steps.note_confirmed()
        self.reflection.failed(trouble, boottime(), random.random(), retry_after=retry_after)
        self._confirmer.lost_sight()
        self._confirmer.watch_ended()
        if refusal is not None:
            self._owner.refused(stream, refusal)
        self._kick.set()
        stream.nudge()


def _read(lines: Sequence[bytes]) -> tuple[list[Event], list[Malformed]]:
    """The events, and why others are none."""
    events, missed = [], []
    for line in lines:
        try:
            events.append(read_event(line))
        except Malformed as error:
            missed.append(error)
    return events, missed


def _check_order(events: Sequence[Event], *, after: int) -> None:
    """Raises `Malformed` where a hub goes backwards: an API server that did would be believed."""
    for event in events:
        if event.version < after:
            raise Malformed(f"version {event.version} after {after}")
        after = event.version


def _trouble(status: int) -> Trouble:
    match status:
        # A version that is refused in any way is of no use any more.
        case 410 | 400 | 422:
            return Trouble.EXPIRED
        case 401 | 403:
            return Trouble.DENIED
        case 404 | 405:
            return Trouble.GONE_RESOURCE
        case 429:
            return Trouble.THROTTLED
        case _:
            return Trouble.BROKEN
