"""A short play of the nemesis of shards (`make nemesis-shards` is the long one): random faults of
processes, links, the API server and by hand, judged by a Go program that asks every member.

The seeds are fixed: a run that fails is begun again with the same draws.
"""

import pytest

from tools.harness.controlplane.cluster import ControlPlane
from tools.nemesis.shards.nemesis import ShardNemesis
from tools.nemesis.shards.testbed import ShardTestbed

SECONDS = 25.0
# Fewer would prove nothing: about one group of faults in two seconds is drawn.
ENOUGH_FAULTS = 5


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(("seed", "members", "shards"), [(5, 3, 16), (6, 4, 256)])
def test_random_faults_give_no_shard_two_owners(
    control_plane: ControlPlane, namespace: str, seed: int, members: int, shards: int
) -> None:
    with ShardTestbed(control_plane, namespace, members=members, shards=shards) as testbed:
        outcome = ShardNemesis(testbed, seed=seed, say=print).run(SECONDS)
    assert not outcome.findings
    assert not outcome.complaints
    assert outcome.faults >= ENOUGH_FAULTS
    assert outcome.terms > shards, "some of them moved"
