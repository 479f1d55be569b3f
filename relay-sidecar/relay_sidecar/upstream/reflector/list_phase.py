"""A list, while it arrives: its pages, its room, and its first objects in the journal early."""

import math
import time
from collections.abc import Sequence
from typing import Final

from edge_sidecars.apimachinery.objects import Item, Malformed, Page
from edge_sidecars.apimachinery.watch_events import Failure
from edge_sidecars.kubeapi import Unreachable
from edge_sidecars.runtime.clock import boottime
from relay_sidecar.core.stream.commands import ListRequest
from relay_sidecar.core.stream.list_decoder import ArrivingList
from relay_sidecar.journal.records import ListAborted, ListChunk
from relay_sidecar.upstream.reflector.feed import Feed
from relay_sidecar.upstream.reflector.stream_steps import FULL, StreamSteps

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
        # When that list was asked for: by the clock that nobody sets, and as wall time.
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
        """Another relay stands above, and told what it had. It proves nothing about now, whatever
        age it tells: the age counts from what the wall clock there said."""
        self._asked = -math.inf, self._asked[1] - age

    def _persist_early(self, items: Sequence[Item]) -> None:
        """What is left to do at the end of a first list is what clients wait for."""
        steps = self._steps
        is_first = not steps.stream.collection.is_synced
        if items and is_first and steps.owner.has_room(self._listed + len(items)):
            steps.journal.send(ListChunk(steps.stream.scope, items))
            self._persists_early = True
