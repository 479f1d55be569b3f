"""Moves streams: performs upstream what `Reflection` says, and keeps each step before it is told.

Guarantees: what was delivered is in the journal, so that a restart does not take it back; a stream
has one request under way at most; when the link goes its requests end at once, and when it is back
each goes on from its cursor. Knows no rule of reflection: those are in `core`.
"""

import asyncio
import math
import random
import time
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack, aclosing
from typing import Final

from kubeapi import ApiError, Unreachable
from relay_sidecar.core.arriving import ArrivingList
from relay_sidecar.core.objects import (
    Event,
    EventType,
    Failure,
    Item,
    Malformed,
    Page,
    read_event,
)
from relay_sidecar.core.reflection import Close, List, Reflection, Trouble, Wait, Watch
from relay_sidecar.core.status import expired
from relay_sidecar.log import fields, logger
from relay_sidecar.reflector_sides import Keeper, Owner, Source
from relay_sidecar.stream import Stream

# What a list is refused with that upstream will not serve at a second attempt either.
UNSERVABLE: Final = frozenset({400, 405, 406, 422, 501})
# Seconds between two steps of a stream: each costs a transaction and a wake-up of two threads.
COALESCED = 0.005
# Seconds from a step on, after which an event has come alone: to wait for company behind it would
# cost a wake-up for nothing.
LONE = 1.5 * COALESCED
# Bytes of objects of a list that is still arriving, which are kept together.
KEPT_TOGETHER = 1024 * 1024
FULL: Final = Failure(429, "TooManyRequests", "--max-objects of the relay is reached")
# HTTP 406; never sent, it marks what upstream serves and the relay cannot keep.
NOT_READABLE = 406


class Reflector:
    """Of one stream; `run` ends only when it is cancelled or the stream is given up."""

    def __init__(
        self,
        stream: Stream,
        source: Source,
        keeper: Keeper,
        owner: Owner,
        *,
        is_up: bool,
        request_timeout: float,
    ) -> None:
        knows = stream.collection.is_synced and not stream.is_doubtful
        version = stream.collection.cursor if knows else None
        self.reflection = Reflection(version=version, is_up=is_up)
        self._stream = stream
        self._source = source
        self._keeper = keeper
        self._owner = owner
        self._timeout = request_timeout
        self._kick = asyncio.Event()
        self._taking: asyncio.Task[None] | None = None
        # Objects on the pages of the list that is under way; how often the stream had been listed
        # when it began.
        self._listed = self._lists = 0
        self._keeps_early = False

    def link(self, is_up: bool) -> None:
        self.reflection.link(is_up, time.monotonic())
        # What failed may have failed by the link.
        self._stream.is_failing = False
        self._kick.set()

    def relist(self) -> None:
        self.reflection.relist(time.monotonic())
        self._kick.set()

    async def run(self) -> None:
        request: asyncio.Task[None] | None = None
        self._stream.is_failing = False
        try:
            while True:
                self._kick.clear()
                match self.reflection.next(time.monotonic(), random.random()):
                    case List() | Watch() as command:
                        # The one before has reported all; it may still be taking its last step.
                        if request is not None:
                            await asyncio.wait([request])
                            request.result()
                        request = asyncio.create_task(self._perform(command))
                    case Wait(until):
                        await self._sleep(until)
                    case Close(reason):
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
            await self._ended(request)
            if self._keeps_early and not self._stream.collection.is_synced:
                self._keeper.abandoned(self._stream)

    async def _sleep(self, until: float) -> None:
        try:
            async with asyncio.timeout(max(until - time.monotonic(), 0.0)):
                await self._kick.wait()
        except TimeoutError:
            return

    async def _ended(self, request: asyncio.Task[None] | None) -> None:
        """What it took in is taken in whole."""
        if request is not None:
            request.cancel()
            await asyncio.wait([request])
        if self._taking is not None:
            await asyncio.wait([self._taking])
            self._taking = None

    async def _settled(self) -> None:
        """The step before is taken; whatever went wrong with it is raised."""
        if self._taking is not None and not self._taking.done():
            await asyncio.shield(self._taking)
        elif self._taking is not None:
            self._taking.result()

    # ── requests ──

    async def _perform(self, command: List | Watch) -> None:
        retry_after = 0.0
        try:
            if isinstance(command, List):
                await self._list(command)
            else:
                await self._watch(command)
            return
        except ApiError as error:
            if isinstance(command, List) and error.status in UNSERVABLE:
                failure = Failure(error.status, error.reason, error.message)
                self._owner.refused(self._stream, failure)
                return
            trouble, retry_after = _trouble(error.status), error.retry_after or 0.0
            failure = Failure(error.status, error.reason, error.message)
            what = str(error)
        except Unreachable as error:
            trouble, failure, what = Trouble.UNREACHABLE, None, str(error)
        except Malformed as error:
            trouble, failure, what = Trouble.BROKEN, None, f"upstream sent {error}"
        await self._settled()
        # Which page of a list has expired is no trouble of upstream's.
        self._stream.is_failing = isinstance(command, List) and trouble is not Trouble.EXPIRED
        self._failed(trouble, failure, what, retry_after=retry_after)

    def _failed(
        self, trouble: Trouble, failure: Failure | None, what: str, *, retry_after: float
    ) -> None:
        stream = self._stream
        level = logger.info if trouble is Trouble.EXPIRED else logger.warning
        level("stream interrupted", extra=fields(stream=stream.scope, why=what))
        self.reflection.failed(trouble, time.monotonic(), random.random(), retry_after=retry_after)
        if failure is not None and trouble in (Trouble.DENIED, Trouble.GONE_RESOURCE):
            self._owner.refused(stream, failure)
        self._kick.set()
        stream.nudge()

    async def _list(self, command: List) -> None:
        params = dict(self._stream.scope.params)
        if command.limit:
            params["limit"] = str(command.limit)
        if command.continue_token:
            params["continue"] = command.continue_token
        if not command.continue_token:
            self._listed, self._lists = 0, self._stream.lists
        arriving = ArrivingList(batch=KEPT_TOGETHER)
        body = await self._source.page(
            self._stream.scope.path,
            params,
            timeout=self._timeout,
            arrived=lambda body: self._keep_early(arriving.more(body)),
        )
        try:
            page = arriving.whole(body)
        except Malformed as error:
            if self._stream.collection.is_synced:
                raise
            # Versions that cannot be compared, most likely: only upstream can serve this.
            self._owner.refused(self._stream, Failure(NOT_READABLE, "", str(error)))
            return
        del body
        # A list takes the place of what is there; of the pages to come, upstream tells the objects.
        self._listed += len(page.items)
        more = self._listed + (page.remaining or 0) - len(self._stream.collection.objects)
        if not self._owner.has_room(more):
            self._owner.refused(self._stream, FULL)
            return
        whole = self.reflection.page(page, time.monotonic())
        if whole is not None:
            await self._begin(self._replace(whole))
        # Its watch is opened while the list is being kept.
        self._kick.set()

    def _keep_early(self, items: Sequence[Item]) -> None:
        """What is left to do at the end of a first list is what clients wait for."""
        is_first = not self._stream.collection.is_synced
        if items and is_first and self._owner.has_room(self._listed + len(items)):
            self._keeper.listing(self._stream, items)
            self._keeps_early = True

    async def _watch(self, command: Watch) -> None:
        stream, reflection = self._stream, self.reflection
        params = stream.scope.params | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": str(command.version),
            "timeoutSeconds": str(command.timeout_seconds),
        }
        batches = self._source.batches(stream.scope.path, params, open_timeout=self._timeout)
        lone_at = -math.inf
        async with aclosing(batches):
            async for lines in batches:
                if not lines:
                    await self._settled()
                    reflection.opened(time.monotonic())
                    stream.accepted(at=time.time())
                    continue
                events = [read_event(line) for line in lines]
                trouble = next((e for e in events if e.type is EventType.ERROR), None)
                if trouble is not None:
                    events = events[: events.index(trouble)]
                come = stream.growth(events)
                if come > 0 and not self._owner.has_room(come):
                    self._owner.refused(stream, FULL)
                    return
                if events:
                    is_lone = time.monotonic() >= lone_at
                    await self._begin(self._apply(events))
                    await self._settled()
                    lone_at = time.monotonic() + LONE
                    if not is_lone:
                        # What comes meanwhile is taken together.
                        await asyncio.sleep(COALESCED)
                if trouble is not None and trouble.status is not None:
                    status = trouble.status
                    self._failed(_trouble(status.code), status, status.message, retry_after=0.0)
                    return
        reflection.ended(time.monotonic(), random.random())
        self._kick.set()

    async def _begin(self, step: Coroutine[None, None, None]) -> None:
        """After the step before. A request that is cancelled meanwhile does not tear it in two."""
        with ExitStack() as stack:
            stack.callback(step.close)
            await self._settled()
            stack.pop_all()
        self._taking = asyncio.create_task(step)

    async def _replace(self, whole: Page) -> None:
        stream = self._stream
        while not self._is_overtaken(whole):
            lists = stream.lists
            await self._keeper.replaced(stream, whole)
            if stream.lists == lists:
                stream.confirmed_at = time.time()
                stream.replace(whole, gone=expired())
                return

    def _is_overtaken(self, whole: Page) -> bool:
        """Whether a list that a client was given has begun the stream meanwhile, at this version
        or a newer one: then the watch, from here on, brings nothing twice."""
        stream = self._stream
        return stream.lists != self._lists and stream.collection.cursor >= whole.version

    async def _apply(self, events: Sequence[Event]) -> None:
        await self._keeper.moved(self._stream, events)
        self._stream.confirmed_at = time.time()
        self._stream.apply(events)
        self.reflection.received(events[-1].version, time.monotonic())


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
