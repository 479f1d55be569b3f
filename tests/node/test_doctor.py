"""`node doctor` beside what a reboot while cut does, for one broken thing after the other: what it
calls good comes back, what it calls failing does not.
"""

import time
from contextlib import suppress

import pytest

from tests.integration.relay.node.breakages import ALL, Breakage
from tests.node.breaking import BreakingNode
from tests.node.cluster_breakages import OF_CLUSTER, ClusterBreakage
from tools.harness.nodes import workloads
from tools.harness.nodes.cluster import NodeCluster
from tools.harness.nodes.node import Done, Node
from tools.harness.nodes.workloads import PLAIN, RELAYED, PodFacts

# Seconds after which what is not back does not come: a whole node takes 7 to 22.
PATIENCE = 60.0
WORDS = {0: "nothing", 1: "fails", 3: "unknown"}
NAME = "web"


def is_back(cluster: NodeCluster, node: Node, theirs: list[PodFacts]) -> bool:
    """Its pods with all that they were given, rules, names, and the way to another node's pod. Not
    what is on other nodes with a relay, which may be broken themselves."""
    away = workloads.on(cluster.pods(), PLAIN, NAME)
    asked = workloads.Asker(node.address, workloads.IMPATIENT)
    told = [workloads.ask_local(node.name, asked)]
    told += [workloads.ask_pod(pod, asked) for pod in (*theirs, away)]
    # A Service answers by any of its pods.
    named = workloads.fetch(node.address, f"http://{NAME}:{workloads.PORT}/")
    return not any(told) and isinstance(named, dict)


def comes_back(cluster: NodeCluster, node: Node, theirs: list[PodFacts]) -> float | None:
    """Seconds from its power until it is whole; None where that does not come."""
    node.lose_power()
    node.power_on()
    started = time.monotonic()
    while time.monotonic() - started < PATIENCE:
        if is_back(cluster, node, theirs):
            return time.monotonic() - started
        time.sleep(0.5)
    return None


def hold_to_one_another(
    cluster: NodeCluster, name: str, breakage: Breakage | ClusterBreakage
) -> str:
    """Returns what is wrong with doctor's word, or ""."""
    node = cluster.nodes[name]
    theirs = _pods_of(cluster, name)
    breaking, is_cut = BreakingNode(node), False
    try:
        if isinstance(breakage, Breakage):
            breakage.do(breaking)
        else:
            breakage.do(cluster, node, breaking)
            is_cut = breakage.is_cut
        told = heard(cluster, node, breakage.word)
        if not is_cut:
            node.cut()
            is_cut = True
        took = comes_back(cluster, node, theirs)
    finally:
        breaking.put_back()
        node.lose_power()
        node.power_on()
        if is_cut:
            node.heal()
        if isinstance(breakage, ClusterBreakage):
            answers = ("ctr", "-n=k8s.io", "version")
            cluster.until(lambda: node.run(*answers).status == 0, what="containerd answers")
            breakage.undo(cluster, node)
        # By now its pods may have other addresses.
        cluster.until(
            lambda: is_back(cluster, node, _pods_of(cluster, name)), what=f"{name} is whole again"
        )
        cluster.until(lambda: name in cluster.ready(), what=f"{name} is Ready again")
        cluster.until_doctor_finds_nothing(name)
    came = "did not come back" if took is None else f"came back after {took:.1f} s"
    said = f"{breakage.name}: {came}; doctor (status {told.status}):\n{told.output}"
    print(said)
    if WORDS.get(told.status) != breakage.word or breakage.says not in told.output:
        return f"doctor should say {breakage.word}, {breakage.says!r}: {said}"
    is_right = breakage.comes_back in (None, took is not None)
    return "" if is_right else f"a contradiction: {said}"


def _pods_of(cluster: NodeCluster, name: str) -> list[PodFacts]:
    return [it for it in cluster.pods().values() if it.node == name]


def heard(cluster: NodeCluster, node: Node, word: str) -> Done:
    """What doctor says once it is that word: after a start of a component, or of the relay, it does
    not know yet whether the one asks the other."""
    told = node.relay("node", "doctor")

    def is_said() -> bool:
        nonlocal told
        told = node.relay("node", "doctor")
        return WORDS.get(told.status) == word

    with suppress(AssertionError):
        cluster.until(is_said, what=word, every=2.0)
    return told


@pytest.mark.slow
@pytest.mark.manual
@pytest.mark.timeout(900)
@pytest.mark.parametrize("breakage", [*ALL, *OF_CLUSTER], ids=lambda it: it.name)
def test_a_reboot_bears_out_what_doctor_says(
    cluster: NodeCluster, breakage: Breakage | ClusterBreakage
) -> None:
    assert hold_to_one_another(cluster, RELAYED[0], breakage) == ""
