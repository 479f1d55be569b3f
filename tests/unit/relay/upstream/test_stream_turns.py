"""Streams begin so many at a time, the most urgent first; one that takes long holds up nobody."""

import asyncio
from dataclasses import dataclass

from relay_sidecar.upstream.reflector.turns import Turns

LIMIT = 4


@dataclass(eq=False)
class Stream:
    name: str
    is_waited_for: bool = False
    is_read: bool = False


class Scene:
    """Beginnings that last until `answer`; `begun` in the order in which they got their turns."""

    def __init__(self) -> None:
        self.turns = Turns(LIMIT)
        self.answer = asyncio.Event()
        # Five times the limit.
        self.all_open = asyncio.Event()
        self.begun: list[str] = []
        self.open = self.most = 0

    async def begin(self, stream: Stream, *, soon: bool = True) -> None:
        async with self.turns.turn(stream):
            self.begun.append(stream.name)
            self.open += 1
            self.most = max(self.most, self.open)
            if self.open == 5 * LIMIT:
                self.all_open.set()
            try:
                await (asyncio.sleep(0) if soon else self.answer.wait())
            finally:
                self.open -= 1


def test_where_each_begins_soon_no_more_than_the_limit_do_so_at_a_time() -> None:
    async def play() -> Scene:
        it = Scene()
        await asyncio.gather(*(it.begin(Stream(f"s{n}")) for n in range(100)))
        return it

    it = asyncio.run(play())
    assert it.begun == [f"s{n}" for n in range(100)]
    assert it.most == LIMIT


def test_a_stream_that_is_waited_for_comes_before_one_that_is_read_and_that_before_others() -> None:
    async def play() -> Scene:
        it = Scene()
        first = [asyncio.create_task(it.begin(Stream("first"))) for _ in range(LIMIT)]
        streams = [Stream("idle"), Stream("read", is_read=True), Stream("later", is_read=True)]
        tasks = [asyncio.create_task(it.begin(stream)) for stream in streams]
        await asyncio.sleep(0)
        # Somebody asks for it while it waits.
        streams[2].is_waited_for = True
        await asyncio.gather(*first, *tasks)
        return it

    assert asyncio.run(play()).begun[LIMIT:] == ["later", "read", "idle"]


def test_beginnings_that_hang_hold_up_nobody_for_long() -> None:
    async def play() -> Scene:
        it = Scene()
        tasks = [asyncio.create_task(it.begin(Stream("s"), soon=False)) for _ in range(5 * LIMIT)]
        await it.all_open.wait()
        it.answer.set()
        await asyncio.gather(*tasks)
        return it

    assert asyncio.run(play()).most == 5 * LIMIT


def test_who_is_given_up_takes_no_turn_with_it() -> None:
    async def play() -> Scene:
        it = Scene()
        held = [asyncio.create_task(it.begin(Stream("s"), soon=False)) for _ in range(LIMIT)]
        waiting = [asyncio.create_task(it.begin(Stream("w"))) for _ in range(LIMIT)]
        await asyncio.sleep(0)
        for task in waiting[:2]:
            task.cancel()
        for task in held:
            task.cancel()
        await asyncio.sleep(0)
        # Granted in this very moment.
        waiting[2].cancel()
        await asyncio.gather(*held, *waiting, return_exceptions=True)
        await asyncio.gather(*(it.begin(Stream("z")) for _ in range(10)))
        return it

    it = asyncio.run(play())
    assert it.begun.count("z") == 10
    assert it.open == 0
