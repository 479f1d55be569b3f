"""docs/tutorials/node.md: two nodes that lose link and power, and what each of them does then."""

import re
import shutil
from pathlib import Path

import docker
import pytest

from tests.integration.repository.typed import laid_out, typed
from tools.harness.controlplane.fixtures import lack

PAGE = "docs/tutorials/node.md"
TITLES = (
    "Start two nodes",
    "Put a relay before the kubelet of edge-1",
    "Run something on both",
    "Cut the link of both",
    "Take their power",
    "Heal the link",
    "Clean up",
)
# Seconds on a busy machine; a quiet one needs 150.
TIMEOUT = 800.0


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_node_comes_back_without_a_cloud_as_its_tutorial_says(
    docker_engine: docker.DockerClient, tmp_path: Path
) -> None:
    if shutil.which("docker") is None:
        lack("docker, the command, is missing")
    shown = typed(PAGE, TITLES, laid_out(tmp_path), timeout=TIMEOUT)
    assert "nothing would fail" in shown
    pods = re.findall(r'"pod":"([^"]+)","node":"(edge-\d)","addresses":(\[.*?\])', shown)
    of_one = {(pod, addresses) for pod, node, addresses in pods if node == "edge-1"}
    assert len(of_one) == 1, "the same pod at the same addresses, before and after"
    assert re.search(r"^LINK +not up since this relay started", shown, re.M)
    assert "edge-2 has no answer" in shown
    assert "edge-2 runs 0 containers" in shown
    assert "The heal restarted nothing on edge-1" in shown
    assert not (tmp_path / "site").exists()
