"""Works are done in order on one thread, whose failures reach those that wait."""

import asyncio
import threading

import pytest

from edge_sidecars.walstore.disk_thread import Commit, DiskThread, GroupCommit


class Full(Exception):
    """What a disk may do."""


class Ended(Exception):
    """The thread is gone."""


def _thread() -> DiskThread:
    return DiskThread("disk", failures=(Full,), ended=Ended())


def test_works_are_done_in_order_and_their_failures_raised() -> None:
    async def play() -> list[int]:
        thread, done = _thread(), list[int]()
        for number in range(100):
            thread.put(lambda number=number: done.append(number))  # type: ignore[misc]

        def fail() -> None:
            raise Full

        with pytest.raises(Full):
            await thread.run(fail)
        assert await thread.run(lambda: len(done)) == 100
        thread.end()
        thread.join()
        return done

    assert asyncio.run(play()) == list(range(100))


def test_who_stops_waiting_does_not_stop_the_work() -> None:
    async def play() -> None:
        thread, gate, done = _thread(), threading.Event(), list[bool]()
        task = asyncio.create_task(thread.run(lambda: done.append(gate.wait(timeout=10))))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.set()
        assert await thread.run(lambda: done) == [True]
        thread.end()

    asyncio.run(play())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_unforeseen_error_ends_the_thread_and_all_that_wait() -> None:
    async def play() -> None:
        thread = _thread()
        groups = GroupCommit[str, int](thread, len, lambda entries, result: None)

        def bug() -> None:
            raise ZeroDivisionError

        waiting = asyncio.create_task(thread.run(bug))
        await asyncio.sleep(0)
        done = asyncio.get_running_loop().create_future()
        entry = Commit("one", done)
        groups.pending.add(entry)
        with pytest.raises(Ended):
            await waiting
        with pytest.raises(Ended):
            await done
        with pytest.raises(Ended):
            await thread.run(bug)
        # Its traceback belongs to this test.
        thread.join()

    asyncio.run(play())


def test_idle_work_is_done_when_nothing_else_is_and_until_there_is_none() -> None:
    async def play() -> None:
        left = [3]

        def tidy() -> None:
            left[0] -= 1

        thread = DiskThread(
            "disk", failures=(), ended=Ended(), idle_work=lambda: tidy if left[0] else None
        )
        while left[0]:  # noqa: ASYNC110 - the thread says nothing of it
            await asyncio.sleep(0.01)
        assert await thread.run(lambda: left[0]) == 0
        thread.end()

    asyncio.run(play())


def test_a_loop_that_is_closed_is_not_called() -> None:
    async def play() -> DiskThread:
        return _thread()

    thread = asyncio.run(play())
    thread.post(print)
    thread.end()
    thread.join()
