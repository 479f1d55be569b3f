"""What the documents say to type on one machine works, word for word, and shows what they say.

Only ports differ: free ones take the place of those in the documents.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.repository.checkout import ROOT, block
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fixtures import require_program
from tools.harness.controlplane.reservation import Reservation
from tools.harness.pods.fleet import STEADY, Fleet
from tools.harness.pods.observers.observer import wait_for_leader

# Seconds on a busy machine; a quiet one needs 15.
TIMEOUT = 120.0
PROGRAMS = Path(sys.executable).parent
# Of the relay's, in their order.
TUTORIAL = (
    "Start a cloud and a relay",
    "Write and read through it",
    "Read from Python",
    "Cut the link",
    "Restart the relay while the link is down",
    "Clean up",
)


@pytest.mark.slow
def test_the_relay_can_be_tried_as_its_tutorial_says(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(require_program("kubectl"))
    (tmp_path / ".venv").symlink_to(PROGRAMS.parent)
    script = "\n".join(block("docs/tutorials/relay.md", title, "sh") for title in TUTORIAL)
    told = _typed(script, tmp_path)
    lists = re.findall(r'^\{"kind":"ConfigMapList".*"resourceVersion":"(\d+)".*$', told, re.M)
    online, cut, restarted = (line for line in told.splitlines() if "ConfigMapList" in line)
    assert len(lists) == 3
    assert '"text":"hello"' in online
    assert online == cut == restarted
    assert told.count("\nAge: ") == 2
    assert told.count("503 Service Unavailable") == 1
    ages = re.findall(r"^Python sees greeting at an age of (\d+) s$", told, re.M)
    assert len(ages) == 3
    assert ages[0] == "0"
    assert int(ages[2]) >= int(ages[1]) > 0
    # kubectl's column of the name, online and cut.
    assert len(re.findall("^greeting ", told, re.M)) == 2
    assert re.search(r"^LINK +not up since this relay started", told, re.M)
    assert re.search(r"^configmaps\.v1 .* 1 ", told, re.M)
    assert not (tmp_path / "relay-data").exists()


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


def _typed(script: str, folder: Path) -> str:
    """What it prints, on free ports; it ends at the first command that fails, and whatever it
    started ends with it."""
    ports = sorted(set(re.findall(r"127\.0\.0\.1:(105\d\d)", script)))
    held = {port: Reservation() for port in ports}
    environ = {**_environ(), "HOME": str(folder), "PYTHONPATH": str(ROOT)}
    environ["PATH"] = f"{folder / 'bin'}:{environ['PATH']}"
    for port, reservation in held.items():
        script = script.replace(f"127.0.0.1:{port}", f"127.0.0.1:{reservation.port}")
    # Where no flag names them.
    for name, port in (("RELAY_LISTEN", "10550"), ("RELAY_STATUS_LISTEN", "10551")):
        if port in held:
            environ[name] = f"127.0.0.1:{held[port].port}"
    process = subprocess.Popen(
        ["bash", "-c", f"set -e\n{script}\nwait"],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        told, errors = process.communicate(timeout=TIMEOUT)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        for reservation in held.values():
            reservation.release()
    assert process.returncode == 0, f"{told}\n{errors}"
    assert "Traceback" not in errors, errors
    return told
