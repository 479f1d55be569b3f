"""The manuals' manifests are what a real API server takes, every field of them known."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.manifests.built import named, overlay, workload, write_kustomization
from tests.unit.repository.checkout import DOCUMENTS, MANIFESTS, block, fences
from tools.harness.controlplane.clients.kustomize import kustomize
from tools.harness.controlplane.cluster import ControlPlane

COLLECTIONS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "Lease": "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
}


@pytest.mark.parametrize(("name", "title"), MANIFESTS)
def test_the_manuals_manifests_are_accepted_field_by_field(
    control_plane: ControlPlane, namespace: str, name: str, title: str
) -> None:
    objects = list(yaml.safe_load_all(block(name, title, "yaml")))
    assert {"ServiceAccount", "Role", "RoleBinding", "Deployment"} <= {
        body["kind"] for body in objects
    }
    for body in objects:
        path = COLLECTIONS[body["kind"]].format(namespace)
        status, answer = control_plane.admin.post(f"{path}?fieldValidation=Strict", body)
        assert status == 201, answer


# ── Pod Security "restricted" ──

# The fields that it asks for, of a container that brings nothing else of its own.
LOCKED = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.fixture
def restricted(control_plane: ControlPlane, namespace: str) -> str:
    """A namespace that takes no other pods, with the account that pods here run as."""
    level = {"pod-security.kubernetes.io/enforce": "restricted"}
    status, answer = control_plane.admin.patch(
        f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": level}}
    )
    assert status == 200, answer
    return namespace


def _pod_refused(plane: ControlPlane, namespace: str, template: dict[str, Any]) -> str | None:
    """Judged in full and not stored; None: taken. The account is any that exists."""
    spec = {**template["spec"], "serviceAccountName": "default"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shop"}, "spec": spec}
    path = f"/api/v1/namespaces/{namespace}"
    account = {"metadata": {"name": "default"}}
    assert plane.admin.post(f"{path}/serviceaccounts", account)[0] in (201, 409)
    status, answer = plane.admin.post(f"{path}/pods?dryRun=All", pod)
    return None if status == 201 else str(answer["message"])


def _documented_workloads() -> dict[str, dict[str, Any]]:
    """Of all documents, by document, heading and name."""
    found = {}
    for name in DOCUMENTS:
        for title, language, text in fences(name):
            if language == "yaml" and "\n      containers:\n" in text:
                for body in yaml.safe_load_all(text):
                    if "template" in body.get("spec", {}):
                        key = f"{name}: {title}: {body['metadata']['name']}"
                        found[key] = body["spec"]["template"]
    return found


def test_each_pod_in_the_documents_passes_pod_security_restricted(
    control_plane: ControlPlane, restricted: str
) -> None:
    pods = _documented_workloads()
    assert len(pods) >= len(MANIFESTS)
    refused = {it: _pod_refused(control_plane, restricted, pods[it]) for it in pods}
    assert refused == dict.fromkeys(pods)


def test_components_keep_a_pod_within_pod_security_restricted(
    control_plane: ControlPlane, restricted: str, tmp_path: Path
) -> None:
    main = {"name": "main", "image": "example.com/shop:1", "securityContext": LOCKED}
    body = workload(serviceAccountName="shop", containers=[main])
    components = ["elector-sidecar", "leader-label", "relay-sidecar"]
    folder = write_kustomization(tmp_path, [body], components=components)
    for built in (
        named(kustomize(folder), "Deployment", "shop"),
        named(overlay("active-active"), "Deployment", "gm"),
    ):
        assert _pod_refused(control_plane, restricted, built["spec"]["template"]) is None


def test_a_pod_without_a_seccomp_profile_would_be_refused(
    control_plane: ControlPlane, restricted: str
) -> None:
    context = {key: value for key, value in LOCKED.items() if key != "seccompProfile"}
    main = {"name": "main", "image": "example.com/shop:1", "securityContext": context}
    refused = _pod_refused(control_plane, restricted, {"spec": {"containers": [main]}})
    assert "seccompProfile" in (refused or "")


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
