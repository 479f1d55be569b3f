"""Questions to upstream that are shared or that no client waits for.

`Rounds`: an answer is to a question that was asked after the caller came; one at a time; a caller
that leaves takes no answer of the others along. `ConcurrencyLimit`: never more than `at_once` under
way; one that hangs delays the next for `patience` seconds. `WholeAnswers`: what a client read as a
Table or metadata is requested once more in JSON, with its credentials, so that `kubectl get` works
offline: never Secrets, one request at a time, PACE apart.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from typing import Final, Generic, TypeVar

from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.status import Refused
from edge_sidecars.kubeapi import Unreachable
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.upstream.messages import BufferedResponse, ClientRequest, Upstream

T = TypeVar("T")

# What a caller that waits gets where it is to ask for its round.
_ASK: Final = object()


class Rounds(Generic[T]):
    """Of one question."""

    def __init__(self) -> None:
        self._is_asking = False
        self._next: list[asyncio.Future[T | object]] = []

    @property
    def is_idle(self) -> bool:
        return not self._is_asking

    async def answer(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What `ask` returns or raises, of this caller or of one of its round."""
        together: list[asyncio.Future[T | object]] = []
        if self._is_asking:
            together = self._next
            mine: asyncio.Future[T | object] = asyncio.get_running_loop().create_future()
            together.append(mine)
            try:
                found = await mine
            except asyncio.CancelledError:
                self._left(together, mine)
                raise
            if found is not _ASK:
                return found  # type: ignore[return-value]
            together.remove(mine)
        return await self._ask(ask, together)

    async def _ask(
        self, ask: Callable[[], Awaitable[T]], together: list[asyncio.Future[T | object]]
    ) -> T:
        self._is_asking = True
        try:
            found = await ask()
        except Exception as error:
            # Of all who wait for the answer, whatever it is: each is one request's failure.
            for each in together:
                if not each.done():
                    each.set_exception(error)
            self._begin_next()
            raise
        except BaseException:
            # This caller has left, or its task is closed: it is no answer to the others.
            self._hand_over(together)
            raise
        for each in together:
            if not each.done():
                each.set_result(found)
        self._begin_next()
        return found

    def _left(
        self, together: list[asyncio.Future[T | object]], mine: asyncio.Future[T | object]
    ) -> None:
        together.remove(mine)
        was_to_ask = not mine.cancelled() and mine.exception() is None and mine.result() is _ASK
        if was_to_ask:
            self._hand_over(together)

    def _begin_next(self) -> None:
        together, self._next = self._next, []
        self._hand_over(together)

    def _hand_over(self, together: list[asyncio.Future[T | object]]) -> None:
        """To the first caller that is still there; where none is, to the next round."""
        asker = next((each for each in together if not each.done()), None)
        if asker is not None:
            asker.set_result(_ASK)
        elif self._next:
            self._begin_next()
        else:
            self._is_asking = False


class ConcurrencyLimit:
    def __init__(self, *, at_once: int, patience: float) -> None:
        self._places = asyncio.Semaphore(at_once)
        self._turn = asyncio.Lock()
        self._patience = patience

    @asynccontextmanager
    async def next(self) -> AsyncIterator[None]:
        """For one question."""
        async with self._places:
            has_turn = await self._waited()
            try:
                yield
            finally:
                if has_turn:
                    self._turn.release()

    async def _waited(self) -> bool:
        """Whether it is this one's turn; else it goes on without."""
        try:
            async with asyncio.timeout(self._patience):
                return await self._turn.acquire()
        except TimeoutError:
            return False


# Seconds between two requests: a script that reads a thousand objects costs ten a second.
PACE: Final = 0.1
# Reads that wait; a client's request is kept with each of them.
MAX_WAITING: Final = 64
_SECRETS: Final = ("", "secrets")

# Takes in an answer that was asked for at a wall time.
Learn = Callable[[BufferedResponse, float], Awaitable[object]]


class WholeAnswers:
    """`timeout` in seconds."""

    def __init__(self, upstream: Upstream, *, timeout: float, wall: Callable[[], float]) -> None:
        self._upstream = upstream
        self._timeout = timeout
        self._wall = wall
        self._waiting: OrderedDict[Hashable, tuple[web.BaseRequest, str, Learn]] = OrderedDict()
        self._task: asyncio.Task[None] | None = None

    def want(
        self,
        resource: ResourceName,
        key: Hashable,
        request: web.BaseRequest,
        target: str,
        learn: Learn,
    ) -> None:
        """What is at `target`, and was shown to `request`; `key` tells one from another."""
        is_secret = (resource.group, resource.plural) == _SECRETS
        if is_secret or key in self._waiting or len(self._waiting) >= MAX_WAITING:
            return
        self._waiting[key] = (request, target, learn)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        """Until nothing waits, or upstream is out of reach: the next read asks again."""
        while self._waiting:
            _, (request, target, learn) = self._waiting.popitem(last=False)
            asked_at = self._wall()
            asked = ClientRequest(request, "application/json", self._timeout, target)
            try:
                answer = await self._upstream.fetch(asked)
            except Unreachable:
                self._waiting.clear()
                return
            except Refused:
                answer = None  # too long
            if answer is not None:
                await learn(answer, asked_at)
            await asyncio.sleep(PACE)
