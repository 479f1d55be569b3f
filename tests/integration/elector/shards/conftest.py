from collections.abc import Iterator

import pytest

from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.shards.sharded import ShardedFleet


@pytest.fixture
def ring(control_plane: ControlPlane) -> Iterator[ShardedFleet]:
    with ShardedFleet(control_plane, control_plane.create_namespace()) as fleet:
        fleet.create_empty_lease()
        yield fleet
        for pod in fleet.pods:
            assert "Traceback" not in pod.log_text()
