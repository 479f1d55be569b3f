"""A GM before an API server with OwnerReferencesPermissionEnforcement, which is off by default."""

from http import HTTPStatus
from typing import Any

import pytest

from edge_sidecars.sedna_api.core.kinds import FEDERATED_LEARNING_JOB
from tests.unit.manifests.built import gm_rules
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fixtures import require_program
from tools.harness.controlplane.schemas import sedna_kinds

pytestmark = pytest.mark.long

FINALIZERS = {
    "apiGroups": ["sedna.io"],
    "resources": ["federatedlearningjobs/finalizers"],
    "verbs": ["update"],
}


@pytest.mark.long
@pytest.mark.slow
def test_a_gm_needs_finalizers_where_owner_references_are_enforced() -> None:
    for name in ("kube-apiserver", "etcd"):
        require_program(name)
    with ControlPlane(plugins=["OwnerReferencesPermissionEnforcement"]) as plane:
        sedna_kinds.install(plane)
        namespace = plane.create_namespace()
        template = {"spec": {"containers": [{"name": "w", "image": "example.com/w:1"}]}}
        spec = {
            "aggregationWorker": {"model": {"name": "m"}, "template": template},
            "trainingWorkers": [{"dataset": {"name": "a"}, "template": template}],
            "transmitter": {"ws": {}},
        }
        body = {"apiVersion": "sedna.io/v1alpha1", "kind": "FederatedLearningJob", "spec": spec}
        path = FEDERATED_LEARNING_JOB.collection(namespace)
        job = expect(plane.admin.post(path, {**body, "metadata": {"name": "job"}}))
        pods = f"/api/v1/namespaces/{namespace}/pods"
        for account, more, status in (
            ("gm", [], HTTPStatus.FORBIDDEN),
            ("gm-with-finalizers", [FINALIZERS], HTTPStatus.CREATED),
        ):
            plane.kubeconfig_for(namespace, account, [*gm_rules(), *more])
            client = plane.client(plane.new_token(namespace, account))
            told, answer = client.post(pods, worker(job, account))
            assert told == status, answer


def worker(job: dict[str, Any], name: str) -> dict[str, Any]:
    """A child as GM makes it."""
    owner = {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "w", "image": "example.com/w:1"}]},
    }
