"""Which addresses a name has while those who know it are slow, fail or change their mind."""

import asyncio
from collections.abc import Awaitable, Callable
from socket import AF_INET, AddressFamily

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from edge_sidecars.kubeapi.connector import FRESH_FOR, Resolver


class Names(AbstractResolver):
    """Answers with `address` when it is told to."""

    def __init__(self) -> None:
        self.address = "192.0.2.1"
        self.asked = 0
        self.answers = asyncio.Event()
        self.answers.set()
        self.knows = True

    async def resolve(
        self, host: str, port: int = 0, family: AddressFamily = AF_INET
    ) -> list[ResolveResult]:
        self.asked += 1
        await self.answers.wait()
        if not self.knows:
            raise OSError(f"{host}: nobody knows")
        return [
            ResolveResult(
                hostname=host, host=self.address, port=port, family=family, proto=0, flags=0
            )
        ]

    async def close(self) -> None:
        """Nothing is open."""


def resolving(
    work: Callable[[Names, Callable[[], Awaitable[str]]], Awaitable[None]],
    *,
    fresh_for: float = FRESH_FOR,
) -> None:
    async def run() -> None:
        names = Names()
        subject = Resolver(names, fresh_for=fresh_for)

        async def address() -> str:
            [found] = await subject.resolve("api.example", 6443)
            return found["host"]

        try:
            await work(names, address)
        finally:
            await subject.close()

    asyncio.run(run())


def test_a_name_is_looked_up_once_for_all_who_ask() -> None:
    async def work(names: Names, address: Callable[[], Awaitable[str]]) -> None:
        assert set(await asyncio.gather(address(), address())) == {"192.0.2.1"}
        assert await address() == "192.0.2.1"
        assert names.asked == 1

    resolving(work)


def test_a_name_that_moved_is_found_where_it_is() -> None:
    async def work(names: Names, address: Callable[[], Awaitable[str]]) -> None:
        assert await address() == "192.0.2.1"
        names.address = "192.0.2.2"
        assert await address() == "192.0.2.2"

    resolving(work, fresh_for=0.0)


def test_while_nobody_answers_a_name_is_where_it_was_and_later_where_it_is() -> None:
    async def work(names: Names, address: Callable[[], Awaitable[str]]) -> None:
        await address()
        names.answers.clear()
        names.address = "192.0.2.2"
        assert await address() == "192.0.2.1"
        assert await address() == "192.0.2.1"
        assert names.asked == 2  # it is still being looked up
        names.answers.set()
        assert await address() == "192.0.2.2"

    resolving(work, fresh_for=0.0)


def test_a_name_that_is_not_known_any_more_is_where_it_was() -> None:
    async def work(names: Names, address: Callable[[], Awaitable[str]]) -> None:
        await address()
        names.knows = False
        assert await address() == "192.0.2.1"

    resolving(work, fresh_for=0.0)


def test_a_name_that_was_never_known_is_an_error_and_may_be_found_later() -> None:
    async def work(names: Names, address: Callable[[], Awaitable[str]]) -> None:
        names.knows = False
        with pytest.raises(OSError, match="nobody knows"):
            await address()
        names.knows = True
        assert await address() == "192.0.2.1"

    resolving(work)


def test_who_does_not_wait_for_a_name_leaves_it_to_others() -> None:
    async def work(names: Names, address: Callable[[], Awaitable[str]]) -> None:
        names.answers.clear()
        impatient = asyncio.ensure_future(address())
        patient = asyncio.ensure_future(address())
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.sleep(0)
        names.answers.set()
        assert await patient == "192.0.2.1"

    resolving(work)
