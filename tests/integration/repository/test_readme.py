"""The README's manifests are what a real API server takes, every field of them known; what it says
to type works.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.fixtures import require_program
from tests.controlplane.reservation import Reservation
from tests.unit.repository.checkout import MANIFESTS, block

COLLECTIONS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "Lease": "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
}
# Seconds on a busy machine; a quiet one needs 15.
TRIAL_TIMEOUT = 120.0


@pytest.mark.parametrize("title", MANIFESTS)
def test_the_readmes_manifests_are_accepted_field_by_field(
    control_plane: ControlPlane, namespace: str, title: str
) -> None:
    objects = list(yaml.safe_load_all(block("README.md", title, "yaml")))
    assert {"ServiceAccount", "Role", "RoleBinding", "Deployment"} <= {
        body["kind"] for body in objects
    }
    for body in objects:
        path = COLLECTIONS[body["kind"]].format(namespace)
        status, answer = control_plane.admin.post(f"{path}?fieldValidation=Strict", body)
        assert status == 201, answer


def test_a_misspelt_field_would_be_refused(control_plane: ControlPlane, namespace: str) -> None:
    path = COLLECTIONS["Lease"].format(namespace)
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "a"},
        "spec": {"holder": "b"},
    }
    status, answer = control_plane.admin.post(f"{path}?fieldValidation=Strict", body)
    assert status == 400
    assert "holder" in answer["message"]


@pytest.mark.slow
def test_the_relay_can_be_tried_as_the_readme_says(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(require_program("kubectl"))
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parents[1])
    script = block("README.md", "Try the relay", "sh")
    ports = sorted(set(re.findall(r"127\.0\.0\.1:(105\d\d)", script)))
    assert len(ports) == 4
    told, errors = _run(script, ports, tmp_path)
    lists = re.findall(r'^\{"kind":"ConfigMapList".*"resourceVersion":"(\d+)".*$', told, re.M)
    online, cut, restarted = (line for line in told.splitlines() if "ConfigMapList" in line)
    assert len(lists) == 3
    assert '"text":"hello"' in online
    assert online == cut == restarted
    assert told.count("\nAge: ") == 2
    assert told.count("503 Service Unavailable") == 1
    # kubectl's column of the name, online and cut.
    assert len(re.findall("^greeting ", told, re.M)) == 2
    assert re.search(r"^LINK +down", told, re.M)
    assert re.search(r"^configmaps\.v1\. .* 1 ", told, re.M)
    assert "Traceback" not in errors, errors
    assert not (tmp_path / "relay-data").exists()


def _run(script: str, ports: list[str], folder: Path) -> tuple[str, str]:
    """What it prints. Ports are free ones here; whatever it started ends with it."""
    held = [Reservation() for _ in ports]
    environ = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "HOME": str(folder)}
    for port, reservation in zip(ports, held, strict=True):
        script = script.replace(f"127.0.0.1:{port}", f"127.0.0.1:{reservation.port}")
    # Where no flag names them.
    environ["RELAY_LISTEN"] = f"127.0.0.1:{held[0].port}"
    environ["RELAY_STATUS_LISTEN"] = f"127.0.0.1:{held[1].port}"
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
        told, errors = process.communicate(timeout=TRIAL_TIMEOUT)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        for reservation in held:
            reservation.release()
    assert process.returncode == 0, f"{told}\n{errors}"
    return told, errors
