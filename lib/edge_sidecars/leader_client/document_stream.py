"""The documents of an elector, one JSON object per line, over as many connections as it takes.

Owns the connection, what counts as silence, and when it is dialled again. Guarantees: `heard` is
called with each document as it comes, `expired` at the moment at which the proof of the last one
ends, for of that no document tells; a stream that breaks ends no proof. Knows no path's meaning.
"""

import asyncio
import json
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Generic, Self, TypeVar

from edge_sidecars.kubeapi import ApiClient, ApiError, Unreachable
from edge_sidecars.leader_client.proof import NotAnElectorDocument, Proof
from edge_sidecars.runtime.backoff import Backoff
from edge_sidecars.runtime.clock import boottime, is_set
from edge_sidecars.runtime.log import fields, logger

# Seconds; an elector sends its document each second.
SILENCE = 3.0
OPEN_TIMEOUT = 2.0
# Seconds; the elector is on this machine, and a restart of it takes half a second.
LONGEST_REDIAL = 1.0

D = TypeVar("D")


class DocumentStream(Generic[D]):
    """Follows `path`. `parse` raises `NotAnElectorDocument`; `heard` tells `proof`."""

    def __init__(
        self,
        path: str,
        *,
        parse: Callable[[Mapping[str, object]], D],
        proof: Proof,
        heard: Callable[[D], None],
        expired: Callable[[], None],
    ) -> None:
        self._path = path
        self._parse = parse
        self._proof = proof
        self._heard = heard
        self._expired = expired
        self._kick = asyncio.Event()

    async def run(self, elector: ApiClient) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(elector))
            group.create_task(self._expire())

    async def _follow(self, elector: ApiClient) -> None:
        backoff = Backoff(longest=LONGEST_REDIAL)
        is_lost = False
        while True:
            try:
                self._proof.asked(boottime())
                async for document in self._documents(elector):
                    if is_lost:
                        logger.info("the elector answers again")
                    is_lost = False
                    backoff.succeeded()
                    self._heard(document)
                    self._kick.set()
                why = "it ended the stream"
            except (ApiError, Unreachable, NotAnElectorDocument) as error:
                why = str(error)
            delay = backoff.failed(random.random())
            level = logger.debug if is_lost else logger.warning
            level("the elector does not answer", extra=fields(why=why, delay=delay))
            is_lost = True
            await asyncio.sleep(delay)

    async def _expire(self) -> None:
        while True:
            self._kick.clear()
            left = self._proof.deadline - boottime()
            if not await is_set(self._kick, within=left if left > 0 else None):
                self._expired()

    async def _documents(self, elector: ApiClient) -> AsyncIterator[D]:
        lines = elector.lines(self._path, open_timeout=OPEN_TIMEOUT, params={"watch": "true"})
        async with aclosing(lines):
            while True:
                try:
                    async with asyncio.timeout(SILENCE):
                        line = await anext(lines, None)
                except TimeoutError as error:
                    raise Unreachable(f"no word for {SILENCE:g}s") from error
                if line is None:
                    return
                yield self._parse(_object(line))


def _object(line: bytes) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise NotAnElectorDocument(f"no JSON: {line[:80]!r}") from error
    if not isinstance(document, dict):
        raise NotAnElectorDocument(f"no JSON object: {line[:80]!r}")
    return document


class Follower(ABC):
    """Follows an elector while it is entered, or while `run` runs. While it is entered, a failure
    of `run` cancels the main; the main's own goes on in no group."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._has_resigned = False
        self._background = asyncio.TaskGroup()
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._background.__aenter__()
        self._running = self._background.create_task(self.run())
        return self

    async def __aexit__(self, *raised: Any) -> None:
        if self._running is not None:
            self._running.cancel()
        is_cancelled = isinstance(raised[1], asyncio.CancelledError)
        await self._background.__aexit__(*(raised if is_cancelled else (None, None, None)))

    @abstractmethod
    async def run(self) -> None:
        """Until cancelled."""

    @abstractmethod
    def _update(self) -> None:
        """Says what changed, and sees to what follows."""

    def resign(self) -> None:
        """From now on this main leads or owns nothing, whatever the elector says: the process
        ends."""
        self._has_resigned = True
        self._update()

    def _wake(self) -> None:
        """Those that wait for a change look again."""
        self._changed.set()
        self._changed = asyncio.Event()
