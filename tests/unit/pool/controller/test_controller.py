"""The controller of pools, situation by situation, in virtual time."""

import json
from dataclasses import replace

import pytest

from pool_sidecar.core.controller.conditions import ADMITTED, NOT_REACHABLE
from pool_sidecar.core.controller.node_state import KEEP_PODS, NodeState
from pool_sidecar.core.controller.pool_controller import LONGEST_REST, REST_AFTER_FAILURE
from pool_sidecar.core.controller.taints import MaxDead, TaintPolicy
from pool_sidecar.core.pool_member import PeerVerdict, Verdict
from tests.unit.pool.controller.samples import POOL, silent
from tests.unit.pool.controller.world import World, pool_of

FIVE = ("n1", "n2", "n3", "n4", "n5")


@pytest.fixture
def world() -> World:
    world = World()
    pool_of(world, POOL, *FIVE)
    return world


def _all_say(world: World, *voters: str, of: str = "n5", seconds: int = 40) -> None:
    for name in voters:
        world.report(name, silent(of, seconds))


def _dead(world: World) -> set[str]:
    assert world.violations == []
    return {it.name for it in world.nodes.values() if it.is_dead}


# ── dead ──


def test_a_node_that_the_cloud_and_its_pool_have_lost_is_dead(world: World) -> None:
    world.set_ready("n5", "Unknown")
    _all_say(world, "n1", "n2", "n3")
    world.run(12)
    assert _dead(world) == {"n5"}
    assert world.members["n5"].is_dead


def test_members_that_do_not_report_count_against_it(world: World) -> None:
    """Not "more than half of those that report": two of two would be all."""
    world.set_ready("n5", "Unknown")
    _all_say(world, "n1", "n2")
    assert all(world.members[it].status.report is None for it in ("n3", "n4"))
    world.run(12)
    assert _dead(world) == set()
    _all_say(world, "n1", "n2", "n3")
    world.run(2)
    assert _dead(world) == {"n5"}


def test_members_that_are_not_ready_have_no_vote_and_do_not_count(world: World) -> None:
    for name in ("n3", "n4"):
        world.set_ready(name, "False")
    world.set_ready("n5", "Unknown")
    _all_say(world, "n1", "n3", "n4")
    world.run(12)
    assert _dead(world) == set()
    _all_say(world, "n1", "n2")
    world.run(2)
    assert _dead(world) == {"n5"}


def test_a_node_that_the_cloud_hears_is_never_dead_whoever_says_so(world: World) -> None:
    for ready in ("True", "False"):
        world.set_ready("n5", ready)
        _all_say(world, "n1", "n2", "n3", "n4", seconds=900)
        world.run(12)
        assert _dead(world) == set()


def test_a_node_that_was_never_heard_by_the_cloud_is_not_dead(world: World) -> None:
    world.put_node(
        replace(world.nodes["n5"], ready="Unknown", ready_reason="NodeStatusNeverUpdated")
    )
    _all_say(world, "n1", "n2", "n3", "n4")
    world.run(12)
    assert _dead(world) == set()


@pytest.mark.parametrize(
    ("verdict", "seconds", "is_dead"),
    [
        (Verdict.SILENT, 39, False),
        (Verdict.SILENT, 40, True),
        (Verdict.DEGRADED, 299, False),
        (Verdict.DEGRADED, 300, True),
        (Verdict.NEVER_HEARD, 9000, False),
    ],
)
def test_how_long_it_must_have_been_so(
    world: World, verdict: Verdict, seconds: int, is_dead: bool
) -> None:
    world.set_ready("n5", "Unknown")
    for name in FIVE[:4]:
        world.report(name, PeerVerdict("n5", verdict, seconds))
    world.run(12)
    assert _dead(world) == ({"n5"} if is_dead else set())


def test_a_node_that_no_member_has_heard_since_it_is_ready_is_kept(world: World) -> None:
    """Its host came back with port 10555 closed; then its link is cut."""
    world.set_ready("n5", "Unknown")
    world.run(30)
    world.set_ready("n5", "True")
    world.run(600)
    world.set_ready("n5", "Unknown")
    for second in range(0, 60, 10):
        _all_say(world, "n1", "n2", "n3", "n4", seconds=630 + second)
        world.run(10)
    assert _dead(world) == set()


def test_a_node_that_was_heard_since_it_is_ready_is_dead_when_it_falls_silent(world: World) -> None:
    world.set_ready("n5", "Unknown")
    world.run(30)
    world.set_ready("n5", "True")
    world.run(600)
    world.set_ready("n5", "Unknown")
    _all_say(world, "n1", "n2", "n3", seconds=590)
    world.run(12)
    assert _dead(world) == {"n5"}


def test_a_third_of_the_pool_must_be_ready(world: World) -> None:
    """The site has the trouble, not the node."""
    for name in ("n2", "n3", "n4", "n5"):
        world.set_ready(name, "Unknown")
    _all_say(world, "n1", of="n5")
    world.run(12)
    assert _dead(world) == set()
    world.set_ready("n2", "True")
    world.run(30)
    _all_say(world, "n1", "n2", of="n5")
    world.run(2)
    assert _dead(world) == {"n5"}


def test_a_pool_that_is_cut_as_a_whole_keeps_all_and_says_so(world: World) -> None:
    for name in FIVE:
        world.set_ready(name, "Unknown")
    world.run(70)
    plan = world.controller.plan(world.now)
    assert _dead(world) == set()
    assert {it.node.name for it in plan.undecided} == set(FIVE)
    assert {it.why for it in plan.undecided} == {"only 0 of 5 members of the pool are Ready"}


def test_it_does_not_say_that_it_cannot_tell_before_a_dead_node_is_judged(world: World) -> None:
    world.set_ready("n5", "Unknown")
    world.run(50)
    assert world.controller.plan(world.now).undecided == ()
    world.run(15)
    assert [it.node.name for it in world.controller.plan(world.now).undecided] == ["n5"]


def test_in_a_pool_of_two_the_survivor_alone_decides_and_in_one_of_one_none() -> None:
    world = World()
    pool_of(world, "two", "a", "b")
    pool_of(world, "one", "c")
    for name in ("b", "c"):
        world.set_ready(name, "Unknown")
    world.report("a", silent("b"), silent("c"))
    world.run(12)
    assert _dead(world) == {"b"}


def test_votes_of_another_pool_do_not_count(world: World) -> None:
    pool_of(world, "other", "o1", "o2", "o3", "o4")
    world.set_ready("n5", "Unknown")
    _all_say(world, "o1", "o2", "o3", "o4")
    world.run(12)
    assert _dead(world) == set()


def test_nothing_is_fresh_after_a_start_until_it_is_seen_to_change(world: World) -> None:
    world.set_ready("n5", "Unknown")
    _all_say(world, "n1", "n2", "n3", "n4")
    world.begin()
    world.run(120)
    assert _dead(world) == set()
    _all_say(world, "n1", "n2", "n3")
    world.run(1)
    assert _dead(world) == {"n5"}


def test_a_report_that_no_longer_changes_is_no_vote(world: World) -> None:
    _all_say(world, "n1", "n2", "n3", "n4")
    world.run(31)
    world.set_ready("n5", "Unknown")
    world.run(60)
    assert _dead(world) == set()


@pytest.mark.parametrize("every", [10, 60])
@pytest.mark.parametrize("grace", [8, 15, 44, 78])
def test_n3_votes_on_a_node_that_spoke_do_not_outlive_a_cut_of_the_whole_site(
    world: World, every: int, grace: int
) -> None:
    """The LAN of n5 was down for minutes, its own link was not; then all links go."""
    for second in range(0, 600, every):
        for name in FIVE[:4]:
            world.report(name, silent("n5", second), every=every)
        world.run(every)
    world.run(grace)
    for name in ("n5", "n1", "n2", "n3", "n4"):
        world.set_ready(name, "Unknown")
        world.run(2)
    world.run(300)
    assert _dead(world) == set()


def test_n3_a_vote_is_thirty_seconds_old_at_most_whatever_it_says_itself(world: World) -> None:
    world.set_ready("n5", "Unknown")
    for name in ("n1", "n2"):
        world.report(name, silent("n5"), every=60)
    world.run(31)
    world.report("n3", silent("n5"), every=60)
    world.run(20)
    assert _dead(world) == set()


def test_n3_who_comes_back_from_a_cut_of_the_site_bears_no_witness_yet(world: World) -> None:
    """The member of n5 was gone for minutes; n5 itself comes back a few seconds after the rest."""

    def cut_for_a_minute() -> None:
        for name in ("n5", "n1", "n2", "n3", "n4"):
            world.set_ready(name, "Unknown")
        world.run(60)
        for name in FIVE[:4]:
            world.set_ready(name, "True")

    cut_for_a_minute()
    for second in (0, 10, 20):
        for name in FIVE[:4]:
            world.report(name, PeerVerdict("n5", Verdict.DEGRADED, 400 + second))
        world.run(9)
    assert _dead(world) == set()
    world.set_ready("n5", "True")
    cut_for_a_minute()
    world.run(29)
    _all_say(world, *FIVE[:4])
    world.run(2)
    assert _dead(world) == {"n5"}


def test_n3_a_vote_on_a_loss_that_is_over_does_not_count_for_the_next_one(world: World) -> None:
    world.set_ready("n5", "Unknown")
    for name in ("n1", "n2", "n3"):
        world.report(name, silent("n5", 39))
    world.break_watch()
    world.set_ready("n5", "True")
    world.run(2)
    world.set_ready("n5", "Unknown")
    world.mend_watch()
    world.run(20)
    assert _dead(world) == set()


def test_the_pool_is_told_of_each_node_that_the_api_loses_until_it_is_heard_again(
    world: World,
) -> None:
    for _ in range(3):
        world.set_ready("n5", "Unknown")
        world.run(2)
        assert [it.name for it in world.members.values() if it.is_lost] == ["n5"]
        world.set_ready("n5", "True")
        world.run(2)
        assert not any(it.is_lost for it in world.members.values())


def test_a_crd_that_does_not_keep_the_loss_is_not_written_to_each_second(world: World) -> None:
    world.set_ready("n5", "Unknown")
    told = 0
    for _ in range(600):
        world.now += 1
        for command in world.controller.plan(world.now).commands:
            told += 1
            world.put_member(replace(world.members["n5"], is_lost=False))
            world.controller.performed(command)
    assert 0 < told <= 11


def test_a_node_that_the_api_loses_after_minutes_of_silence_is_dead_by_the_next_reports(
    world: World,
) -> None:
    for second in range(0, 600, 60):
        for name in FIVE[:4]:
            world.report(name, silent("n5", second), every=60)
        world.run(60)
    world.set_ready("n5", "Unknown")
    world.run(5)
    assert _dead(world) == set()
    _all_say(world, "n1", "n2", "n3", seconds=605)
    world.run(1)
    assert _dead(world) == {"n5"}


def test_a_report_that_came_with_a_list_may_be_of_any_age(world: World) -> None:
    world.set_ready("n5", "Unknown")
    world.break_watch()
    _all_say(world, "n1", "n2", "n3", "n4")
    world.run(20)
    world.mend_watch()
    world.run(60)
    assert _dead(world) == set()


def test_what_is_read_after_standing_still_is_no_change(world: World) -> None:
    world.set_ready("n5", "Unknown")
    world.freeze(60)
    # Of the time before: they wait in the watch.
    _all_say(world, "n1", "n2", "n3", "n4")
    world.told.clear()
    world.run(60)
    assert _dead(world) == set()


def test_one_node_of_a_pool_each_ten_seconds(world: World) -> None:
    world.controller = world.make(TaintPolicy(max_dead=MaxDead(None, 3)), world.now)
    world.policy = TaintPolicy(max_dead=MaxDead(None, 3))
    world.begin()
    world.run(1)
    for name in ("n4", "n5"):
        world.set_ready(name, "Unknown")
    for _ in range(4):
        for name in ("n1", "n2", "n3"):
            world.report(name, silent("n4"), silent("n5"))
        world.run(5)
    assert _dead(world) == {"n4", "n5"}
    first, second = (at for at, _, _ in world.marks)
    assert second - first >= 10


def test_the_mark_of_another_controller_counts_for_the_pace(world: World) -> None:
    world.policy = TaintPolicy(max_dead=MaxDead(None, 3))
    world.begin()
    world.run(20)
    for name in ("n4", "n5"):
        world.set_ready(name, "Unknown")
    marked = world.nodes["n4"]
    world.put_node(replace(marked, taints=marked.with_taints(dead=True, cut=False)))
    for name in ("n1", "n2", "n3"):
        world.report(name, silent("n4"), silent("n5"))
    world.run(9)
    assert _dead(world) == {"n4"}
    world.run(3)
    assert _dead(world) == {"n4", "n5"}


def test_no_mark_is_made_that_the_nodes_as_they_are_now_do_not_confirm(world: World) -> None:
    """The watch is behind: those that voted are not Ready any more."""
    world.set_ready("n5", "Unknown")
    _all_say(world, "n1", "n2", "n3")
    world.break_watch()
    for name in ("n2", "n3"):
        world.set_ready(name, "False")
    world.run(12)
    assert _dead(world) == set()


def test_no_more_than_a_third_is_dead_at_once_and_the_next_cannot_be_told(world: World) -> None:
    for name in ("n4", "n5"):
        world.set_ready(name, "Unknown")
    for _ in range(6):
        for name in ("n1", "n2", "n3"):
            world.report(name, silent("n4"), silent("n5"))
        world.run(5)
    assert len(_dead(world)) == 1
    (undecided,) = world.controller.plan(world.now).undecided
    assert undecided.is_limit
    assert undecided.why == "1 of the pool are dead already, which --max-dead allows"


@pytest.mark.parametrize(
    ("limit", "size", "allowed"),
    [
        (MaxDead(), 1, 1),
        (MaxDead(), 5, 1),
        (MaxDead(), 6, 2),
        (MaxDead(), 64, 21),
        (MaxDead(None, 5), 64, 5),
    ],
)
def test_how_many_may_be_dead_at_once(limit: MaxDead, size: int, allowed: int) -> None:
    assert limit.of(size) == allowed


@pytest.mark.parametrize("ready", ["True", "False", ""])
def test_dead_goes_as_soon_as_ready_is_not_unknown(world: World, ready: str) -> None:
    world.set_ready("n5", "Unknown")
    _all_say(world, "n1", "n2", "n3")
    world.run(12)
    assert _dead(world) == {"n5"}
    world.set_ready("n5", ready)
    world.look()
    assert _dead(world) == set()
    world.look()
    assert not world.members["n5"].is_dead


def test_a_node_that_has_spoken_since_it_was_judged_is_judged_again(world: World) -> None:
    world.set_ready("n5", "Unknown")
    _all_say(world, "n1", "n2", "n3")
    world.break_watch()
    world.set_ready("n5", "True")
    world.run(20)
    assert _dead(world) == set()
    world.mend_watch()
    world.run(20)
    assert _dead(world) == set()


def test_a_controller_that_restarts_forgets_nothing_and_leaves_nothing_behind(
    world: World,
) -> None:
    world.set_ready("n5", "Unknown")
    _all_say(world, "n1", "n2", "n3")
    world.run(12)
    world.begin()
    world.run(300)
    assert _dead(world) == {"n5"}
    world.set_ready("n5", "True")
    world.begin()
    world.run(2)
    assert _dead(world) == set()


@pytest.mark.parametrize("fate", ["conflict", "not sent", "lost"])
def test_a_write_that_fails_is_made_again(world: World, fate: str) -> None:
    world.set_ready("n5", "Unknown")
    world.fate = fate
    for _ in range(4):
        _all_say(world, "n1", "n2", "n3")
        world.run(5)
    world.fate = "ok"
    for _ in range(4):
        _all_say(world, "n1", "n2", "n3")
        world.run(5)
    assert _dead(world) == {"n5"}


@pytest.mark.parametrize("is_seen_first", [True, False])
def test_a_write_that_another_one_forestalled_is_judged_again_at_once(
    world: World, is_seen_first: bool
) -> None:
    """kube-controller-manager patches each node that it loses; its patch and ours meet."""
    world.set_ready("n5", "Unknown")
    world.run(12)
    _all_say(world, "n1", "n2", "n3")
    world.controller.looked(world.now)
    (command,) = world.controller.plan(world.now).commands
    world.is_watching = is_seen_first
    world.put_node(world.nodes["n5"])
    world.controller.failed(command, world.now, is_conflict=True, is_lost=False)
    if not is_seen_first:
        world.is_watching = True
        world.controller.node_observed(world.nodes["n5"], world.now)
    world.look()
    assert _dead(world) == {"n5"}


def test_a_conflict_costs_a_second_and_not_the_turn_of_the_pool(world: World) -> None:
    world.set_ready("n5", "Unknown")
    world.run(12)
    world.fate = "conflict"
    _all_say(world, "n1", "n2", "n3")
    world.run(1)
    world.fate = "ok"
    world.run(2)
    assert _dead(world) == {"n5"}


def test_an_api_server_that_refuses_everything_is_asked_ever_less_often(world: World) -> None:
    world.move("n5", "")
    tries = 0
    for _ in range(600):
        world.now += 1
        for command in world.controller.plan(world.now).commands:
            world.controller.failed(command, world.now, is_conflict=False, is_lost=False)
            tries += 1
    assert 0 < tries <= 600 / LONGEST_REST + 4


def test_a_taint_that_is_to_go_is_tried_again_soon_however_often_it_failed(world: World) -> None:
    world.set_ready("n5", "Unknown")
    _all_say(world, "n1", "n2", "n3")
    world.run(12)
    world.fate = "not sent"
    world.set_ready("n5", "True")
    world.run(300)
    world.fate = "ok"
    world.run(REST_AFTER_FAILURE + 1)
    assert _dead(world) == set()


def test_a_node_that_another_controller_has_just_marked_counts(world: World) -> None:
    """It led before: what it wrote last has not come by the watch yet."""
    for name in ("n5", "n4"):
        world.set_ready(name, "Unknown")
        world.run(12)
    world.break_watch()
    marked = world.nodes["n4"]
    world.put_node(replace(marked, taints=marked.with_taints(dead=True, cut=False)))
    world.is_watching = True
    for _ in range(4):
        for name in ("n1", "n2", "n3"):
            world.report(name, silent("n5"), silent("n4"))
        world.run(5)
    assert _dead(world) == {"n4"}


def test_an_answer_does_not_bring_back_a_node_that_is_gone(world: World) -> None:
    gone = world.nodes["n5"]
    world.remove_node("n5")
    world.run(2)
    world.controller.node_answered(gone, world.now)
    world.run(2)
    assert world.controller.node("n5") is None
    assert world.controller.plan(world.now).commands == ()


# ── cut ──


def test_a_node_that_borrows_its_link_gets_no_pods_after_forty_seconds(world: World) -> None:
    seen = []
    for link, seconds in (("False", 39), ("False", 3), ("True", 1)):
        if world.nodes["n5"].cloud_link != link:
            world.set_link("n5", link)
        world.run(seconds)
        seen.append(world.nodes["n5"].is_cut)
    assert seen == [False, True, False]


def test_cut_goes_with_the_condition_and_stays_while_it_is_unknown(world: World) -> None:
    world.set_link("n5", "False")
    world.run(45)
    world.set_link("n5", "Unknown")
    world.run(5)
    assert world.nodes["n5"].is_cut
    world.set_link("n5", "")
    world.run(1)
    assert not world.nodes["n5"].is_cut


def test_without_taints_for_it_none_comes_and_those_that_are_there_go(world: World) -> None:
    world.set_link("n5", "False")
    world.run(45)
    assert world.nodes["n5"].is_cut
    world.policy = TaintPolicy(taints_cut=False)
    world.begin()
    world.run(60)
    assert not world.nodes["n5"].is_cut


def test_foreign_taints_are_kept_as_they_are(world: World) -> None:
    foreign = {"key": "example.com/x", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
    world.put_node(replace(world.nodes["n5"], taints=(foreign,)))
    world.set_ready("n5", "Unknown")
    _all_say(world, "n1", "n2", "n3")
    world.run(12)
    assert _dead(world) == {"n5"}
    world.set_ready("n5", "True")
    world.run(1)
    assert world.nodes["n5"].taints == (foreign,)


# ── the annotation of a node ──


def test_a_node_whose_annotation_keeps_its_pods_has_neither_taint_whoever_says_so(
    world: World,
) -> None:
    world.keep_pods("n5", keeps=True)
    world.set_link("n5", "False")
    world.set_ready("n5", "Unknown")
    for _ in range(20):
        _all_say(world, "n1", "n2", "n3", "n4", seconds=4000)
        world.run(10)
        assert world.nodes["n5"].taints == ()
    (undecided,) = world.controller.plan(world.now).undecided
    assert undecided.is_wanted
    assert undecided.why == (
        "its annotation pool.edge-sidecars.io/keep-pods says so; its pool says that it is gone"
    )
    # Nobody waits for votes on it, and the alert CannotTell is not about it.
    assert not world.members["n5"].is_lost
    (count,) = world.controller.counts(world.now)
    assert (count.keeping, count.undecided) == (("n5",), ())


def test_a_node_that_is_kept_takes_no_other_ones_turn_or_place(world: World) -> None:
    world.keep_pods("n5", keeps=True)
    for name in ("n5", "n4"):
        world.set_ready(name, "Unknown")
        world.run(1)
    for _ in range(2):
        for voter in ("n1", "n2", "n3"):
            world.report(voter, silent("n4"), silent("n5"))
        world.run(6)
    assert _dead(world) == {"n4"}


def test_with_the_annotation_the_taints_go_and_without_it_they_come(world: World) -> None:
    world.set_ready("n5", "Unknown")
    _all_say(world, "n1", "n2", "n3")
    world.run(12)
    assert _dead(world) == {"n5"}
    world.keep_pods("n5", keeps=True)
    world.run(2)
    assert _dead(world) == set()
    assert not world.members["n5"].is_dead
    world.keep_pods("n5", keeps=False)
    world.run(2)
    # What asks for votes.
    assert world.members["n5"].is_lost
    _all_say(world, "n1", "n2", "n3")
    world.run(12)
    assert _dead(world) == {"n5"}


@pytest.mark.parametrize(
    ("annotations", "keeps"),
    [
        ({}, False),
        ({KEEP_PODS: "false"}, False),
        ({KEEP_PODS: "true"}, True),
        ({KEEP_PODS: ""}, True),
    ],
)
def test_any_value_of_the_annotation_but_false_keeps(
    annotations: dict[str, str], keeps: bool
) -> None:
    document = {"metadata": {"name": "n", "resourceVersion": "1", "annotations": annotations}}
    assert NodeState.parse(json.dumps(document).encode()).keeps_pods is keeps


# ── members ──


def test_a_node_with_the_label_has_a_member_and_without_it_none(world: World) -> None:
    assert {it.pool for it in world.members.values()} == {POOL}
    world.move("n5", "")
    world.run(1)
    assert set(world.members) == set(FIVE[:4])


def test_with_the_label_both_taints_go(world: World) -> None:
    world.set_link("n5", "False")
    world.run(45)
    world.set_ready("n5", "Unknown")
    _all_say(world, "n1", "n2", "n3")
    world.run(2)
    assert (world.nodes["n5"].is_dead, world.nodes["n5"].is_cut) == (True, True)
    world.move("n5", "")
    world.run(2)
    assert world.nodes["n5"].taints == ()
    assert "n5" not in world.members


def test_a_node_that_moves_is_a_new_member_about_which_nothing_was_said(world: World) -> None:
    pool_of(world, "other", "o1", "o2")
    world.set_ready("n5", "Unknown")
    _all_say(world, "n1", "n2", "n3")
    world.run(12)
    before = world.members["n5"].uid
    assert _dead(world) == {"n5"}
    world.move("n5", "other")
    world.run(12)
    assert _dead(world) == set()
    member = world.members["n5"]
    assert (member.pool, member.is_dead, member.uid == before) == ("other", False, False)


def test_a_node_of_the_same_name_is_another_one(world: World) -> None:
    before = world.members["n5"].uid
    world.put_node(replace(world.nodes["n5"], uid="another"))
    world.run(2)
    assert world.members["n5"].owner == "another"
    assert world.members["n5"].uid != before


def test_a_member_without_a_node_goes(world: World) -> None:
    world.nodes.pop("n5")
    world.controller.node_deleted("n5")
    world.run(1)
    assert "n5" not in world.members


def test_the_65th_finds_no_place_until_one_leaves() -> None:
    world = World()
    names = [f"n{number:03}" for number in range(65)]
    pool_of(world, POOL, *names)
    world.run(3)
    members = world.members
    assert sum(it.pool == POOL for it in members.values()) == 64
    (outside,) = (it for it in members.values() if it.pool != POOL)
    assert outside.name == "n064"
    assert [(it.type, it.status) for it in outside.conditions] == [(ADMITTED, "False")]
    # Who is a member stays one.
    world.add_node("a000", POOL)
    world.run(3)
    assert {it.name for it in members.values() if it.pool != POOL} == {"n064", "a000"}
    world.remove_node("n000")
    world.run(3)
    assert {it.name for it in members.values() if it.pool != POOL} == {"n064"}
    world.remove_node("n001")
    world.run(3)
    assert (members["n064"].pool, members["n064"].conditions) == (POOL, ())


def test_a_node_without_a_place_has_neither_vote_nor_verdict() -> None:
    world = World()
    names = [f"n{number:03}" for number in range(65)]
    pool_of(world, POOL, *names)
    world.run(3)
    world.set_ready("n064", "Unknown")
    for name in names[:64]:
        world.report(name, silent("n064"))
    world.run(15)
    assert _dead(world) == set()


@pytest.mark.parametrize("name", ["Upper", "a.b", "-a", "a_b", "x" * 64])
def test_a_name_that_is_none_makes_no_member_and_is_told(name: str) -> None:
    world = World()
    world.add_node("n1", name)
    plan = world.controller.plan(world.now)
    assert [it.name for it in plan.bad_names] == ["n1"]
    assert (plan.commands, world.members) == ((), {})


def test_may_lead_follows_the_node(world: World) -> None:
    world.put_node(replace(world.nodes["n1"], may_lead=True))
    world.run(1)
    assert world.members["n1"].may_lead
    world.put_node(replace(world.nodes["n1"], may_lead=False))
    world.run(1)
    assert not world.members["n1"].may_lead


def test_a_node_that_peers_never_heard_is_told_and_kept(world: World) -> None:
    for name in FIVE[:4]:
        world.report(name, PeerVerdict("n5", Verdict.NEVER_HEARD, 60))
    world.run(2)
    (condition,) = world.members["n5"].conditions
    assert (condition.type, condition.status) == (NOT_REACHABLE, "True")
    assert condition.message.startswith("n1, n2, n3 and 1 more have never heard this node")
    world.set_ready("n5", "Unknown")
    world.run(60)
    assert _dead(world) == set()
    for name in FIVE[:4]:
        world.report(name)
    world.run(2)
    assert world.members["n5"].conditions == ()


def test_nothing_is_done_before_both_collections_were_listed() -> None:
    world = World()
    controller = world.make(TaintPolicy(), world.now)
    controller.nodes_listed(world.nodes.values(), world.now)
    assert controller.missing == ("poolmembers",)
    assert controller.plan(world.now).commands == ()


def test_it_is_quiet_when_all_is_well(world: World) -> None:
    world.run(5)
    versions = {it.name: it.resource_version for it in world.members.values()}
    world.run(600)
    assert {it.name: it.resource_version for it in world.members.values()} == versions
    assert world.controller.plan(world.now).commands == ()


# ── members that have just started ──


def test_n3_who_heard_a_node_before_its_start_bears_witness_that_it_is_gone(world: World) -> None:
    world.set_ready("n5", "Unknown")
    world.run(200)
    for name in FIVE[:3]:
        world.report(name, PeerVerdict("n5", Verdict.SILENT, 41, 230))
    world.run(1)
    assert _dead(world) == {"n5"}


def test_n3_who_heard_a_node_before_it_became_ready_last_has_no_vote(world: World) -> None:
    """It came back with its port closed, then the members were started again."""
    world.set_ready("n5", "Unknown")
    world.run(30)
    world.set_ready("n5", "True")
    world.run(300)
    world.set_ready("n5", "Unknown")
    for second in range(0, 60, 10):
        for name in FIVE[:4]:
            world.report(name, PeerVerdict("n5", Verdict.SILENT, 41 + second, 360 + second))
        world.run(10)
    assert _dead(world) == set()
