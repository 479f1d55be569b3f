"""N1, N2 and N8 of a pool's members, over drawn schedules of faults in virtual time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.unit.pool.core.world import Mutant, World

NODES = ("n0", "n1", "n2", "n3")
names = st.sampled_from(NODES)
pairs = st.tuples(names, names).filter(lambda it: it[0] != it[1])
faults = st.one_of(
    st.tuples(st.just("cut_link"), names),
    st.tuples(st.just("mend_link"), names),
    st.tuples(st.just("cut_lan"), pairs),
    st.tuples(st.just("mend_lan"), pairs),
    st.tuples(st.just("freeze"), st.tuples(names, st.sampled_from((1.0, 3.0, 8.0, 60.0, 600.0)))),
    st.tuples(st.just("kill"), names),
    st.tuples(st.just("mute"), st.just("n3")),
    st.tuples(st.just("set_kubelet"), st.tuples(names, st.booleans())),
    st.tuples(st.just("set_clock"), st.tuples(names, st.sampled_from((-3600.0, 0.0, 3600.0)))),
)
schedules = st.lists(
    st.tuples(faults, st.sampled_from((0.5, 3.0, 10.0, 35.0))), min_size=1, max_size=8
)


def play(world: World, schedule: list[tuple[tuple[str, object], float]]) -> None:
    for (action, target), seconds in schedule:
        arguments = target if isinstance(target, tuple) else (target,)
        getattr(world, action)(*arguments)
        world.run(seconds)
    world.run(60.0)


@settings(max_examples=examples(100))
@given(schedules)
def test_n1_n2_n8_hold_whatever_is_cut_frozen_killed_or_set_wrong(
    schedule: list[tuple[tuple[str, object], float]],
) -> None:
    world = World()
    play(world, schedule)
    assert world.violations == []


def cut_one(mutant: Mutant) -> World:
    world = World(mutant=mutant)
    world.run(30.0)
    world.cut_link("n0")
    return world


def test_n1_a_cut_node_is_renewed_over_a_neighbour_in_time() -> None:
    world = cut_one(Mutant())
    world.run(300.0)
    assert world.violations == []
    assert world.now - world.leases["n0"].grew_at <= 20.0


def test_n1_the_loss_of_the_lender_costs_no_more_than_twenty_seconds() -> None:
    world = cut_one(Mutant())
    world.run(60.0)
    world.kill(world.nodes["n0"].pool.via(world.now))
    for _ in range(200):
        world.run(0.5)
        assert world.now - world.leases["n0"].grew_at <= 20.0
    assert world.violations == []


def test_n1_a_lender_that_is_cut_off_right_after_the_node_costs_no_more_either() -> None:
    """The first look finds the Lease as kubelet left it, and the second one is lost in a lender."""
    world = World()
    play(
        world,
        [
            (("cut_link", "n1"), 35.0),
            (("cut_link", "n0"), 13.0),
            (("cut_link", "n3"), 0.5),
        ],
    )
    assert world.violations == []


@pytest.mark.parametrize("offset", [it / 2 for it in range(20)])
def test_n1_a_lender_that_takes_the_connection_and_is_silent_costs_no_more_either(
    offset: float,
) -> None:
    """Whenever in kubelet's period the link goes."""
    world = World()
    world.run(30.0 + offset)
    first = World()
    first.run(30.0 + offset)
    first.cut_link("n0")
    first.run(10.0)
    world.mute(first.nodes["n0"].pool.via(first.now))
    world.cut_link("n0")
    for _ in range(200):
        world.run(0.5)
        assert world.now - world.leases["n0"].grew_at <= 20.0
    assert world.violations == []


def test_n2_a_dead_node_is_not_renewed_though_its_lender_wakes_late() -> None:
    world = frozen_with_a_heartbeat(Mutant())
    assert world.violations == []


def frozen_with_a_heartbeat(mutant: Mutant) -> World:
    """The lender is frozen with a heartbeat in it, the node dies, and the lender wakes."""
    world = cut_one(mutant)
    while not any(it.buffer for it in world.nodes.values()):
        world.run(0.5)
    lender = next(it for it, node in world.nodes.items() if node.buffer)
    world.freeze(lender, 30.0)
    world.kill("n0")
    world.run(60.0)
    return world


def test_an_observer_notices_a_lender_without_the_five_second_rule() -> None:
    assert frozen_with_a_heartbeat(Mutant(lends_after_a_freeze=True)).violations


def test_an_observer_notices_a_member_that_renews_for_a_peer() -> None:
    world = cut_one(Mutant(renews_for_peers=True))
    world.kill("n1")
    world.run(60.0)
    assert any(it.startswith("N2") for it in world.violations)


def test_an_observer_notices_a_heartbeat_without_kubelet() -> None:
    world = cut_one(Mutant(ignores_kubelet=True))
    world.set_kubelet("n0", False)
    world.run(60.0)
    assert any(it.startswith("N2") for it in world.violations)


def test_an_observer_notices_who_believes_what_it_knew_before_a_freeze() -> None:
    world = World(mutant=Mutant(believes_after_a_freeze=True))
    world.run(30.0)
    world.freeze("n0", 3.0)
    world.run(10.0)
    assert any(it.startswith("N8") for it in world.violations)


def test_an_observer_notices_who_stays_with_a_lender_that_is_gone() -> None:
    world = cut_one(Mutant(keeps_a_silent_lender=True))
    world.run(30.0)
    world.nodes["n0"].pool.borrowing.refused = lambda lender, now: None  # type: ignore[method-assign]
    world.kill(world.nodes["n0"].pool.via(world.now))
    world.run(90.0)
    assert any(it.startswith("N1") for it in world.violations)


@pytest.mark.parametrize("seconds", [2.5, 8.0, 600.0])
def test_n8_whoever_wakes_knows_nothing_and_lends_nothing(seconds: float) -> None:
    world = World()
    world.run(30.0)
    pool = world.nodes["n1"].pool
    assert pool.lends(world.now)
    pool.stood_still()
    now = world.now + seconds
    assert not pool.lends(now)
    assert pool.role(now).value == "Pending"
    assert pool.peers.verdicts(now) == {}
