"""Moves a stream: performs upstream what `Reflection` says, and persists each step before delivery.

Guarantees: what was delivered is in the journal, so that a restart does not take it back; a stream
has one request under way at most; when the link goes its requests end at once, and when it is back
each goes on from its cursor. Knows no rule of reflection: those are in `core`.
"""

import asyncio
import random
from typing import Final

from edge_sidecars.apimachinery.objects import Malformed
from edge_sidecars.apimachinery.watch_events import Failure
from edge_sidecars.kubeapi import ApiError, Unreachable
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger, sparing
from relay_sidecar.core.stream.catch_up import ListEvidence
from relay_sidecar.core.stream.commands import (
    CloseRequest,
    ListRequest,
    Trouble,
    Wait,
    WatchRequest,
)
from relay_sidecar.core.stream.reflection import LinkVerdict, Reflection
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.stream_journal import StreamJournal
from relay_sidecar.upstream.reflector.confirmer import Confirmer
from relay_sidecar.upstream.reflector.list_phase import ListPhase
from relay_sidecar.upstream.reflector.ports import Owner, Source
from relay_sidecar.upstream.reflector.stream_steps import StreamSteps
from relay_sidecar.upstream.reflector.watch_phase import WatchPhase

# What a list is refused with that upstream will not serve at a second attempt either.
UNSERVABLE: Final = frozenset({400, 405, 406, 422, 501})


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
        self._owner = owner
        self._kick = asyncio.Event()
        self._steps = StreamSteps(stream, self.reflection, journal, owner, wake=self._kick.set)
        self._confirmer = Confirmer(self._steps, source, request_timeout=request_timeout)
        self._list = ListPhase(self._steps, source, request_timeout=request_timeout)
        self._watch = WatchPhase(
            self._steps, source, self._confirmer, request_timeout=request_timeout
        )

    def is_open(self) -> bool:
        """Upstream's watch brings what happens."""
        return self.reflection.is_open(boottime())

    def is_live(self) -> bool:
        """And nothing from before is missing."""
        return self._steps.is_live()

    def was_live(self) -> bool:
        """The same as of upstream's latest answer."""
        return self._steps.was_live()

    def link(self, is_up: bool) -> None:
        self._steps.note_confirmed()
        self.reflection.link(is_up, boottime())
        # What failed may have failed by the link.
        self._stream.is_failing = False
        self._kick.set()

    def relist(self, *, is_paced: bool) -> None:
        self._steps.note_confirmed()
        self.reflection.relist(boottime(), is_paced=is_paced)
        self._kick.set()

    def doubt(self) -> None:
        """The process stood still: what happened meanwhile is still to be read, if it comes."""
        self._steps.note_confirmed()
        now = boottime()
        self.reflection.doubt(now)
        if self.reflection.is_watching(now):
            self._confirmer.watch_opened()
        self._kick.set()

    def confirm(self) -> None:
        """Somebody waits for what upstream holds now."""
        self._confirmer.wanted()
        self._kick.set()

    def told(self, told: ListEvidence) -> None:
        """What upstream held, beside the watch."""
        self._confirmer.told(told)

    def stopped(self) -> None:
        """It is about to be cancelled."""
        self._steps.note_confirmed()

    async def run(self) -> None:
        request: asyncio.Task[None] | None = None
        self._stream.is_failing = False
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

    async def _perform(self, command: ListRequest | WatchRequest) -> None:
        is_list, retry_after = isinstance(command, ListRequest), 0.0
        try:
            if isinstance(command, ListRequest):
                await self._list.run(command)
                return
            failure = await self._watch.run(command)
            if failure is not None:
                self._failed(_trouble(failure.code), failure, failure.message, retry_after=0.0)
            return
        except ApiError as error:
            failure = Failure(error.status, error.reason, error.message)
            if is_list and error.status in UNSERVABLE:
                self._owner.refused(self._stream, failure)
                return
            trouble, what = _trouble(error.status), str(error)
            retry_after = error.retry_after or 0.0
        except Unreachable as error:
            trouble, failure, what = Trouble.UNREACHABLE, None, str(error)
        except Malformed as error:
            trouble, failure, what = Trouble.BROKEN, None, f"upstream sent {error}"
        await self._steps.settled()
        # Which page of a list has expired is no trouble of upstream's.
        self._stream.is_failing = is_list and trouble is not Trouble.EXPIRED
        self._failed(trouble, failure, what, retry_after=retry_after)

    def _failed(
        self, trouble: Trouble, failure: Failure | None, what: str, *, retry_after: float
    ) -> None:
        stream = self._stream
        refusal = failure if trouble in (Trouble.DENIED, Trouble.GONE_RESOURCE) else None
        if trouble is Trouble.EXPIRED:
            level = logger.info
        elif refusal is not None or not sparing.allows(stream.scope, what):
            # The owner tells a refusal.
            level = logger.debug
        else:
            level = logger.warning
        level("stream interrupted", extra=fields(stream=stream.scope, why=what))
        self._steps.note_confirmed()
        self.reflection.failed(trouble, boottime(), random.random(), retry_after=retry_after)
        self._confirmer.watch_ended()
        if refusal is not None:
            self._owner.refused(stream, refusal)
        self._kick.set()
        stream.nudge()


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
