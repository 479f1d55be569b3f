"""The reflectors of all streams: started, stopped, told of the link, and what upstream refuses.

A stream that upstream denies is dropped with its data: nobody reads here what the relay itself may
no longer read. Knows neither requests of clients nor HTTP.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from edge_sidecars.apimachinery.resource_name import ResourceName
from edge_sidecars.apimachinery.watch_events import Failure
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from relay_sidecar.core.reflection import LinkVerdict
from relay_sidecar.streams.stream import ListEvidence, Stream
from relay_sidecar.streams.stream_journal import StreamJournal
from relay_sidecar.upstream.reflector import Reflector
from relay_sidecar.upstream.reflector_ports import Source


class ObservedLink(Protocol):
    """The link to upstream, and when it answered."""

    @property
    def link(self) -> LinkVerdict: ...

    @property
    def answered_at(self) -> float:
        """Wall time of the latest answer."""
        ...


class Reflectors:
    """`spawn` runs a coroutine whose failure ends the process."""

    def __init__(
        self,
        source: Source,
        journal: StreamJournal,
        observed: ObservedLink,
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        request_timeout: float,
    ) -> None:
        self._observed = observed
        # As reported last: what is done about the link waits for the report.
        self._may_ask = False
        # Set once, by whoever owns the streams.
        self.on_refused: Callable[[Stream, Failure], None] | None = None
        self.on_start: Callable[[Stream], None] | None = None
        self.on_back: Callable[[ResourceName, int, Stream | None], None] | None = None
        self.has_room: Callable[[int], bool] = lambda more: True
        self._source = source
        self._journal = journal
        self._spawn = spawn
        self._timeout = request_timeout
        self._running: dict[Stream, tuple[Reflector, asyncio.Task[None]]] = {}

    def start(self, stream: Stream) -> None:
        if stream in self._running:
            return
        reflector = Reflector(
            stream,
            self._source,
            self._journal,
            self,
            link=self._observed.link,
            may_ask=self._may_ask,
            request_timeout=self._timeout,
        )
        self._running[stream] = (reflector, self._spawn(reflector.run()))
        if self.on_start is not None:
            self.on_start(stream)
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
        return self._observed.link.is_up(boottime())

    @property
    def answered_at(self) -> float:
        return self._observed.answered_at

    def is_open(self, stream: Stream) -> bool:
        running = self._running.get(stream)
        return running is not None and running[0].is_open()

    def is_live(self, stream: Stream) -> bool:
        running = self._running.get(stream)
        return running is not None and running[0].is_live()

    def confirmed_at(self, stream: Stream) -> float:
        running = self._running.get(stream)
        if running is not None and running[0].was_live():
            return max(stream.confirmed_at, self._observed.answered_at)
        return stream.confirmed_at

    def confirm(self, stream: Stream) -> None:
        running = self._running.get(stream)
        if running is not None:
            running[0].confirm()

    def told(self, stream: Stream, told: ListEvidence) -> None:
        running = self._running.get(stream)
        if running is not None:
            running[0].told(told)

    def doubt(self) -> None:
        """The process stood still: nobody knows what has come meanwhile."""
        for reflector, _ in tuple(self._running.values()):
            reflector.doubt()

    def link(self, is_up: bool) -> None:
        """The link went or came back."""
        self._may_ask = is_up
        for reflector, _ in tuple(self._running.values()):
            reflector.link(is_up)

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
        if self.on_back is not None:
            self.on_back(resource, version, but)

    def refused(self, stream: Stream, failure: Failure) -> None:
        stream.refuse(failure)
        if self.on_refused is not None:
            self.on_refused(stream, failure)
