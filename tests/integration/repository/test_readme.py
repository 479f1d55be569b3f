"""The README's manifest is what a real API server takes, every field of it known."""

import yaml

from tests.controlplane.cluster import ControlPlane
from tests.unit.repository.checkout import blocks

COLLECTIONS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "Lease": "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
}


def test_the_readmes_manifest_is_accepted_field_by_field(
    control_plane: ControlPlane, namespace: str
) -> None:
    (text,) = blocks("README.md", "yaml")
    objects = list(yaml.safe_load_all(text))
    assert [body["kind"] for body in objects] == list(COLLECTIONS)
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
