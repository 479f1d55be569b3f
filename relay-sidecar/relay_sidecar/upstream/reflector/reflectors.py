"""The reflectors of all streams: started, stopped, told of the link, and what upstream refuses.

A stream that upstream denies is dropped with its data: nobody reads here what the relay itself may
no longer read. Knows neither requests of clients nor HTTP.
"""

import asyncio
import time
from collections.abc import Callable

from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.watch_events import Failure
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger, sparing
from edge_sidecars.runtime.tasks import Spawn
from relay_sidecar.core.link import UNAUTHORIZED
from relay_sidecar.core.stream.commands import ListEvidence
from relay_sidecar.core.stream.reflection import WATCH_TIMEOUT
from relay_sidecar.journal.journal import Journal
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.stream_journal import deletion_records
from relay_sidecar.streams.streams import Streams
from relay_sidecar.upstream.link_probe import LinkProbe
from relay_sidecar.upstream.reflector.feed import Feed
from relay_sidecar.upstream.reflector.reflector import AllTurns, Reflector


class Reflectors:
    """`feed`: from where a stream comes. `spawn` runs a coroutine whose failure ends the process;
    `watch_timeout` in seconds."""

    def __init__(
        self,
        feed: Callable[[Stream], Feed],
        journal: Journal,
        probe: LinkProbe,
        streams: Streams,
        *,
        spawn: Spawn,
        watch_timeout: int = WATCH_TIMEOUT,
    ) -> None:
        self._feed = feed
        self._journal = journal
        self._probe = probe
        # As reported last: what is done about the link waits for the report.
        self._may_ask = False
        self._streams = streams
        self._spawn = spawn
        self._watch_timeout = watch_timeout
        self._turns = AllTurns()
        self._running: dict[Stream, tuple[Reflector, asyncio.Task[None]]] = {}

    def start(self, stream: Stream) -> None:
        if stream in self._running:
            return
        feed = self._feed(stream)
        reflector = Reflector(
            stream,
            feed,
            self._journal,
            self,
            self._turns,
            may_ask=feed.may_ask(is_up=self._may_ask),
            watch_timeout=self._watch_timeout,
        )
        self._running[stream] = (reflector, self._spawn(reflector.run()))
        logger.debug("stream opened", extra=fields(stream=stream.scope))

    def stop(self, stream: Stream) -> None:
        running = self._running.pop(stream, None)
        if running is not None:
            running[0].stopped()
            running[1].cancel()
            logger.debug("stream closed", extra=fields(stream=stream.scope))

    def runs(self, stream: Stream) -> bool:
        return stream in self._running

    @property
    def is_up(self) -> bool:
        return self._probe.link.is_up(boottime())

    def is_open(self, stream: Stream) -> bool:
        running = self._running.get(stream)
        return running is not None and running[0].is_open()

    def is_live(self, stream: Stream) -> bool:
        running = self._running.get(stream)
        return running is not None and running[0].is_live()

    def confirmed_at(self, stream: Stream) -> float:
        running = self._running.get(stream)
        if running is not None and running[0].was_live():
            return max(stream.confirmed_at, running[0].feed.answered_at)
        return stream.confirmed_at

    def confirm(self, stream: Stream) -> None:
        running = self._running.get(stream)
        if running is not None:
            running[0].confirm()

    def compare(self, stream: Stream, listed: ListEvidence) -> None:
        running = self._running.get(stream)
        if running is not None:
            running[0].compare(listed)

    def doubt(self) -> None:
        """The process stood still: nobody knows what has come meanwhile."""
        for reflector, _ in tuple(self._running.values()):
            reflector.doubt()

    def reopen(self) -> None:
        """Open watches go on over connections that are made now."""
        for reflector, _ in tuple(self._running.values()):
            if reflector.feed.is_cloud:
                reflector.reopen()

    def refresh(self) -> None:
        """What the pool has changed."""
        for reflector, _ in tuple(self._running.values()):
            reflector.refresh(is_up=self._may_ask)

    def source(self, stream: Stream) -> str:
        running = self._running.get(stream)
        return "" if running is None else running[0].feed.source

    def link(self, is_up: bool) -> None:
        """The link went or came back."""
        self._may_ask = is_up
        for reflector, _ in tuple(self._running.values()):
            reflector.link(reflector.feed.may_ask(is_up=is_up))

    def relist(self, stream: Stream, *, is_paced: bool = False) -> None:
        """What it holds is doubtful; one that does not run lists before it does."""
        stream.is_doubtful = True
        running = self._running.get(stream)
        if running is not None:
            running[0].relist(is_paced=is_paced)

    def went_back(self, stream: Stream, version: int) -> None:
        self._back(stream.scope.resource, version, stream)

    def stands_at(self, resource: ResourceName, version: int) -> None:
        self._back(resource, version, None)

    def _back(self, resource: ResourceName, version: int, but: Stream | None) -> None:
        logger.warning("upstream went back", extra=fields(resource=resource, version=version))
        streams, evicted = self._streams.went_back(resource, version, but)
        if but is not None:
            streams.append(but)
        self._journal.send(*deletion_records(streams), *evicted)

    def refused(self, stream: Stream, failure: Failure) -> None:
        stream.refuse(failure)
        # Of its credentials, the link's probe tells once for all streams.
        if failure.code != UNAUTHORIZED and sparing.allows(stream.scope, failure.code):
            logger.warning(
                "upstream refuses a stream",
                extra=fields(stream=stream.scope, status=failure.code, why=failure.message),
            )
        if self._streams.refused(stream, failure, now=time.monotonic()):
            self._spawn(self._journal.commit(*deletion_records([stream])))

    def has_room(self, more: int) -> bool:
        return self._streams.has_room(more)
