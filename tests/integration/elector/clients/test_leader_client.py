"""`LeaderClient`, as a main in Python uses it, beside real electors."""

import asyncio

import pytest

from edge_sidecars.leader_client import LeaderClient
from tests.unit.repository.checkout import fences
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import FAST_DURATION, Fleet


def client(pod: ElectorPod) -> LeaderClient:
    return LeaderClient(f"http://127.0.0.1:{pod.port}", request_timeout=0.5)


def test_the_client_of_each_pod_says_what_its_elector_says(fleet: Fleet) -> None:
    leader, [other] = fleet.elect(2)

    async def compare() -> None:
        async with client(leader) as leads, client(other) as follows:
            await leads.wait_for(is_leader=True)
            assert leads.holder == leader.name
            assert leads.may_act()
            assert leads.may_act(within=0.1)
            assert not leads.may_act(within=FAST_DURATION)
            assert leads.term == leader.leader()["fencingToken"]
            assert 0 < leads.remaining < FAST_DURATION
            assert (follows.is_leader, follows.may_act(), follows.term) == (False, False, None)

    asyncio.run(compare())


def test_the_lead_ends_by_the_clock_when_the_elector_freezes_and_comes_back(fleet: Fleet) -> None:
    leader, _ = fleet.elect(1)

    async def freeze() -> None:
        async with client(leader) as leads:
            changes: list[bool] = []
            leads.subscribe(lambda: changes.append(leads.is_leader))
            await leads.wait_for(is_leader=True)
            leader.freeze()
            async with asyncio.timeout(FAST_DURATION):
                await leads.wait_for(is_leader=False)
            assert not leads.may_act(within=0.0)
            leader.thaw()
            async with asyncio.timeout(10):
                await leads.wait_for(is_leader=True)
            assert changes == [True, False, True]
            leads.resign()
            assert not leads.is_leader
            assert changes == [True, False, True, False]

    asyncio.run(freeze())


def test_the_lead_passes_on_when_an_elector_is_killed(fleet: Fleet) -> None:
    leader, [other] = fleet.elect(2)

    async def kill() -> None:
        async with client(leader) as former, client(other) as next_:
            await former.wait_for(is_leader=True)
            first = former.term
            assert first is not None
            await asyncio.to_thread(leader.kill)
            async with asyncio.timeout(10):
                await next_.wait_for(is_leader=True)
            assert not former.is_leader
            assert next_.term is not None
            assert next_.term > first

    asyncio.run(kill())


class Enough(Exception):
    """The example runs for as long as it leads."""


def test_the_example_of_the_manual_works_with_the_token_of_its_term(fleet: Fleet) -> None:
    leader, _ = fleet.elect(1)
    example, _ = (
        text
        for _, language, text in fences("docs/how-to/ask-the-elector.md")
        if language == "python"
    )
    tokens: list[int] = []

    async def reconcile(*, fencing_token: int) -> None:
        tokens.append(fencing_token)
        if len(tokens) == 3:
            raise Enough

    names = {"reconcile": reconcile}
    here = example.replace("127.0.0.1:4040", f"127.0.0.1:{leader.port}").replace("5.0", "0.5")
    exec(here, names)
    with pytest.raises(Enough):
        asyncio.run(names["main"]())  # type: ignore[call-arg]
    assert tokens == [leader.leader()["fencingToken"]] * 3
