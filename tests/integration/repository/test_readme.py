"""The README's manifests are what a real API server takes, every field of them known."""

import pytest
import yaml

from tests.controlplane.cluster import ControlPlane
from tests.unit.repository.checkout import MANIFESTS, block

COLLECTIONS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "Lease": "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
}


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
