"""Short plays of the nemesis of pools (`make nemesis-pool` is the long one): random faults of
processes, links, the LAN and the cloud, judged by an observer of its own and the audit log.

The seeds are fixed: a run that fails is begun again with the same draws. Where the machine lets us
make no network namespaces, they skip: nothing that could be installed would help.
"""

import os

import pytest

from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fixtures import require_program
from tools.nemesis.pool.nemesis import STORM, PoolNemesis
from tools.nemesis.pool.testbed import PoolTestbed
from tools.nemesis.vip.network import NoNamespaces

SECONDS = 25.0
CALM = 10.0
# Fewer would prove nothing: about one group of faults in three seconds is drawn.
ENOUGH_FAULTS = 5
PROGRAMS = ("kube-apiserver", "etcd", "kube-controller-manager", "kubectl")


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 4])
def test_random_faults_move_no_pod_that_is_to_stay(seed: int) -> None:
    for name in PROGRAMS:
        require_program(name)
    if os.geteuid() != 0:
        pytest.skip("only root makes network namespaces")
    try:
        with ControlPlane(has_nodes=True) as plane, PoolTestbed(plane, print) as testbed:
            nemesis = PoolNemesis(testbed, seed=seed, say=print, calm=CALM)
            outcome = nemesis.run(SECONDS, only=STORM)
    except NoNamespaces as error:
        pytest.skip(f"no network namespaces here: {error}")
    assert not outcome.findings
    assert outcome.counts.total() >= ENOUGH_FAULTS
    assert outcome.renewals > 0
