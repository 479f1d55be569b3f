"""Whether the main of this process leads, as its elector says.

Guarantees: `is_leader` and `may_act` are functions of the clock when they are called; subscribers
are called on each change within a heartbeat, and on an expiry at the moment of the deadline. A
stream that breaks ends no lead: its last document counts until its deadline. The arithmetic is
`lead.py`.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Self

from edge_sidecars.kubeapi import ApiClient, ApiError, Plain, Unreachable
from edge_sidecars.leader_client.lead import Lead, LeaderDocument, NotAnElectorDocument
from edge_sidecars.runtime.backoff import Backoff
from edge_sidecars.runtime.clock import boottime, is_set
from edge_sidecars.runtime.log import fields, logger

# So many documents of a leader that each leave too little time for a request are no chance.
SHORT_HEARTBEATS = 5
# Seconds; an elector sends its document each second.
SILENCE = 3.0
OPEN_TIMEOUT = 2.0
# Seconds; the elector is on this machine, and a restart of it takes half a second.
LONGEST_REDIAL = 1.0


class LeaderClient:
    """Follows `/leader` of the elector at `url` while it is entered, or while `run` runs.

    `request_timeout`: the longest that one action of the main takes, in seconds; `may_act` is
    about that long where it is not told otherwise.
    """

    def __init__(
        self, url: str, *, request_timeout: float = 0.0, user_agent: str = "leader-client"
    ) -> None:
        self.terms = 0
        self._url = url
        self._request_timeout = request_timeout
        self._user_agent = user_agent
        self._lead = Lead()
        self._listeners: list[Callable[[], None]] = []
        self._kick = asyncio.Event()
        self._changed = asyncio.Event()
        self._state: tuple[bool, int | None] = (False, None)
        self._short = 0
        self._has_resigned = False
        self._group = asyncio.TaskGroup()
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self._running = self._group.create_task(self.run())
        return self

    async def __aexit__(self, *raised: Any) -> None:
        if self._running is not None:
            self._running.cancel()
        # A failure of the client itself cancels the main. The main's own goes on in no group.
        is_cancelled = isinstance(raised[1], asyncio.CancelledError)
        await self._group.__aexit__(*(raised if is_cancelled else (None, None, None)))

    @property
    def is_leader(self) -> bool:
        return not self._has_resigned and self._lead.is_leader(boottime())

    def may_act(self, *, within: float | None = None) -> bool:
        """Whether an action that begins now and takes `within` seconds at most ends while the lead
        is proven."""
        longest = self._request_timeout if within is None else within
        return not self._has_resigned and self._lead.may_act(boottime(), longest)

    @property
    def is_vacant(self) -> bool:
        """Whether no leader is known to be alive, so that this main may be the next."""
        return not self._has_resigned and self._lead.is_vacant(boottime())

    @property
    def term(self) -> int | None:
        """The fencing token, which grows with each term; None unless leader."""
        return self._lead.term(boottime()) if self.is_leader else None

    @property
    def remaining(self) -> float:
        """Seconds for which the lead is proven."""
        return max(self._lead.deadline - boottime(), 0.0) if self.is_leader else 0.0

    @property
    def holder(self) -> str:
        """The leader's pod in the elector's last document; "" where none is known."""
        return "" if self._lead.document is None else self._lead.document.holder

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Called when the lead begins or ends, or a new term begins, until the process ends."""
        self._listeners.append(listener)

    async def wait_for(self, *, is_leader: bool) -> None:
        """Returns when `is_leader` is so."""
        while self.is_leader is not is_leader:
            await self._changed.wait()

    def resign(self) -> None:
        """From now on this main does not lead, whatever the elector says: the process ends."""
        self._has_resigned = True
        self._notify()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            group.create_task(self._expire())

    async def _follow(self) -> None:
        """The documents, over as many connections as it takes."""
        elector = ApiClient(Plain(self._url), user_agent=self._user_agent)
        backoff = Backoff(longest=LONGEST_REDIAL)
        is_lost = False
        try:
            while True:
                try:
                    self._lead.asked(boottime())
                    async for document in _documents(elector):
                        if is_lost:
                            logger.info("the elector answers again")
                        is_lost = False
                        backoff.succeeded()
                        self._heard(document)
                    why = "it ended the stream"
                except (ApiError, Unreachable, NotAnElectorDocument) as error:
                    why = str(error)
                delay = backoff.failed(random.random())
                level = logger.debug if is_lost else logger.warning
                level("the elector does not answer", extra=fields(why=why, delay=delay))
                is_lost = True
                await asyncio.sleep(delay)
        finally:
            await elector.close()

    def _heard(self, document: LeaderDocument) -> None:
        if self._lead.heard(document, boottime()):
            logger.debug("the elector says", extra=fields(holder=document.holder))
        self._short = self._short + 1 if document.is_leader and not self.may_act() else 0
        if self._short == SHORT_HEARTBEATS:
            logger.warning(
                "the lead is proven for too short a time to write",
                extra=fields(remaining=document.remaining, request_timeout=self._request_timeout),
            )
        self._kick.set()
        self._notify()

    async def _expire(self) -> None:
        """No document says that a deadline has passed."""
        while True:
            self._kick.clear()
            left = self._lead.deadline - boottime()
            if not await is_set(self._kick, within=left if left > 0 else None):
                self._notify()

    def _notify(self) -> None:
        state = (self.is_leader, self.term)
        if state == self._state:
            return
        was, self._state = self._state, state
        self._changed.set()
        self._changed = asyncio.Event()
        if state[0]:
            self.terms += 1
            logger.info("leading", extra=fields(term=state[1]))
        elif was[0]:
            logger.info("not leading any more", extra=fields(holder=self.holder or "nobody"))
        for listener in self._listeners:
            listener()


async def _documents(elector: ApiClient) -> AsyncIterator[LeaderDocument]:
    lines = elector.lines("/leader", open_timeout=OPEN_TIMEOUT, params={"watch": "true"})
    async with aclosing(lines):
        while True:
            try:
                async with asyncio.timeout(SILENCE):
                    line = await anext(lines, None)
            except TimeoutError as error:
                raise Unreachable(f"no word for {SILENCE:g}s") from error
            if line is None:
                return
            yield _read(line)


def _read(line: bytes) -> LeaderDocument:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise NotAnElectorDocument(f"no JSON: {line[:80]!r}") from error
    if not isinstance(document, dict):
        raise NotAnElectorDocument(f"no JSON object: {line[:80]!r}")
    return LeaderDocument.parse(document)
