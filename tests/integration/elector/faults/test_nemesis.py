"""A short play of the nemesis (`make nemesis` is the long one): random faults, judged from outside.

The seeds are fixed: a run that fails is begun again with the same draws.
"""

import pytest

from tools.harness.controlplane.cluster import ControlPlane
from tools.nemesis.elector.nemesis import Nemesis
from tools.nemesis.elector.testbed import ElectionTestbed

SECONDS = 25.0
# Fewer would prove nothing: about one group of faults in two seconds is drawn.
ENOUGH_FAULTS = 5


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(("seed", "client_go"), [(3, None), (4, "0.37")])
def test_random_faults_break_no_promise(
    control_plane: ControlPlane, namespace: str, seed: int, client_go: str | None
) -> None:
    with ElectionTestbed(control_plane, namespace, client_go=client_go) as testbed:
        outcome = Nemesis(testbed, seed=seed, say=print).run(SECONDS)
    assert not outcome.verdict.findings
    assert not outcome.complaints
    assert outcome.faults >= ENOUGH_FAULTS
    assert outcome.verdict.takeovers >= 1
