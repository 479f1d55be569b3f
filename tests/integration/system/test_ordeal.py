"""A short play of the nemesis of GM and LC (`make nemesis-gm` is the long one), in each mode.

The seeds are fixed: a run that fails is begun again with the same draws.
"""

from pathlib import Path

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.integration.system.ordeal import Ordeal
from tests.integration.system.system import MODES, System
from tests.integration.system.workers import Workers
from tests.integration.system.workload import Workload

SECONDS = 30.0
OBJECTS = 60
# Fewer would prove nothing.
ENOUGH_FAULTS = 5
EDGES = ("edge-a", "edge-b", "edge-c")


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "seed"), [(mode, 1) for mode in MODES])
def test_random_faults_double_nothing_and_lose_nothing(
    sedna_plane: ControlPlane, tmp_path: Path, mode: str, seed: int
) -> None:
    workers = Workers()
    with System(
        sedna_plane, tmp_path, mode=mode, gms=3, edges=EDGES, course_of=workers.course_of
    ) as system:
        workload = Workload(system, workers, seed=seed)
        workload.begin(OBJECTS)
        outcome = Ordeal(system, workers, workload, seed=seed, say=print).run(SECONDS)
    print(outcome)
    assert not outcome.findings
    assert outcome.settled_in is not None
    assert outcome.faults.total() >= ENOUGH_FAULTS
