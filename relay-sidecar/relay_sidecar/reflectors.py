"""The reflectors of all streams: started, stopped, told of the link, and what upstream refuses.

A stream that upstream denies is dropped with its data: nobody reads here what the relay itself may
no longer read. Knows neither requests of clients nor HTTP.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from kubeapi import ApiError, Unreachable
from relay_sidecar.core.objects import Failure, Malformed, read_page
from relay_sidecar.core.store import fingerprint_of
from relay_sidecar.log import fields, logger
from relay_sidecar.reflector import Reflector
from relay_sidecar.reflector_sides import Keeper, Source
from relay_sidecar.stream import Stream

METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


class Reflectors:
    """`spawn` runs a coroutine whose failure ends the process."""

    def __init__(
        self,
        source: Source,
        keeper: Keeper,
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        request_timeout: float,
    ) -> None:
        self.is_up = False
        # Set once, by whoever owns the streams.
        self.on_refused: Callable[[Stream, Failure], None] | None = None
        self.on_start: Callable[[Stream], None] | None = None
        self.has_room: Callable[[int], bool] = lambda more: True
        self._source = source
        self._keeper = keeper
        self._spawn = spawn
        self._timeout = request_timeout
        self._confirming: dict[Stream, asyncio.Task[None]] = {}
        self._running: dict[Stream, tuple[Reflector, asyncio.Task[None]]] = {}

    def start(self, stream: Stream) -> None:
        if stream in self._running:
            return
        reflector = Reflector(
            stream,
            self._source,
            self._keeper,
            self,
            is_up=self.is_up,
            request_timeout=self._timeout,
        )
        self._running[stream] = (reflector, self._spawn(reflector.run()))
        if self.on_start is not None:
            self.on_start(stream)
        logger.debug("stream opened", extra=fields(stream=stream.scope))

    def stop(self, stream: Stream) -> None:
        running = self._running.pop(stream, None)
        if running is not None:
            running[1].cancel()
            logger.debug("stream closed", extra=fields(stream=stream.scope))

    def runs(self, stream: Stream) -> bool:
        return stream in self._running

    def is_live(self, stream: Stream) -> bool:
        running = self._running.get(stream)
        return running is not None and running[0].reflection.is_live(time.monotonic())

    def confirm(self, stream: Stream) -> None:
        """Asks for names and versions only; once, however many want to know."""
        if stream not in self._confirming:
            self._confirming[stream] = self._spawn(self._confirm(stream))

    async def _confirm(self, stream: Stream) -> None:
        scope = stream.scope
        try:
            body = await self._source.page(
                scope.path, scope.params, timeout=self._timeout, accept=METADATA
            )
            page = read_page(body)
            stream.expect(page.version, fingerprint_of(page.items))
        except (ApiError, Unreachable, Malformed) as error:
            logger.debug("not confirmed", extra=fields(stream=scope, why=error))
        finally:
            self._confirming.pop(stream, None)

    def link(self, is_up: bool) -> None:
        """The link went or came back."""
        self.is_up = is_up
        for reflector, _ in tuple(self._running.values()):
            reflector.link(is_up)

    def relist(self, stream: Stream) -> None:
        """What it holds is doubtful; one that does not run lists before it does."""
        stream.is_doubtful = True
        running = self._running.get(stream)
        if running is not None:
            running[0].relist()

    def refused(self, stream: Stream, failure: Failure) -> None:
        stream.refuse(failure)
        if self.on_refused is not None:
            self.on_refused(stream, failure)
