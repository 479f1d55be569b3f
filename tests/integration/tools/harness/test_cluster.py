"""The control plane that the other tests rely on is a real one, and can be tormented."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.tools.harness.leases import LEASE_RULE, lease, leases_path
from tools.harness.controlplane.audit import RESPONSE_COMPLETE
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fixtures import require_program

pytestmark = pytest.mark.long

# Seconds for the API server's watch on service accounts to tell it of a deleted one. (A token that
# it had accepted before would live for its TokenSuccessCacheTTL of 10 s.)
REVOCATION_TIMEOUT = 20.0


def test_an_account_may_do_what_its_rules_say_and_nothing_else(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.kubeconfig_for(namespace, "candidate", [LEASE_RULE])
    client = control_plane.client(control_plane.new_token(namespace, "candidate"))
    assert client.post(leases_path(namespace), lease("a", holder_identity="x"))[0] == 201
    assert client.delete(f"{leases_path(namespace)}/a")[0] == 403
    assert client.get(leases_path("kube-system") + "/a")[0] == 403
    assert client.get(f"/api/v1/namespaces/{namespace}/pods")[0] == 403


def test_cluster_rules_hold_in_every_namespace(control_plane: ControlPlane, namespace: str) -> None:
    rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}
    control_plane.kubeconfig_for(namespace, "watcher", [], cluster_rules=[rule])
    client = control_plane.client(control_plane.new_token(namespace, "watcher"))
    assert client.get("/api/v1/nodes")[0] == 200


def test_kubectl_works_with_a_least_authority_kubeconfig(
    control_plane: ControlPlane, namespace: str
) -> None:
    kubeconfig = control_plane.kubeconfig_for(namespace, "candidate", [LEASE_RULE])
    control_plane.admin.post(leases_path(namespace), lease("a", holder_identity="x"))
    kubectl = [require_program("kubectl"), f"--kubeconfig={kubeconfig}"]
    got = subprocess.run(
        [*kubectl, "get", "lease", "a", "-o=jsonpath={.spec.holderIdentity}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert got.stdout == "x"
    assert "client-certificate-data" not in kubeconfig.read_text(encoding="utf-8")
    version = subprocess.run([*kubectl, "version"], capture_output=True, text=True, check=True)
    assert "Client Version: v1.37.2" in version.stdout
    assert "Server Version: v1.37.2" in version.stdout


def test_a_token_ends_when_it_should(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.kubeconfig_for(namespace, "candidate", [LEASE_RULE])
    path = f"{leases_path(namespace)}/a"

    def status(token: str) -> int:
        return control_plane.client(token).get(path)[0]

    assert status(control_plane.new_token(namespace, "candidate", expires_in=0)) == 401
    assert status(control_plane.new_token(namespace, "candidate", expires_in=30)) == 404
    short = control_plane.new_token(namespace, "candidate", expires_in=1)
    time.sleep(2.1)
    assert status(short) == 401
    assert status("not.a.token") == 401


def test_revoked_tokens_are_refused_and_new_ones_accepted(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.kubeconfig_for(namespace, "candidate", [LEASE_RULE])
    path = f"{leases_path(namespace)}/a"
    old = control_plane.client(control_plane.new_token(namespace, "candidate"))
    control_plane.revoke_tokens(namespace, "candidate")
    new = control_plane.client(control_plane.new_token(namespace, "candidate"))
    assert new.get(path)[0] == 404
    deadline = time.monotonic() + REVOCATION_TIMEOUT
    while (status := old.get(path)[0]) != 401 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert status == 401


def test_a_service_account_directory_is_what_kubelet_mounts(
    control_plane: ControlPlane, namespace: str
) -> None:
    directory = control_plane.service_account_dir(namespace, "candidate", [LEASE_RULE])
    assert (directory.path / "namespace").read_text(encoding="utf-8") == namespace
    assert (directory.path / "ca.crt").read_bytes() == control_plane.ca_bundle.read_bytes()
    token = (directory.path / "token").read_text(encoding="utf-8")
    assert control_plane.client(token).get(f"{leases_path(namespace)}/a")[0] == 404
    directory.replace(token="other")
    assert (directory.path / "token").read_text(encoding="utf-8") == "other"
    assert (directory.path / "ca.crt").read_bytes() == control_plane.ca_bundle.read_bytes()


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


@pytest.mark.parametrize("graceful", [False, True])
def test_a_stopped_api_server_comes_back_with_its_port_and_data(
    control_plane: ControlPlane, namespace: str, graceful: bool
) -> None:
    path = f"{leases_path(namespace)}/a"
    control_plane.admin.post(leases_path(namespace), lease("a", holder_identity="x"))
    control_plane.stop_apiserver(graceful=graceful)
    try:
        with pytest.raises(ConnectionRefusedError):
            control_plane.admin.get(path)
    finally:
        control_plane.start_apiserver()
    status, body = control_plane.admin.get(path)
    assert status == 200
    assert body["spec"]["holderIdentity"] == "x"


def test_without_etcd_nothing_can_be_written_and_data_survives(
    control_plane: ControlPlane, namespace: str
) -> None:
    path = f"{leases_path(namespace)}/a"
    control_plane.admin.post(leases_path(namespace), lease("a", holder_identity="x"))
    control_plane.stop_etcd()
    try:
        with pytest.raises(TimeoutError):
            control_plane.admin.post(
                leases_path(namespace), lease("b", holder_identity="y"), timeout=1
            )
    finally:
        control_plane.start_etcd()
    assert control_plane.admin.get(path)[0] == 200


def test_a_frozen_api_server_accepts_connections_and_answers_after_thawing(
    control_plane: ControlPlane, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}"
    control_plane.freeze()
    try:
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            control_plane.admin.get(path, timeout=0.5)
        assert time.monotonic() - started >= 0.5
    finally:
        control_plane.thaw()
    assert control_plane.admin.get(path)[0] == 200


def test_a_rotated_serving_certificate_is_trusted_only_with_the_new_bundle(
    control_plane: ControlPlane, namespace: str
) -> None:
    old = control_plane.admin
    old_bundle = control_plane.ca_bundle.read_bytes()
    new_bundle = control_plane.rotate_serving_certificate()
    with pytest.raises(ssl.SSLCertVerificationError):
        old.get(f"/api/v1/namespaces/{namespace}")
    assert control_plane.admin.get(f"/api/v1/namespaces/{namespace}")[0] == 200
    assert new_bundle == control_plane.ca_bundle
    assert new_bundle.read_bytes() != old_bundle


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
