"""Every manifest is what a real API server takes, field by field; and what it says to one is so."""

import http.client
import subprocess
import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest
import yaml

from tests.integration.manifests.gm_and_lc import rules
from tests.unit.manifests.built import MANIFESTS, OVERLAYS, Json, workload, write_kustomization
from tests.unit.manifests.node_addons import flannel, kube_proxy
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.clients.answer import exchange
from tools.harness.controlplane.clients.kustomize import kustomize
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fixtures import require_program
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.controlplane.schemas import sedna_kinds

# Seconds on a busy machine.
TIMEOUT = 120.0
FLOW_CONTROL = "/apis/flowcontrol.apiserver.k8s.io/v1"
# What Pod Security asks of a container at this level.
RESTRICTED = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"


def _kubectl(plane: ControlPlane, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [require_program("kubectl"), f"--kubeconfig={plane.admin_kubeconfig()}", *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def _apply(plane: ControlPlane, folder: Path, *more: str) -> "subprocess.CompletedProcess[str]":
    """Judged in full and stored nowhere."""
    strict = ("--server-side", "--dry-run=server", "--validate=strict")
    return _kubectl(plane, "apply", *strict, "-k", str(folder), *more)


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    """With the namespaces that manifests name, since a dry run makes none."""
    sedna_kinds.install(control_plane)
    for name in ("sedna", "monitoring", "edge-pool"):
        control_plane.admin.post("/api/v1/namespaces", {"metadata": {"name": name}})
    return control_plane


@pytest.mark.parametrize(
    "name",
    [*(f"overlays/{it}" for it in (*OVERLAYS, "node", "pool")), "flow-control", "election-policy"],
)
def test_an_overlay_is_taken_field_by_field(plane: ControlPlane, name: str) -> None:
    done = _apply(plane, MANIFESTS / name)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(kustomize(MANIFESTS / name))
    assert "Warning" not in done.stderr, done.stderr


def test_monitoring_is_taken(plane: ControlPlane) -> None:
    done = _apply(plane, MANIFESTS / "monitoring")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
def test_whatever_has_pods_is_taken_with_both_sidecars(
    plane: ControlPlane, namespace: str, tmp_path: Path, kind: str
) -> None:
    components = ["elector-sidecar", "leader-label", "relay-sidecar"]
    body = workload(kind, serviceAccountName="shop")
    done = _apply(
        plane, write_kustomization(tmp_path, [body], components=components), "-n", namespace
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_whatever_has_pods_is_taken_with_a_nodes_relay(
    plane: ControlPlane, namespace: str, tmp_path: Path, kind: str
) -> None:
    components = ["elector-sidecar", "keep-on-cut-nodes", "in-cluster"]
    body = workload(kind, serviceAccountName="shop")
    done = _apply(
        plane, write_kustomization(tmp_path, [body], components=components), "-n", namespace
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("level", ["restricted", "baseline", "privileged"])
def test_a_nodes_relay_needs_the_level_privileged_for_its_host_path_alone(
    plane: ControlPlane, namespace: str, tmp_path: Path, level: str
) -> None:
    enforced = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}}
    expect(plane.admin.patch(f"/api/v1/namespaces/{namespace}", enforced))
    main = {"name": "main", "image": "example.com/shop:1", "securityContext": RESTRICTED}
    folder = write_kustomization(tmp_path, [workload(containers=[main])], components=["in-cluster"])
    [found] = kustomize(folder)
    template = found["spec"]["template"]
    body = {"metadata": {**template["metadata"], "name": "shop-0"}, "spec": template["spec"]}
    status, told = plane.admin.post(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", body)
    if level == "privileged":
        assert status == HTTPStatus.CREATED
        return
    assert status == HTTPStatus.FORBIDDEN
    _, _, violations = told["message"].partition(": ")
    of_host_path = {
        "baseline": 'hostPath volumes (volume "relay-public")',
        "restricted": 'restricted volume types (volume "relay-public" uses restricted volume type '
        '"hostPath")',
    }
    assert of_host_path[level] in violations
    assert "in-cluster" not in violations


def test_kube_proxy_and_flannel_of_nodes_with_a_relay_are_taken(
    plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    for name, objects in (("kube-proxy", kube_proxy()), ("kube-flannel", flannel(namespace))):
        folder = write_kustomization(
            tmp_path / name, objects, components=[f"../overlays/node/{name}"]
        )
        done = _apply(plane, folder)
        assert done.returncode == 0, done.stderr
        assert "Warning" not in done.stderr, done.stderr


def test_the_daemons_of_other_nodes_are_kept_off_those_with_a_relay(
    plane: ControlPlane, namespace: str
) -> None:
    for body in (*kube_proxy(namespace), *flannel(namespace)):
        if body["kind"] != "DaemonSet":
            continue
        path = f"/apis/apps/v1/namespaces/{namespace}/daemonsets"
        expect(plane.admin.post(path, body))
        name = body["metadata"]["name"]
        patch = MANIFESTS / "overlays/node/other-nodes.yaml"
        done = _kubectl(
            plane, "patch", "daemonset", name, "-n", namespace, "--patch-file", str(patch)
        )
        assert done.returncode == 0, done.stderr
        spec = expect(plane.admin.get(f"{path}/{name}"))["spec"]["template"]["spec"]
        affinity = spec["affinity"]["nodeAffinity"]
        [term] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert [(it["key"], it["operator"]) for it in term["matchExpressions"]] == [
            ("kubernetes.io/os", "In"),
            ("edge-sidecars.io/relay", "DoesNotExist"),
        ]


def test_a_misspelt_field_is_refused(plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    body = workload()
    body["spec"]["template"]["spec"]["serviceAcountName"] = "shop"
    done = _apply(plane, write_kustomization(tmp_path, [body]), "-n", namespace)
    assert done.returncode != 0
    assert "serviceAcountName" in done.stderr


def test_a_relay_without_its_data_volume_is_refused_by_name(
    plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    without: Json = {"spec": {"template": {"spec": {"volumes": [{"name": "relay-data"}]}}}}
    without["spec"]["template"]["spec"]["volumes"][0]["$patch"] = "delete"
    patch = {"target": {"kind": "Deployment"}, "patch": _yaml({**_HEAD, **without})}
    folder = write_kustomization(
        tmp_path, [workload()], components=["relay-sidecar"], patches=[patch]
    )
    done = _apply(plane, folder, "-n", namespace)
    assert done.returncode != 0
    assert 'volumeMounts[0].name: Not found: "relay-data"' in done.stderr


def test_a_base_without_a_namespace_is_refused_by_name(plane: ControlPlane, namespace: str) -> None:
    done = _apply(plane, MANIFESTS / "base/gm", "-n", namespace)
    assert done.returncode != 0
    assert "subjects[0].namespace" in done.stderr


def test_an_overlay_in_a_cluster_without_its_namespace_says_so(plane: ControlPlane) -> None:
    done = _kubectl(
        plane, "apply", "--server-side", "--dry-run=server", "-f",
        str(MANIFESTS / "base/lc/daemonset.yaml"), "-n", "no-such-namespace",
    )  # fmt: skip
    assert done.returncode != 0
    assert 'namespaces "no-such-namespace" not found' in done.stderr


def test_renewals_have_a_queue_of_their_own(plane: ControlPlane, namespace: str) -> None:
    made = [_make(plane, body) for body in kustomize(MANIFESTS / "flow-control")]
    (schema,) = [it for it in made if it["kind"] == "FlowSchema"]
    try:
        allowed = rules("relay", "Role", "gm-elector")
        directory = plane.service_account_dir(namespace, "gm", allowed)
        token = (directory.path / "token").read_text()
        for _ in _attempts():
            if _flow_schema(plane, token, f"{LEASES.format(namespace)}/gm") == _uid(schema):
                break
        else:
            pytest.fail("a renewal is handled by another FlowSchema")
        elsewhere = f"/api/v1/namespaces/{namespace}/configmaps"
        assert _flow_schema(plane, token, elsewhere) != _uid(schema)
    finally:
        for body in made:
            plane.admin.delete(_flow_path(body))


_HEAD = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "any"}}


def _yaml(body: Json) -> str:
    text: str = yaml.safe_dump(body)
    return text


def _flow_path(body: Json, *, is_collection: bool = False) -> str:
    plural = f"{body['kind'].lower()}s"
    return f"{FLOW_CONTROL}/{plural}" + ("" if is_collection else f"/{body['metadata']['name']}")


def _make(plane: ControlPlane, body: Json) -> Json:
    return expect(plane.admin.post(_flow_path(body, is_collection=True), body))


def _uid(body: Json) -> str:
    uid: str = body["metadata"]["uid"]
    return uid


def _attempts() -> Iterator[int]:
    """Until the API server goes by what it was told."""
    for number in range(100):
        yield number
        time.sleep(0.2)


def _flow_schema(plane: ControlPlane, token: str, path: str) -> str | None:
    """The uid of the one that handled the request: kube-apiserver tells it in a header."""
    connection = http.client.HTTPSConnection(
        LOOPBACK, plane.port, context=plane.tls(as_admin=False), timeout=TIMEOUT
    )
    answer = exchange(connection, path, headers={"Authorization": f"Bearer {token}"})
    assert answer.status != HTTPStatus.UNAUTHORIZED
    return answer.headers["X-Kubernetes-PF-FlowSchema-UID"]
