"""Equal questions share an answer, and nobody gets one that is older than they are."""

import asyncio

import pytest

from relay_sidecar.web.reads.rounds import Rounds


class Server:
    """Answers each question with its number, when it is let."""

    def __init__(self) -> None:
        self.rounds = Rounds[int]()
        self.asked = 0
        self.gates: list[asyncio.Future[None]] = []

    async def ask(self) -> int:
        self.asked += 1
        number = self.asked
        gate = asyncio.get_running_loop().create_future()
        self.gates.append(gate)
        await gate
        return number

    def caller(self) -> asyncio.Task[int]:
        return asyncio.create_task(self.rounds.answer(self.ask))


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_who_comes_while_a_question_is_under_way_shares_the_next_one() -> None:
    async def scene() -> None:
        server = Server()
        first = server.caller()
        await settle()
        others = [server.caller() for _ in range(5)]
        await settle()
        assert server.asked == 1
        server.gates[0].set_result(None)
        await settle()
        assert (await first, server.asked) == (1, 2)
        late = server.caller()
        await settle()
        server.gates[1].set_result(None)
        await settle()
        assert [await each for each in others] == [2] * 5
        server.gates[2].set_result(None)
        assert await late == 3
        assert server.rounds.is_idle

    asyncio.run(scene())


@pytest.mark.parametrize("who", ["asks", "waits", "asks for them"])
def test_a_caller_that_leaves_takes_no_answer_along(who: str) -> None:
    async def scene() -> None:
        server = Server()
        first = server.caller()
        await settle()
        waiting = [server.caller() for _ in range(3)]
        await settle()
        if who == "asks":
            first.cancel()
        elif who == "waits":
            waiting[1].cancel()
        else:
            server.gates[0].set_result(None)
            await first
            waiting[0].cancel()
        await settle()
        for gate in server.gates:
            if not gate.done():
                gate.set_result(None)
        await settle()
        for gate in server.gates:
            if not gate.done():
                gate.set_result(None)
        found = await asyncio.gather(*waiting, return_exceptions=True)
        answered = [each for each in found if isinstance(each, int)]
        assert len(answered) == (3 if who == "asks" else 2)
        assert len(set(answered)) == 1
        assert min(answered) > 1
        assert server.rounds.is_idle

    asyncio.run(scene())


def test_where_the_question_fails_all_of_its_round_hear_so_and_the_next_goes_on() -> None:
    async def scene() -> None:
        server = Server()
        first = server.caller()
        await settle()
        second, third = server.caller(), server.caller()
        await settle()
        server.gates[0].set_exception(OSError("gone"))
        with pytest.raises(OSError, match="gone"):
            await first
        await settle()
        server.gates[1].set_exception(OSError("gone again"))
        for each in (second, third):
            with pytest.raises(OSError, match="gone again"):
                await each
        assert server.rounds.is_idle
        last = server.caller()
        await settle()
        server.gates[2].set_result(None)
        assert await last == 3

    asyncio.run(scene())


def test_all_of_a_round_leave_and_who_came_later_still_asks() -> None:
    async def scene() -> None:
        server = Server()
        first = server.caller()
        await settle()
        leaving = [server.caller(), server.caller()]
        await settle()
        for each in (first, *leaving):
            each.cancel()
        await settle()
        assert server.rounds.is_idle
        late = server.caller()
        await settle()
        server.gates[-1].set_result(None)
        assert await late == server.asked

    asyncio.run(scene())
