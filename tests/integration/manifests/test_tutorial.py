"""docs/tutorials/failover.md: what it says to type leads to a leader that fails over, as it says.

Left out are the lines that need nodes (`console`). Electors are real processes, one for each pod
that the real controllers make, with the rights that the tutorial gives them.
"""

import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from tests.integration.manifests.live_pods import POLL_INTERVAL, LivePods
from tests.integration.manifests.typist import Typist
from tests.unit.repository.checkout import blocks, fences
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.observers.observer import overlaps

DOCUMENT = "docs/tutorials/failover.md"
# In their order.
TITLES = ("A program that wants to know", "Add the elector", "See who leads", "Delete the leader")


def _script(*titles: str) -> str:
    return "\n".join(text for title in titles for text in blocks(DOCUMENT, title, "sh"))


@pytest.mark.slow
def test_the_tutorial_leads_to_a_leader_that_fails_over(
    own_plane: ControlPlane, tmp_path: Path
) -> None:
    typist = Typist(own_plane, tmp_path)
    # A token of the account; the rights are what the tutorial applies.
    kubeconfig = own_plane.kubeconfig_for("default", "shop", [])
    with (
        LivePods(
            own_plane, "default", kubeconfig=kubeconfig, most=8, main_ends=lambda: None
        ) as live,
        ThreadPoolExecutor(1) as pool,
    ):
        typed = pool.submit(typist.type, _script(*TITLES))
        while not typed.done():
            live.look()
            time.sleep(POLL_INTERVAL)
        shown = typed.result()
        (first,) = re.findall(r"^The leader is (shop-\S+)$", shown, re.M)
        (second,) = re.findall(r"^The next leader is (shop-\S+)$", shown, re.M)
        assert first != second
        electors = {it.name: it for it in live.running()}
        standby = next(name for name in electors if name not in (first, second))
        assert "and I work" in _main_says(tmp_path, electors[second])
        assert "I wait: HTTP Error 503" in _main_says(tmp_path, electors[standby])
        assert overlaps(live.answers()) == []
        cleaned = typist.type(_script("Clean up"))
    assert 'deployment.apps "shop" deleted' in cleaned


def _main_says(folder: Path, elector: ElectorPod) -> str:
    """The first line that the main of the tutorial prints beside this elector."""
    objects = yaml.safe_load_all((folder / "deployment.yaml").read_text(encoding="utf-8"))
    (deployment,) = (it for it in objects if it["kind"] == "Deployment")
    (main,) = deployment["spec"]["template"]["spec"]["containers"]
    assert main["command"][0] == "python3"
    program = main["args"][0].replace("localhost:4040", f"127.0.0.1:{elector.port}")
    with subprocess.Popen(
        [sys.executable, *main["command"][1:], program], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
    assert process.returncode == 0
    return line


def test_three_lines_are_for_kind_and_no_test_types_them() -> None:
    lines = [
        (language, line)
        for _, language, text in fences(DOCUMENT)
        for line in text.splitlines()
        if line.startswith("kind ")
    ]
    assert [language for language, _ in lines] == ["console"] * 3
