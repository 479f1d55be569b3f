"""What the manual of the elector says to type to ask it works, word for word."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.repository.checkout import block
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.fleet import STEADY, Fleet
from tools.harness.pods.observers.observer import wait_for_leader

# Seconds on a busy machine; a quiet one needs 15.
TIMEOUT = 120.0
PROGRAMS = Path(sys.executable).parent


@pytest.mark.long
def test_a_main_asks_its_elector_as_its_manual_says(
    control_plane: ControlPlane, namespace: str
) -> None:
    lines = block("docs/how-to/add-the-elector.md", "Add the elector to a pod", "sh").splitlines()
    asked = [line.partition("  #")[0].strip() for line in lines]
    assert len(asked) == 6
    with Fleet(control_plane, namespace) as fleet:
        fleet.create_empty_lease()
        leader, standby = (fleet.add(timing=STEADY) for _ in range(2))
        if wait_for_leader([leader, standby], timeout=TIMEOUT) is standby:
            leader, standby = standby, leader
        said = {line: _asked(line, leader.port) for line in asked}
        refused = {line: _asked(line, standby.port) for line in asked if "wait=" not in line}
    conditions = [line for line in asked if "readyz" in line or "check" in line]
    assert len(conditions) == 4
    for line in asked:
        assert said[line][0] == 0, (line, said[line])
    for line in refused:
        is_refused = refused[line][0] != 0
        assert is_refused is (line in conditions), (line, refused[line])
    (stream,) = (line for line in asked if "watch=true" in line)
    documents = said[stream][1].splitlines()
    assert len(documents) >= 2
    assert all('"isLeader":true' in line and '"validUntil":' in line for line in documents)


def _asked(line: str, port: int) -> tuple[int, str]:
    """Exit status and output. What follows a stream is ended after some seconds, as by Ctrl-C."""
    there = f"127.0.0.1:{port}"
    line = line.replace("localhost:4040", there)
    line = re.sub(r"^elector-sidecar \w+", rf"\g<0> --url http://{there}", line)
    assert there in line
    process = subprocess.Popen(
        ["bash", "-c", f"exec {line}"],
        env=_environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if "watch=true" not in line:
        told, _ = process.communicate(timeout=TIMEOUT)
        return process.returncode, told
    assert process.stdout is not None
    with process:
        documents = [process.stdout.readline() for _ in range(2)]
        process.terminate()
    return 0, "".join(documents)


def _environ() -> dict[str, str]:
    return {"PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
