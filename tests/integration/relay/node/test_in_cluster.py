"""`relay-sidecar in-cluster`: in-cluster clients use the relay of their node, unchanged.

Each finds the directory at Kubernetes' own path, in mounts that nobody else sees.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.relay.node.node_place import NodePlace, allow_nodes
from tools.harness.controlplane.access.service_account import ServiceAccountDirectory
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.peers.informers import InformerProcess, spec
from tools.harness.pods.observers.observer import wait_for
from tools.harness.processes.process import Process
from tools.harness.relay_objects import Contents

READ = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]
OWN_MOUNTS = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
# $0: the directory; then what is run there. /var/run of the machine is hidden by an empty one.
MOUNT = """mount -t tmpfs none /var/run
mkdir -p /var/run/secrets/kubernetes.io/serviceaccount
mount --bind "$0" /var/run/secrets/kubernetes.io/serviceaccount
exec "$@"
"""
PROGRAM = """
import sys
from kubernetes import client, config
config.load_incluster_config()
found = client.CoreV1Api().list_namespaced_config_map(sys.argv[1])
print(*(item.metadata.name for item in found.items))
"""


class InCluster(Process):
    """The process in the pod, and programs beside it."""

    def __init__(self, node: NodePlace, account: ServiceAccountDirectory) -> None:
        super().__init__("in-cluster", ports=0)
        self.account = account
        self.output = self._folder / "out"
        self._flags = [
            f"--certificate-authority={node.ca}",
            f"--service-account-dir={account.path}",
            f"--output={self.output}",
        ]
        self.beside = [*OWN_MOUNTS, "sh", "-ec", MOUNT, str(self.output)]
        self.environ = {
            "PATH": os.environ["PATH"],
            "KUBERNETES_SERVICE_HOST": LOOPBACK,
            "KUBERNETES_SERVICE_PORT": str(node.pods.port),
        }

    def start(self) -> "InCluster":
        self._launch("relay-sidecar", "in-cluster", *self._flags)
        wait_for((self.output / "token").exists, timeout=20, what="the directory")
        return self

    def names(self, namespace: str) -> list[str]:
        """ConfigMaps, as the Python client lists them."""
        done = subprocess.run(
            [*self.beside, sys.executable, "-c", PROGRAM, namespace],
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()


@pytest.fixture(scope="module")
def rights(control_plane: ControlPlane) -> None:
    allow_nodes(control_plane)


@pytest.fixture
def node(control_plane: ControlPlane, tmp_path: Path, rights: None) -> Iterator[NodePlace]:
    if subprocess.run([*OWN_MOUNTS, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount anything")
    with NodePlace(control_plane, tmp_path) as it:
        yield it


@pytest.fixture
def pod(node: NodePlace, contents: Contents) -> Iterator[InCluster]:
    account = node.plane.service_account_dir(contents.namespace, "app", READ)
    with InCluster(node, account) as it:
        yield it


def test_the_python_client_reads_through_the_relay_also_while_cut(
    node: NodePlace, pod: InCluster, contents: Contents
) -> None:
    contents.configmap("a")
    assert pod.names(contents.namespace) == ["a"]
    node.cut()
    assert pod.names(contents.namespace) == ["a"]
    node.relay.kill()
    node.relay.start()
    assert pod.names(contents.namespace) == ["a"]


@pytest.mark.long
def test_a_token_that_kubelet_renewed_is_the_one_in_use(
    node: NodePlace, pod: InCluster, contents: Contents
) -> None:
    contents.configmap("a")
    pod.account.replace(token="not-a-token")
    wait_for(
        lambda: (pod.output / "token").read_text() == "not-a-token", timeout=20, what="the old one"
    )
    with pytest.raises(AssertionError, match="401"):
        pod.names(contents.namespace)
    renewed = node.plane.new_token(contents.namespace, "app")
    pod.account.replace(token=renewed)
    wait_for(
        lambda: (pod.output / "token").read_text() == renewed, timeout=20, what="the renewed one"
    )
    assert pod.names(contents.namespace) == ["a"]


def test_client_go_syncs_through_the_relay_and_goes_on_over_a_cut(
    node: NodePlace, pod: InCluster, contents: Contents
) -> None:
    contents.configmap("a")
    specs = [spec("typed", "configmaps", namespace=contents.namespace)]
    with InformerProcess(None, specs, prefix=pod.beside, environ=pod.environ) as informer:
        informer.wait_synced()
        node.cut()
        contents.configmap("b")
        node.relay.kill()
        node.relay.start()
        assert _held(informer) == ["a"]
        node.link.heal()
        wait_for(lambda: _held(informer) == ["a", "b"], timeout=75, what="what changed meanwhile")
        informer.check()
    node.cut()
    with InformerProcess(None, specs, prefix=pod.beside, environ=pod.environ) as later:
        later.wait_synced()
        assert _held(later) == ["a", "b"]


def _held(informer: InformerProcess) -> list[str]:
    [state] = informer.states(objects=True)
    return sorted(key.partition("/")[2] for key, _ in state.objects)
