"""Programs in pods of the pod network that ask the API, led to the relay of their node by
components/in-cluster: unchanged, online, cut, and after a reboot while cut."""

from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from tests.unit.manifests.built import Json, write_kustomization
from tools.harness.controlplane.clients.kustomize import kustomize
from tools.harness.nodes.cluster import NodeCluster
from tools.harness.nodes.images import KUBECTL, kubectl_image, relay_image
from tools.harness.nodes.workloads import NAMESPACE, RELAYED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
NODE = RELAYED[0]
NAME = "client"
RULES = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]
RBAC = "rbac.authorization.k8s.io"


def deployment() -> Json:
    labels = {"app": NAME}
    container = {"name": "main", "image": KUBECTL, "imagePullPolicy": "IfNotPresent"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": NAME,
                    "nodeSelector": {"kubernetes.io/hostname": NODE},
                    "terminationGracePeriodSeconds": 1,
                    "containers": [container],
                },
            },
        },
    }


def account() -> list[Json]:
    metadata = {"name": NAME, "namespace": NAMESPACE}
    reference = {"apiGroup": RBAC, "kind": "Role", "name": NAME}
    subject = {"kind": "ServiceAccount", **metadata}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": RULES},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": reference,
            "subjects": [subject],
        },
    ]


@pytest.fixture
def pod(cluster: NodeCluster, docker_engine: docker.DockerClient, tmp_path: Path) -> Iterator[str]:
    """Its name; kubectl is in it."""
    node = cluster.nodes[NODE]
    for archive in (kubectl_image(docker_engine, tmp_path), relay_image(docker_engine, tmp_path)):
        node.load(archive)
    folder = write_kustomization(tmp_path / "pod", [deployment()], components=["in-cluster"])
    cluster.apply([*account(), *kustomize(folder)])
    cluster.rolled_out(NAMESPACE, f"deployment/{NAME}")
    selected = ("get", "pods", f"--selector=app={NAME}", "-o", "name")
    yield cluster.kubectl.run(*selected).expect().strip().removeprefix("pod/")
    cluster.kubectl.run("delete", f"deployment/{NAME}", "--cascade=foreground").expect()


def test_an_unchanged_program_asks_the_relay_also_after_a_reboot_while_cut(
    cluster: NodeCluster, pod: str
) -> None:
    node = cluster.nodes[NODE]

    def told() -> str:
        command = ("/kubectl", "get", "configmap", "settings", "-o", "jsonpath={.data.colour}")
        return node.run_in(pod, "main", *command).output

    def is_told() -> bool:
        # Among warnings about what else the machine has, and of the relay's.
        return "\ngreen" in told()

    assert is_told(), told()
    with cluster.cut(NODE):
        assert is_told(), told()
        cluster.reboot(NODE, until=is_told)
        assert not node.status()["link"]["isUp"]
    for _ in range(10):
        said = told()
        assert "\ngreen" in said, said
    cluster.until(lambda: NODE in cluster.ready(), what="it is Ready again")
    assert is_told(), told()
