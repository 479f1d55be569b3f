"""Equal questions to upstream that are answered together.

Guarantees: an answer is to a question that was asked after the caller came, never to the one that
was under way then; one question at a time; a caller that leaves takes no answer of the others
along: one of them asks in its place.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

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
