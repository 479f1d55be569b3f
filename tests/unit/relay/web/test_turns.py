"""Questions that wait for each other, but not for long."""

import asyncio

from relay_sidecar.web.reads.rounds import ConcurrencyLimit


class Questions:
    """Each lasts until `answer`; `most`: as many were under way at a time."""

    def __init__(self, turns: ConcurrencyLimit) -> None:
        self._turns = turns
        self.answer = asyncio.Event()
        self.asked = self.open = self.most = 0

    async def ask(self, *, seconds: float | None = None) -> None:
        async with self._turns.next():
            self.asked += 1
            self.open += 1
            self.most = max(self.most, self.open)
            try:
                async with asyncio.timeout(seconds):
                    await self.answer.wait()
            except TimeoutError:
                pass
            finally:
                self.open -= 1


def test_where_each_is_answered_soon_one_is_under_way_at_a_time() -> None:
    async def play() -> Questions:
        it = Questions(ConcurrencyLimit(at_once=4, patience=60.0))
        await asyncio.gather(*(it.ask(seconds=0.01) for _ in range(8)))
        return it

    it = asyncio.run(play())
    assert (it.asked, it.most) == (8, 1)


def test_one_that_hangs_holds_up_the_others_for_as_long_as_they_are_patient() -> None:
    async def play() -> Questions:
        it = Questions(ConcurrencyLimit(at_once=4, patience=0.05))
        asking = [asyncio.create_task(it.ask()) for _ in range(8)]
        while it.asked < 4:
            await asyncio.wait(asking, timeout=0.01)
        await asyncio.wait(asking, timeout=0.2)
        assert it.asked == 4, "no more at once"
        it.answer.set()
        await asyncio.gather(*asking)
        return it

    it = asyncio.run(play())
    assert (it.asked, it.most) == (8, 4)


def test_one_that_is_given_up_gives_up_its_turn() -> None:
    async def play() -> Questions:
        it = Questions(ConcurrencyLimit(at_once=2, patience=60.0))
        first, second = (asyncio.create_task(it.ask()) for _ in range(2))
        await asyncio.wait([first], timeout=0.01)
        first.cancel()
        await asyncio.wait([first])
        it.answer.set()
        await second
        return it

    assert asyncio.run(play()).asked == 2
