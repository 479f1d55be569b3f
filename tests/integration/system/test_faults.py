"""One fault at a time, in each mode: who takes over, what waits, what is the same afterwards."""

import time
from contextlib import ExitStack

import pytest

from tests.integration.system.gm_cluster import HEALING, GmCluster
from tools.harness.pods.edge_node import RELAY
from tools.harness.system import faults
from tools.harness.system.ordeal import Ordeal

pytestmark = pytest.mark.long

OBJECTS = 24
# Of a short play of the nemesis (`make nemesis-gm` is the long one); its seed is fixed.
SECONDS, SEED = 20.0, 1
# Fewer would prove nothing.
ENOUGH_FAULTS = 5


def test_a_leader_killed_while_children_are_made_leaves_none_missing_and_none_twice(
    cluster: GmCluster,
) -> None:
    cluster.workload.begin(OBJECTS)
    with faults.gm_pod_killed(cluster.leader):
        cluster.workload.begin(2 * OBJECTS)
    cluster.settled()


def test_a_leader_that_stood_still_finds_its_work_done_and_leaves_it_so(cluster: GmCluster) -> None:
    old = cluster.leader
    others = [pod for pod in cluster.system.gms if pod is not old]
    with faults.gm_pod_frozen(old):
        for _ in range(6):
            cluster.workload.deed()
        cluster.system.until(lambda: GmCluster.leader_among(others), what="another leader")
    cluster.settled()


def test_after_a_graceful_stop_lcs_are_served_by_another_gm_at_once(cluster: GmCluster) -> None:
    if cluster.system.mode == RELAY:
        pytest.skip("LCs talk to no GM")
    leader = cluster.leader
    others = [pod for pod in cluster.system.gms if pod is not leader]
    with faults.gm_pod_stopped(leader):
        for edge in cluster.system.edges.values():
            edge.lc.until(lambda status: status["link"]["isUp"])
        found = [it for pod in others for it in pod.gm.status()["nodes"] if it["isServing"]]
        assert {it["node"] for it in found} == {it.name for it in cluster.system.edges.values()}
    cluster.settled()


def test_an_lc_restarted_while_cut_takes_what_workers_say_and_tells_it_when_healed(
    cluster: GmCluster,
) -> None:
    edge = cluster.system.edges["edge-a"]
    cluster.settled()
    known = edge.lc.ask("/sedna/objects").json()["objects"]
    with faults.lc_restarted_while_cut(cluster.system, edge):
        edge.lc.wait_ready()
        has = edge.lc.ask("/sedna/objects").json()["objects"]
        assert [it["uid"] for it in has] == [it["uid"] for it in known]
        lines = cluster.workload.append_on("edge-a")
        waiting = edge.lc.until(lambda status: status["reports"]["waiting"])
        assert not waiting["link"]["isUp"]
        assert lines
    cluster.settled()


def test_what_was_deleted_and_made_anew_while_an_lc_was_cut_is_so_when_it_is_back(
    cluster: GmCluster,
) -> None:
    edge = cluster.system.edges["edge-a"]
    with faults.edge_cut(cluster.system, edge):
        for _ in range(20):
            cluster.workload.deed()
        time.sleep(1.0)
    cluster.settled()


def test_words_that_lc_took_while_no_gm_was_there_arrive(cluster: GmCluster) -> None:
    with ExitStack() as stack:
        for pod in cluster.system.gms:
            stack.enter_context(faults.gm_pod_killed(pod))
        taken = cluster.workers.taken
        cluster.system.until(lambda: cluster.workers.taken > taken + 3, what="workers are answered")
    cluster.settled()


@pytest.mark.slow
def test_random_faults_double_nothing_and_lose_nothing(cluster: GmCluster) -> None:
    ordeal = Ordeal(
        cluster.system, cluster.workers, cluster.workload, seed=SEED, say=print, healing=HEALING
    )
    outcome = ordeal.run(SECONDS)
    print(outcome)
    assert not outcome.findings
    assert outcome.settled_in is not None
    assert outcome.faults.total() >= ENOUGH_FAULTS
