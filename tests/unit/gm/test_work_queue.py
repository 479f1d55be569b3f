"""Each key once at a time, none forgotten."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from gm.controller.work_queue import WorkQueue


def test_a_key_that_waits_is_not_added_twice() -> None:
    async def run() -> None:
        queue: WorkQueue[str] = WorkQueue()
        for key in ("a", "b", "a"):
            queue.add(key)
        assert [await queue.get(), await queue.get()] == ["a", "b"]
        assert len(queue) == 2

    asyncio.run(run())


def test_a_key_that_is_added_while_it_is_worked_on_comes_again_afterwards() -> None:
    async def run() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        assert await queue.get() == "a"
        queue.add("a")
        waiting = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        assert not waiting.done()
        queue.done("a")
        assert await waiting == "a"
        queue.done("a")
        assert len(queue) == 0

    asyncio.run(run())


@pytest.mark.parametrize("run_in", [asyncio.run, uvloop.run])
def test_of_two_planned_moments_the_earlier_counts(
    run_in: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    async def run() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 3600.0)
        queue.add_after("a", 0.0)
        queue.add_after("a", 3600.0)
        assert await queue.get() == "a"

    run_in(run())


def test_nothing_comes_of_what_was_cleared() -> None:
    async def run() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        queue.add_after("b", 0.0)
        queue.discard(lambda _: True)
        queue.add("c")
        await asyncio.sleep(0.01)
        assert await queue.get() == "c"
        assert len(queue) == 1

    asyncio.run(run())


def test_whoever_waits_is_woken_once_for_each_key() -> None:
    async def run() -> None:
        queue: WorkQueue[str] = WorkQueue()
        waiting = [asyncio.create_task(queue.get()) for _ in range(3)]
        await asyncio.sleep(0)
        for key in "abc":
            queue.add(key)
        assert sorted(await asyncio.gather(*waiting)) == ["a", "b", "c"]

    asyncio.run(run())


def test_what_failed_and_what_did_not_take_turns_and_some_serve_only_the_latter() -> None:
    async def run() -> None:
        queue: WorkQueue[str] = WorkQueue()
        for key in ("bad-1", "bad-2", "bad-3"):
            queue.retry_after(key, 0.0)
        assert queue.retries == 3
        while queue.retries:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)
        other = asyncio.create_task(queue.get(failed_too=False))
        await asyncio.sleep(0)
        assert not other.done()
        assert await queue.get() == "bad-1"
        for key in ("good-1", "good-2", "bad-2"):
            queue.add(key)
        assert await other == "good-1"
        assert [await queue.get() for _ in range(3)] == ["good-2", "bad-2", "bad-3"]

    asyncio.run(run())
