"""One fault at a time, in each mode: who takes over, what waits, what is the same afterwards."""

import time

import pytest

from tools.harness.pods.edge_node import RELAY
from tools.harness.system import faults
from tools.harness.system.gm_cluster import HEALING, Town
from tools.harness.system.ordeal import Ordeal

OBJECTS = 24
# Of a short play of the nemesis (`make nemesis-gm` is the long one); its seed is fixed.
SECONDS, SEED = 20.0, 1
# Fewer would prove nothing.
ENOUGH_FAULTS = 5


def test_a_leader_killed_while_children_are_made_leaves_none_missing_and_none_twice(
    town: Town,
) -> None:
    town.workload.begin(OBJECTS)
    with faults.gm_pod_killed(town.leader):
        town.workload.begin(2 * OBJECTS)
    town.settled()


def test_a_leader_that_stood_still_finds_its_work_done_and_leaves_it_so(town: Town) -> None:
    old = town.leader
    others = [pod for pod in town.system.gms if pod is not old]
    with faults.gm_pod_frozen(old):
        for _ in range(6):
            town.workload.deed()
        town.system.until(lambda: Town.leader_among(others), what="another leader")
    town.settled()


def test_after_a_graceful_stop_lcs_are_served_by_another_gm_at_once(town: Town) -> None:
    if town.system.mode == RELAY:
        pytest.skip("LCs talk to no GM")
    leader = town.leader
    others = [pod for pod in town.system.gms if pod is not leader]
    with faults.gm_pod_stopped(leader):
        for edge in town.system.edges.values():
            edge.lc.until(lambda status: status["link"]["isUp"])
        found = [it for pod in others for it in pod.gm.status()["nodes"] if it["isServing"]]
        assert {it["node"] for it in found} == {it.name for it in town.system.edges.values()}
    town.settled()


def test_an_lc_restarted_while_cut_takes_what_workers_say_and_tells_it_when_healed(
    town: Town,
) -> None:
    edge = town.system.edges["edge-a"]
    town.settled()
    known = edge.lc.ask("/sedna/objects").json()["objects"]
    with faults.lc_restarted_while_cut(town.system, edge):
        edge.lc.wait_ready()
        has = edge.lc.ask("/sedna/objects").json()["objects"]
        assert [it["uid"] for it in has] == [it["uid"] for it in known]
        lines = town.workload.append_on("edge-a")
        waiting = edge.lc.until(lambda status: status["reports"]["waiting"])
        assert not waiting["link"]["isUp"]
        assert lines
    town.settled()


def test_what_was_deleted_and_made_anew_while_an_lc_was_cut_is_so_when_it_is_back(
    town: Town,
) -> None:
    edge = town.system.edges["edge-a"]
    with faults.edge_cut(town.system, edge):
        for _ in range(20):
            town.workload.deed()
        time.sleep(1.0)
    town.settled()


def test_words_that_lc_took_while_no_gm_was_there_arrive(town: Town) -> None:
    for pod in town.system.gms:
        pod.kill()
    taken = town.workers.taken
    town.system.until(lambda: town.workers.taken > taken + 3, what="workers are answered")
    for pod in town.system.gms:
        pod.restart()
    town.settled()


@pytest.mark.slow
def test_random_faults_double_nothing_and_lose_nothing(town: Town) -> None:
    ordeal = Ordeal(town.system, town.workers, town.workload, seed=SEED, say=print, healing=HEALING)
    outcome = ordeal.run(SECONDS)
    print(outcome)
    assert not outcome.findings
    assert outcome.settled_in is not None
    assert outcome.faults.total() >= ENOUGH_FAULTS
