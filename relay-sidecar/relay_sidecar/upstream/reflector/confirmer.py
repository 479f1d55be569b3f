"""What upstream holds, asked for beside the watch: the proof that the watch has caught up.

When it is asked, and how much, says `core/stream/confirmation.py`.
"""

import asyncio
import math
import random
import time
from collections.abc import Callable
from typing import Final

from edge_sidecars.apimachinery.objects import Malformed, Page, read_page
from edge_sidecars.apimachinery.store import fingerprint_of
from edge_sidecars.kubeapi import ApiError, Unreachable
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from relay_sidecar.core.stream.commands import ListEvidence
from relay_sidecar.core.stream.lists import NOT_IN_THIS_FORM
from relay_sidecar.core.stream.pace import Confirming
from relay_sidecar.upstream.reflector.source import Feed
from relay_sidecar.upstream.reflector.stream_steps import StreamSteps
from relay_sidecar.upstream.reflector.turns import Turns

# Whole objects serve as well: an aggregated API server may know nothing else.
METADATA: Final = (
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json;q=0.5"
)
# Questions in a row that a hub does not answer, or by which nothing is proved.
HUB_FAILURES: Final = 3


class Confirmer:
    """Of one stream; one question at a time."""

    def __init__(self, steps: StreamSteps, feed: Feed, turns: Turns) -> None:
        self._steps = steps
        self._feed = feed
        self._turns = turns
        # Of a hub, in a row.
        self._failures = 0
        self._confirming = Confirming()
        self._question: asyncio.Task[None] | None = None
        # Upstream has no metadata of these objects by itself.
        self._serves_metadata = True

    @property
    def due_at(self) -> float:
        return self._confirming.at if self._steps.reflection.may_ask else math.inf

    def watch_opened(self) -> None:
        """It is to be proved from now on."""
        self._confirming.opened(boottime(), random.random())

    def watch_ended(self) -> None:
        self._confirming.ended()

    def compared(self) -> None:
        """The stream has just been listed as a whole."""
        self._confirming.compared()

    def lost_sight(self) -> None:
        """Upstream may have another history when it is seen again: the next comparison is of all
        names and versions."""
        self._confirming.lost_sight()

    def wanted(self) -> None:
        """A reader waits for what upstream holds now."""
        self._confirming.wanted(boottime())

    def ask_if_due(self) -> None:
        now = boottime()
        if self._question is not None and self._question.done():
            self._question.result()
            self._question = None
        if now >= self.due_at:
            stream = self._steps.stream
            limit = self._confirming.asking(
                now, objects=len(stream.collection.objects), selects=bool(stream.scope.params)
            )
            self._question = asyncio.create_task(self._ask_in_turn(limit))

    async def stop(self) -> None:
        if self._question is not None:
            self._question.cancel()
            await asyncio.wait([self._question])

    def compare(self, listed: ListEvidence) -> None:
        """What upstream held, as this question or a client's list showed it."""
        steps, stream = self._steps, self._steps.stream
        is_back = steps.reflection.listed(
            listed.version, boottime(), asked_at=listed.asked_at, at_least=listed.cursor
        )
        if is_back:
            steps.go_back(listed.version)
            return
        if listed.version < listed.cursor:
            # Upstream is to say that again before it is believed.
            if steps.reflection.is_watching(boottime()):
                self.watch_opened()
            steps.wake()
            stream.nudge()
            return
        stream.expect(listed)
        if steps.has_diverged():
            return
        steps.persist_equal()
        stream.nudge()

    async def _ask_in_turn(self, limit: int) -> None:
        async with self._turns.turn(self._steps.stream):
            self._confirming.sent(boottime())
            await self._ask(limit)

    async def _ask(self, limit: int) -> None:
        steps, stream, ages = self._steps, self._steps.stream, list[float]()
        asked_at, asked_at_wall, version = boottime(), time.time(), stream.version
        page, why, retry_after = None, "upstream itself is behind", 0.0
        try:
            page = await self._listed(limit, ages.append)
            stream.is_unproved = False
        except (ApiError, Unreachable, Malformed) as error:
            why = str(error)
            if isinstance(error, ApiError):
                stream.is_unproved = True
                stream.nudge()
            retry_after = (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0
        version_now = None if page is None or ages else self._version(page, version)
        if page is None or version_now is None:
            self._hub_failed()
            logger.debug("not confirmed", extra=fields(stream=stream.scope, why=why))
            is_needed = steps.reflection.is_watching(boottime()) and not steps.was_live()
            self._confirming.failed(
                boottime(), random.random(), is_needed=is_needed, retry_after=retry_after
            )
        else:
            self._confirming.answered(boottime())
            self._failures = 0
            is_all = not page.continue_token and not page.unreadable
            fingerprint = fingerprint_of(page.items) if is_all else None
            if fingerprint is not None:
                self._confirming.compared()
            self.compare(ListEvidence(version_now, fingerprint, asked_at, asked_at_wall, version))
        steps.wake()

    def _version(self, page: Page, asked: int) -> int | None:
        """At which upstream held this; this stream was at `asked` then. A hub may be behind, or
        have no bookmark yet for what is the same here: it knows of no event that is missing."""
        if self._feed.is_cloud or page.version >= asked:
            return page.version
        is_equal = fingerprint_of(page.items) == self._steps.stream.collection.fingerprint
        return asked if is_equal else None

    def _hub_failed(self) -> None:
        """A hub that proves nothing is of no use."""
        self._failures += not self._feed.is_cloud
        if self._failures >= HUB_FAILURES:
            self._failures = 0
            self._feed.disappointed()
            self._steps.reflection.reopen()

    async def _listed(self, limit: int, aged: Callable[[float], None]) -> Page:
        """Where metadata alone is refused, or something else comes, one whole object, whose list
        has a version all the same. Raises as `Feed.page`, and `Malformed`."""
        if self._serves_metadata:
            try:
                return await self._page(limit, METADATA, aged)
            except ApiError as error:
                if error.status not in NOT_IN_THIS_FORM:
                    raise
            except Malformed:
                scope = self._steps.stream.scope
                logger.debug("no list of metadata", extra=fields(stream=scope))
            self._serves_metadata = False
        return await self._page(1, "application/json", aged)

    async def _page(self, limit: int, accept: str, aged: Callable[[float], None]) -> Page:
        scope = self._steps.stream.scope
        params = scope.params | ({"limit": str(limit)} if limit else {})
        body = await self._feed.page(scope.path, params, accept=accept, aged=aged)
        return read_page(body)
