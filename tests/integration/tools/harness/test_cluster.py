"""The control plane that the other tests rely on is a real one, and can be tormented."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.tools.harness.leases import LEASE_RULE, lease, leases_path
from tools.harness.controlplane.audit import RESPONSE_COMPLETE
from tools.harness.controlplane.cluster import ControlPlane

pytestmark = pytest.mark.long


def test_the_audit_log_tells_who_wrote_what_and_when(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.kubeconfig_for(namespace, "candidate", [LEASE_RULE])
    client = control_plane.client(control_plane.new_token(namespace, "candidate"))
    user = f"system:serviceaccount:{namespace}:candidate"
    before = time.time()
    written = client.post(leases_path(namespace), lease("a", holder_identity="x"))[1]
    between = time.time()
    for identity in ("y", "z"):
        version = written["metadata"]["resourceVersion"]
        body = lease("a", holder_identity=identity, resource_version=version)
        written = client.put(f"{leases_path(namespace)}/a", body)[1]
    client.get(f"{leases_path(namespace)}/a")
    client.get(f"/api/v1/namespaces/{namespace}/pods")

    assert control_plane.count_requests(user=user) == 5
    assert control_plane.count_requests(user=user, verb="update") == 2
    assert control_plane.count_requests(user=user, since=between) == 4
    assert control_plane.count_requests(user=user, until=between) == 1
    assert control_plane.count_requests(user=user, user_agent="controlplane-") == 5
    assert control_plane.count_requests(user=user, user_agent="kubectl") == 0
    assert [event.status for event in control_plane.audit(user=user)] == [201, 200, 200, 200, 403]
    update = control_plane.audit(user=user, verb="update")[-1]
    assert update.request_object is not None
    assert update.response_object is not None
    assert update.request_object["spec"]["holderIdentity"] == "z"
    assert update.response_object["metadata"] == written["metadata"]
    assert before < between <= update.received_at <= update.stage_at <= time.time()
    stages = control_plane.audit(user=user, verb="update", stage=None)
    assert [event.stage for event in stages] == ["RequestReceived", RESPONSE_COMPLETE] * 2


def test_nothing_is_left_when_the_owner_is_killed(control_plane: ControlPlane) -> None:
    """Also not an API server that is frozen at that moment."""
    owner = (
        "import time\n"
        "from tools.harness.controlplane.cluster import ControlPlane\n"
        "plane = ControlPlane()\n"
        "plane.start()\n"
        "plane.freeze()\n"
        "print(plane.folder, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", owner], stdout=subprocess.PIPE, text=True, cwd=_ROOT
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert folder.is_dir()
        assert len(_processes_of(folder)) == 3
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while (_processes_of(folder) or folder.exists()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _processes_of(folder) == []
    assert not folder.exists()


_ROOT = Path(__file__).parents[4]


def _processes_of(folder: Path) -> list[str]:
    """The command lines in which the folder occurs: etcd, kube-apiserver and their guardian."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            command = Path("/proc", entry, "cmdline").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if str(folder) in command:
            found.append(command)
    return found
