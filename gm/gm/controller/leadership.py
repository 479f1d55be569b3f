"""Follows the elector of this pod, and tells at any moment whether this GM leads.

Owns the stream `GET /leader?watch=true` and its redialling; the arithmetic is `core/lead.py`.
Guarantees: `is_leader` and `may_act` are read from the clock when they are asked; whoever
subscribes hears of each change within a heartbeat, and of an expiry at the moment of its deadline.
A stream that breaks ends no lead: its last word stands until its deadline.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

from edge_sidecars.kubeapi import ApiError, ApiServer, Unreachable
from edge_sidecars.runtime.backoff import Backoff
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from gm.core.lead import Lead, LeaderDocument, NotALeaderDocument

# Seconds; an elector tells its document each second.
SILENCE = 3.0
OPEN_TIMEOUT = 2.0
# Seconds; the elector is on this machine, and a restart of it takes half a second.
LONGEST_REDIAL = 1.0
# So many heartbeats of a leader that each leave too little time for a write are no chance.
SHORT_HEARTBEATS = 5
_PATH = "/leader"


class Leadership:
    """`within`: the longest that one write takes, in seconds."""

    def __init__(self, elector: ApiServer, *, within: float) -> None:
        self.lead = Lead()
        self.terms = 0
        self._elector = elector
        self._within = within
        self._listeners: list[Callable[[], None]] = []
        self._kick = asyncio.Event()
        self._told: tuple[bool, int | None] = (False, None)
        self._short = 0
        self._is_over = False
        self._ended = asyncio.Event()
        self._ended.set()

    @property
    def is_leader(self) -> bool:
        return not self._is_over and self.lead.is_leader(boottime())

    @property
    def may_act(self) -> bool:
        """Whether a write that begins now ends while the lead is proven."""
        return not self._is_over and self.lead.may_act(boottime(), self._within)

    @property
    def is_vacant(self) -> bool:
        """Whether nobody seems to lead, so that this GM may be next."""
        return not self._is_over and self.lead.is_vacant(boottime())

    @property
    def term(self) -> int | None:
        return self.lead.term(boottime()) if self.is_leader else None

    @property
    def remaining(self) -> float:
        """Seconds for which the lead is proven."""
        return max(self.lead.deadline - boottime(), 0.0) if self.is_leader else 0.0

    @property
    def holder(self) -> str:
        """The leader's pod as the elector last said; "" where nobody knows."""
        return "" if self.lead.document is None else self.lead.document.holder

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Called when the lead begins or ends, or a new term begins, until the process ends."""
        self._listeners.append(listener)

    def stand_down(self) -> None:
        """Leads no more, whatever the elector says: the process ends."""
        self._is_over = True
        self._tell()

    async def ended(self) -> None:
        """Returns when this GM does not lead."""
        await self._ended.wait()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            group.create_task(self._expire())

    async def _follow(self) -> None:
        backoff = Backoff(longest=LONGEST_REDIAL)
        is_lost = False
        while True:
            try:
                async for document in self._documents():
                    if is_lost:
                        logger.info("the elector answers again")
                    is_lost = False
                    backoff.succeeded()
                    self._heard(document)
                why = "it ended the stream"
            except (ApiError, Unreachable, NotALeaderDocument) as error:
                why = str(error)
            delay = backoff.failed(random.random())
            level = logger.debug if is_lost else logger.warning
            level("the elector does not answer", extra=fields(why=why, delay=delay))
            is_lost = True
            await asyncio.sleep(delay)

    async def _documents(self) -> AsyncIterator[LeaderDocument]:
        self.lead.asked(boottime())
        lines = self._elector.lines(_PATH, open_timeout=OPEN_TIMEOUT, params={"watch": "true"})
        async with aclosing(lines):
            while True:
                try:
                    async with asyncio.timeout(SILENCE):
                        line = await anext(lines, None)
                except TimeoutError as error:
                    raise Unreachable(f"no word for {SILENCE:g}s") from error
                if line is None:
                    return
                yield _document(line)

    def _heard(self, document: LeaderDocument) -> None:
        if self.lead.heard(document, boottime()):
            logger.debug("the elector says", extra=fields(holder=document.holder))
        self._short = self._short + 1 if document.is_leader and not self.may_act else 0
        if self._short == SHORT_HEARTBEATS:
            logger.warning(
                "the lead is proven for too short a time to write",
                extra=fields(remaining=document.remaining, request_timeout=self._within),
            )
        self._kick.set()
        self._tell()

    async def _expire(self) -> None:
        """Nobody says that a deadline has passed."""
        while True:
            self._kick.clear()
            left = self.lead.deadline - boottime()
            try:
                async with asyncio.timeout(left if left > 0 else None):
                    await self._kick.wait()
            except TimeoutError:
                self._tell()

    def _tell(self) -> None:
        state = (self.is_leader, self.term)
        if state == self._told:
            return
        was, self._told = self._told, state
        if state[0]:
            self._ended.clear()
        else:
            self._ended.set()
        if state[0]:
            self.terms += 1
            logger.info("leading", extra=fields(term=state[1]))
        elif was[0]:
            logger.info("not leading any more", extra=fields(holder=self.holder or "nobody"))
        for listener in self._listeners:
            listener()


def _document(line: bytes) -> LeaderDocument:
    try:
        told = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise NotALeaderDocument(f"no JSON: {line[:80]!r}") from error
    if not isinstance(told, dict):
        raise NotALeaderDocument(f"no JSON object: {line[:80]!r}")
    return LeaderDocument.parse(told)
