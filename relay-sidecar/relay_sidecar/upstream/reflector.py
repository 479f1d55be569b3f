"""Moves streams: performs upstream what `Reflection` says, and keeps each step before it is told.

Guarantees: what was delivered is in the journal, so that a restart does not take it back; a stream
has one request under way at most; when the link goes its requests end at once, and when it is back
each goes on from its cursor. Knows no rule of reflection: those are in `core`.
"""

import asyncio
import math
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack, aclosing
from typing import Final

from edge_sidecars.apimachinery.objects import Event, Item, Malformed, Page, read_event, read_page
from edge_sidecars.apimachinery.status import expired
from edge_sidecars.apimachinery.store import fingerprint_of
from edge_sidecars.apimachinery.watch_events import EventType, Failure
from edge_sidecars.kubeapi import ApiError, Unreachable
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger, sparing
from relay_sidecar.core.catch_up import ListEvidence
from relay_sidecar.core.confirmation import Confirming
from relay_sidecar.core.list_decoder import ArrivingList
from relay_sidecar.core.reflection import LinkVerdict, Reflection
from relay_sidecar.core.stream_commands import (
    CloseRequest,
    ListRequest,
    Trouble,
    Wait,
    WatchRequest,
)
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.stream_journal import StreamJournal
from relay_sidecar.upstream.reflector_ports import Owner, Source

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
# Whole objects serve as well: an aggregated API server may know nothing else.
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json;q=0.5"
# HTTP 406 and 415: upstream does not serve objects in the form that was asked for.
NOT_IN_THIS_FORM: Final = frozenset({406, 415})
# HTTP 406; never sent, it marks what upstream serves and the relay cannot keep.
NOT_READABLE = 406


class Reflector:
    """Of one stream; `run` ends only when it is cancelled or the stream is given up."""

    def __init__(
        self,
        stream: Stream,
        source: Source,
        journal: StreamJournal,
        owner: Owner,
        *,
        link: LinkVerdict,
        may_ask: bool,
        request_timeout: float,
    ) -> None:
        knows = stream.collection.is_synced and not stream.is_doubtful
        version = stream.collection.cursor if knows else None
        self.reflection = Reflection(link, version=version, may_ask=may_ask)
        self._stream = stream
        self._source = source
        self._journal = journal
        self._owner = owner
        self._timeout = request_timeout
        self._kick = asyncio.Event()
        self._taking: asyncio.Task[None] | None = None
        # Objects on the pages of the list that is under way; how often the stream had been listed
        # when it began.
        self._listed = self._lists = 0
        self._keeps_early = False
        # When that list was asked for: by the clock that nobody sets, and as wall time.
        self._asked = (math.inf, math.inf)
        self._confirming = Confirming()
        self._question: asyncio.Task[None] | None = None
        # Upstream has no metadata of these objects by itself.
        self._serves_metadata = True
        # The last equality that is in the journal.
        self._kept_equal = 0

    def is_open(self) -> bool:
        """Upstream's watch brings what happens."""
        return self.reflection.is_open(boottime())

    def is_live(self) -> bool:
        """And nothing from before is missing."""
        return self.reflection.is_live(boottime(), equal_at=self._stream.equal_at)

    def was_live(self) -> bool:
        """The same as of upstream's latest answer."""
        return self.reflection.was_live(boottime(), equal_at=self._stream.equal_at)

    def link(self, is_up: bool) -> None:
        self._note_confirmed()
        self.reflection.link(is_up, boottime())
        # What failed may have failed by the link.
        self._stream.is_failing = False
        self._kick.set()

    def relist(self, *, is_paced: bool) -> None:
        self._note_confirmed()
        self.reflection.relist(boottime(), is_paced=is_paced)
        self._kick.set()

    def doubt(self) -> None:
        """The process stood still: what happened meanwhile is still to be read, if it comes."""
        self._note_confirmed()
        now = boottime()
        self.reflection.doubt(now)
        if self.reflection.is_watching(now):
            self._confirming.opened(now, random.random())
        self._kick.set()

    def confirm(self) -> None:
        """Somebody waits for what upstream holds now."""
        self._confirming.wanted(boottime())
        self._kick.set()

    def told(self, told: ListEvidence) -> None:
        """What upstream held, beside the watch."""
        stream = self._stream
        is_back = self.reflection.listed(
            told.version, boottime(), asked_at=told.asked_at, at_least=told.cursor
        )
        if is_back:
            self._go_back(told.version)
            return
        if told.version < told.cursor:
            # Upstream is to say that again before it is believed.
            if self.reflection.is_watching(boottime()):
                self._confirming.opened(boottime(), random.random())
            self._kick.set()
            stream.nudge()
            return
        stream.expect(told)
        self._keep_equal()
        stream.nudge()

    def stopped(self) -> None:
        """It is about to be cancelled."""
        self._note_confirmed()

    async def run(self) -> None:
        request: asyncio.Task[None] | None = None
        self._stream.is_failing = False
        try:
            while True:
                self._kick.clear()
                self._ask_what_is_there()
                match self.reflection.next(boottime(), random.random()):
                    case ListRequest() | WatchRequest() as command:
                        # The one before has reported all; it may still be taking its last step.
                        if request is not None:
                            await asyncio.wait([request])
                            request.result()
                        request = asyncio.create_task(self._perform(command))
                    case Wait(until):
                        await self._sleep(min(until, self._question_at))
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
            if self._question is not None:
                self._question.cancel()
                await asyncio.wait([self._question])
            await self._ended(request)
            if self._keeps_early and not self._stream.collection.is_synced:
                self._journal.list_aborted(self._stream)

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

    async def _perform(self, command: ListRequest | WatchRequest) -> None:
        retry_after = 0.0
        try:
            if isinstance(command, ListRequest):
                await self._list(command)
            else:
                await self._watch(command)
            return
        except ApiError as error:
            if isinstance(command, ListRequest) and error.status in UNSERVABLE:
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
        self._stream.is_failing = (
            isinstance(command, ListRequest) and trouble is not Trouble.EXPIRED
        )
        self._failed(trouble, failure, what, retry_after=retry_after)

    def _failed(
        self, trouble: Trouble, failure: Failure | None, what: str, *, retry_after: float
    ) -> None:
        stream = self._stream
        is_told_by_owner = failure is not None and trouble in (
            Trouble.DENIED,
            Trouble.GONE_RESOURCE,
        )
        if trouble is Trouble.EXPIRED:
            level = logger.info
        elif is_told_by_owner or not sparing.allows(stream.scope, what):
            level = logger.debug
        else:
            level = logger.warning
        level("stream interrupted", extra=fields(stream=stream.scope, why=what))
        self._note_confirmed()
        self.reflection.failed(trouble, boottime(), random.random(), retry_after=retry_after)
        self._confirming.ended()
        if failure is not None and trouble in (Trouble.DENIED, Trouble.GONE_RESOURCE):
            self._owner.refused(stream, failure)
        self._kick.set()
        stream.nudge()

    async def _list(self, command: ListRequest) -> None:
        params = dict(self._stream.scope.params)
        if command.limit:
            params["limit"] = str(command.limit)
        if command.continue_token:
            params["continue"] = command.continue_token
        if not command.continue_token:
            self._listed, self._lists = 0, self._stream.lists
            self._asked = boottime(), time.time()
        arriving = ArrivingList(batch=KEPT_TOGETHER)
        body = await self._source.page(
            self._stream.scope.path,
            params,
            timeout=self._timeout,
            arrived=lambda body: self._keep_early(arriving.more(body)),
            aged=self._list_was_old,
        )
        is_aged = self._asked[0] == -math.inf
        try:
            page = arriving.whole(body)
        except Malformed as error:
            if self._stream.collection.is_synced:
                raise
            # Versions that cannot be compared, most likely: only upstream can serve this.
            self._owner.refused(self._stream, Failure(NOT_READABLE, "", str(error)))
            return
        del body
        if is_aged and page.version < self._stream.version:
            # The relay above is behind; that the API server went back, only an answer of now tells.
            raise Unreachable(f"a list at {page.version}, older than what is kept")
        # A list takes the place of what is there; of the pages to come, upstream tells the objects.
        self._listed += len(page.items)
        more = self._listed + (page.remaining or 0) - len(self._stream.collection.objects)
        if not self._owner.has_room(more):
            self._owner.refused(self._stream, FULL)
            return
        whole = self.reflection.page(page, boottime())
        if whole is not None:
            await self._begin(self._replace(whole))
        # Its watch is opened while the list is being kept.
        self._kick.set()

    def _list_was_old(self, age: float) -> None:
        """Another relay stands above, and told what it had. It proves nothing about now, whatever
        age it tells: the age counts from what the wall clock there said."""
        self._asked = -math.inf, self._asked[1] - age

    def _keep_early(self, items: Sequence[Item]) -> None:
        """What is left to do at the end of a first list is what clients wait for."""
        is_first = not self._stream.collection.is_synced
        if items and is_first and self._owner.has_room(self._listed + len(items)):
            self._journal.list_chunk(self._stream, items)
            self._keeps_early = True

    async def _watch(self, command: WatchRequest) -> None:
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
                    reflection.opened(boottime())
                    self._confirming.opened(boottime(), random.random())
                    stream.accepted()
                    self._kick.set()
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
        self._note_confirmed()
        reflection.ended(boottime(), random.random())
        self._confirming.ended()
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
        known_at, confirmed_at = self._asked
        while not self._is_overtaken(whole):
            if whole.version < stream.collection.cursor:
                self._go_back(whole.version)
            lists, turns = stream.lists, stream.turns
            await self._journal.list_replaced(stream, whole, at=confirmed_at)
            if stream.turns != turns:
                return  # what was forgotten meanwhile is listed again
            if stream.lists == lists:
                stream.known(known_at=known_at, confirmed_at=confirmed_at)
                stream.replace(whole, gone=expired())
                return

    def _is_overtaken(self, whole: Page) -> bool:
        """Whether a list that a client was given has begun the stream meanwhile, at this version
        or a newer one: then the watch, from here on, brings nothing twice."""
        stream = self._stream
        return stream.lists != self._lists and stream.collection.cursor >= whole.version

    async def _apply(self, events: Sequence[Event]) -> None:
        stream = self._stream
        if not stream.collection.is_synced:
            return
        if self.is_live():
            stream.known(known_at=boottime(), confirmed_at=time.time())
        turns = stream.turns
        await self._journal.events_applied(stream, events)
        if stream.turns != turns:
            return  # these are of the history that was forgotten meanwhile
        was_live = self.is_live()
        stream.apply(events)
        if self.reflection.received(events[-1].version, boottime()):
            self._go_back(events[-1].version)
        self._keep_equal()
        if not was_live and self.is_live():
            stream.nudge()

    def _go_back(self, version: int) -> None:
        self._stream.forget(gone=expired())
        self._owner.went_back(self._stream, version)
        self._kick.set()

    # ── what upstream holds, beside the watch ──

    @property
    def _question_at(self) -> float:
        return self._confirming.at if self.reflection.may_ask else math.inf

    def _ask_what_is_there(self) -> None:
        now = boottime()
        if self._question is not None and self._question.done():
            self._question.result()
            self._question = None
        if now >= self._question_at:
            limit = self._confirming.asking(
                now,
                objects=len(self._stream.collection.objects),
                selects=bool(self._stream.scope.params),
            )
            self._question = asyncio.create_task(self._ask(limit))

    async def _ask(self, limit: int) -> None:
        stream, ages = self._stream, list[float]()
        asked_at, asked_at_wall, version = boottime(), time.time(), stream.version
        page, why, retry_after = None, "upstream itself is behind", 0.0
        try:
            page = await self._what_is_there(limit, ages.append)
        except (ApiError, Unreachable, Malformed) as error:
            why = str(error)
            retry_after = (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0
        if page is None or ages:
            logger.debug("not confirmed", extra=fields(stream=stream.scope, why=why))
            is_needed = self.reflection.is_watching(boottime()) and not self.was_live()
            self._confirming.failed(
                boottime(), random.random(), is_needed=is_needed, retry_after=retry_after
            )
        else:
            self._confirming.answered(boottime())
            fingerprint = None if page.continue_token else fingerprint_of(page.items)
            self.told(ListEvidence(page.version, fingerprint, asked_at, asked_at_wall, version))
        self._kick.set()

    async def _what_is_there(self, limit: int, aged: Callable[[float], None]) -> Page:
        """Where metadata alone is refused, or something else comes, one whole object, whose list
        has a version all the same. Raises as `Source.page`, and `Malformed`."""
        if self._serves_metadata:
            try:
                return await self._question_page(limit, METADATA, aged)
            except ApiError as error:
                if error.status not in NOT_IN_THIS_FORM:
                    raise
            except Malformed:
                logger.debug("no list of metadata", extra=fields(stream=self._stream.scope))
            self._serves_metadata = False
        return await self._question_page(1, "application/json", aged)

    async def _question_page(self, limit: int, accept: str, aged: Callable[[float], None]) -> Page:
        scope = self._stream.scope
        params = scope.params | ({"limit": str(limit)} if limit else {})
        body = await self._source.page(
            scope.path, params, timeout=self._timeout, accept=accept, aged=aged
        )
        return read_page(body)

    def _keep_equal(self) -> None:
        equal_at = self._stream.equal_at
        if equal_at > max(self._stream.collection.cursor, self._kept_equal):
            self._kept_equal = equal_at
            self._journal.equal(self._stream)

    def _note_confirmed(self) -> None:
        """It was live at upstream's latest answer, and may be no more from now on."""
        if self.was_live():
            self._stream.known(known_at=-math.inf, confirmed_at=self._owner.answered_at)


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
