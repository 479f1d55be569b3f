"""`ShardClient`, as a main in Python uses it, before electors that a test commands."""

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator, Sequence

import pytest

from edge_sidecars.leader_client import Shard, ShardClient, shard_of
from tests.integration.shard_ring import ShardRing
from tests.unit.repository.checkout import fences
from tools.harness.pods.observers.observer import wait_for

# Seconds; documents come each second, and the machine may be busy.
VALIDITY = 4.0
SHARDS = 16


@pytest.fixture
def ring() -> Iterator[ShardRing]:
    with ShardRing(shards=SHARDS, validity=VALIDITY) as it:
        it.join("a", "b")
        yield it
        assert it.unexpected == []


class Main:
    """What a main is told, and a client that tells it. Its work on lost shards ends with `stop`."""

    def __init__(self, ring: ShardRing, name: str, *, is_stopped: bool = True) -> None:
        self.lost: list[int] = []
        self.gained: list[int] = []
        self.stop = asyncio.Event()
        if is_stopped:
            self.stop.set()
        self.client = ShardClient(
            ring.url(name), on_lost=self._on_lost, on_gained=self._on_gained, request_timeout=0.5
        )

    async def _on_lost(self, shards: Sequence[Shard]) -> None:
        self.lost += sorted(it.number for it in shards)
        await self.stop.wait()

    def _on_gained(self, shards: Sequence[Shard]) -> None:
        self.gained += sorted(it.number for it in shards)

    async def owns(self, *numbers: int) -> None:
        """Returns when it owns exactly these."""
        async with asyncio.timeout(10):
            async for owned in self.client.changes():
                if owned == set(numbers):
                    return


def uid_in(shard: int) -> str:
    uids = (str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))) for number in range(1000))
    return next(uid for uid in uids if shard_of(uid, SHARDS) == shard)


def test_a_main_is_told_what_it_owns_and_asks_by_uid(ring: ShardRing) -> None:
    async def play() -> None:
        main = Main(ring, "a")
        async with main.client as shards:
            assert shards.owned == frozenset()
            assert not shards.selector
            ring.give("a", [3, 15])
            await main.owns(3, 15)
            assert main.gained == [3, 15]
            assert shards.owns(uid_in(3))
            assert not shards.owns(uid_in(4))
            assert shards.may_act(uid_in(3))
            assert not shards.may_act(uid_in(3), within=VALIDITY)
            assert shards.may_act_on_shard(15, within=0.1)
            assert shards.token(uid_in(3)) != shards.token(uid_in(15))
            assert shards.token(uid_in(4)) is None
            assert 0 < shards.remaining <= VALIDITY
            assert "'0xf000000000000000','0x10000000000000000'" in f"{shards.selector}"
            assert shards.document is not None
            assert {it.pod for it in shards.document.members} == {"a", "b"}

    asyncio.run(play())


def test_a_change_that_comes_while_the_main_works_is_not_missed(ring: ShardRing) -> None:
    async def play() -> None:
        one, other = Main(ring, "a"), Main(ring, "b")
        async with one.client as shards, other.client, asyncio.timeout(10):
            seen = []
            async for owned in shards.changes():
                seen.append(owned)
                if len(seen) == 1:
                    ring.give("a", [1])
                    await one.owns(1)
                elif len(seen) == 2:
                    ring.give("b", [1])
                    await other.owns(1)
                    ring.give("a", [2])
                    await one.owns(2)
                else:
                    break
            assert seen == [set(), {1}, {2}]

    asyncio.run(play())


def test_a_resync_yields_although_nothing_changed(ring: ShardRing) -> None:
    async def play() -> None:
        main = Main(ring, "a")
        async with main.client as shards, asyncio.timeout(10):
            ring.give("a", [1])
            await main.owns(1)
            changes = shards.changes(resync=0.05)
            assert [await anext(changes) for _ in range(3)] == [{1}] * 3

    asyncio.run(play())


def test_a_hand_over_is_confirmed_only_when_the_main_has_stopped(ring: ShardRing) -> None:
    async def play() -> None:
        one, other = Main(ring, "a", is_stopped=False), Main(ring, "b")
        async with one.client, other.client:
            ring.give("a", range(4))
            await one.owns(0, 1, 2, 3)
            token = one.client.token(uid_in(2))
            ring.give("b", [2])
            await one.owns(0, 1, 3)
            assert one.lost == [2]
            # The document that says so has come twice by then.
            await asyncio.sleep(1.2)
            assert ring.released == []
            assert other.client.owned == frozenset()
            one.stop.set()
            await other.owns(2)
            assert ring.released == [("a", 2, token)]
            assert other.client.owns(uid_in(2))
            assert one.lost == [2]
            assert one.gained == [0, 1, 2, 3]

    asyncio.run(play())


def test_a_hand_over_of_many_shards_takes_no_tenth_of_a_second_each(ring: ShardRing) -> None:
    async def play() -> None:
        one, other = Main(ring, "a"), Main(ring, "b")
        async with one.client, other.client:
            ring.give("a", range(SHARDS))
            await one.owns(*range(SHARDS))
            began = time.monotonic()
            ring.give("b", range(SHARDS))
            await other.owns(*range(SHARDS))
            assert time.monotonic() - began < SHARDS * 0.1
            assert sorted(number for _, number, _ in ring.released) == [*range(SHARDS)]

    asyncio.run(play())


def test_an_elector_that_is_silent_is_owned_by_until_the_deadline_and_no_longer(
    ring: ShardRing,
) -> None:
    async def play() -> None:
        main = Main(ring, "a")
        async with main.client as shards:
            ring.give("a", [1])
            await main.owns(1)
            ring.silence("a")
            await main.owns()
            assert shards.selector is None
            assert main.lost == [1]
            ring.silence("a", is_silent=False)
            await main.owns(1)
            assert main.gained == [1, 1]
            assert ring.released == []

    asyncio.run(play())


def test_an_elector_that_restarts_gives_other_tokens_and_so_a_loss_and_a_gain(
    ring: ShardRing,
) -> None:
    async def play() -> None:
        main = Main(ring, "a", is_stopped=False)
        async with main.client as shards:
            ring.give("a", [1])
            await main.owns(1)
            before = shards.token(uid_in(1))
            ring.restart("a")
            await main.owns()
            assert main.lost == [1]
            main.stop.set()
            await main.owns(1)
            assert shards.token(uid_in(1)) not in (None, before)
            assert main.gained == [1, 1]

    asyncio.run(play())


def test_a_stream_that_breaks_ends_no_ownership_and_is_dialled_again(ring: ShardRing) -> None:
    async def play() -> None:
        main = Main(ring, "a")
        async with main.client as shards:
            ring.give("a", [1])
            await main.owns(1)
            await asyncio.to_thread(ring.kill, "a")
            assert shards.owns(uid_in(1))
            await main.owns()
            assert main.lost == [1]
            ring.join("a")
            ring.give("a", [1])
            await main.owns(1)

    asyncio.run(play())


def test_a_main_that_resigns_owns_nothing_and_waits_for_its_work(ring: ShardRing) -> None:
    async def play() -> None:
        main = Main(ring, "a", is_stopped=False)
        async with main.client as shards:
            ring.give("a", [1, 2])
            await main.owns(1, 2)
            shards.resign()
            assert shards.owned == frozenset()
            assert not shards.owns(uid_in(1))
            idle = asyncio.create_task(shards.idle())
            await asyncio.sleep(0.1)
            assert not idle.done()
            main.stop.set()
            await idle
            # It is still confirmed: the elector may hand over what the main has left.
            ring.give("b", [1])
            await asyncio.to_thread(
                wait_for, lambda: bool(ring.released), timeout=5, what="confirmed"
            )
            assert [it[:2] for it in ring.released] == [("a", 1)]

    asyncio.run(play())


def test_a_failure_to_stop_ends_the_main(ring: ShardRing) -> None:
    """It works on what it has lost, perhaps: nothing better can be done than to end it."""

    async def fail(_: Sequence[Shard]) -> None:
        raise OSError("cannot stop")

    async def play() -> None:
        async with ShardClient(ring.url("a"), on_lost=fail) as shards:
            ring.give("a", [1])
            async for owned in shards.changes():
                if owned:
                    break
            ring.give("b", [1])
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(play())
    assert raised.group_contains(OSError, match="cannot stop")


class Enough(Exception):
    """The example runs for as long as it is let."""


def test_the_example_of_the_manual_works_on_what_it_owns(ring: ShardRing) -> None:
    _, example = (
        text
        for _, language, text in fences("docs/how-to/ask-the-elector.md")
        if language == "python"
    )
    uids = {shard: uid_in(shard) for shard in range(4)}
    seen: list[tuple[str, str]] = []

    async def reconcile(uid: str, *, fencing_token: str) -> None:
        seen.append((uid, fencing_token))
        if len(seen) == 3:
            await asyncio.to_thread(ring.give, "b", [1])
        if len(seen) > 3:
            await asyncio.to_thread(wait_for, lambda: bool(ring.released), timeout=5, what="free")
            raise Enough

    async def stop(covers: Callable[[str], bool]) -> None:
        assert [uid for uid in uids.values() if covers(uid)] == [uids[1]]

    names = {"reconcile": reconcile, "stop": stop, "known": uids.values}
    here = example.replace("http://127.0.0.1:4040", ring.url("a")).replace("5.0", "0.5")
    exec(here, names)
    ring.give("a", [0, 1, 3])
    with pytest.raises(Enough):
        asyncio.run(names["main"]())  # type: ignore[operator]
    assert [uid for uid, _ in seen] == [uids[0], uids[1], uids[3], uids[0]]
    assert [it[:2] for it in ring.released] == [("a", 1)]
