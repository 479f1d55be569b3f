"""Things that break elsewhere than in a file of a node, as `breakages` has those."""

import copy
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import yaml

from tests.integration.relay.node.breakages import KUBELET, Word, started_as
from tests.node.breaking import BreakingNode
from tests.node.test_certificates import give_certificate
from tests.unit.manifests import node_addons
from tests.unit.manifests.built import MANIFESTS, named, overlay
from tools.harness.nodes.cluster import NodeCluster
from tools.harness.nodes.images import PAUSE, WORKLOAD
from tools.harness.nodes.node import IMAGES, Node

Json = dict[str, Any]
YEAR: Final = 365 * 86400.0


@dataclass(frozen=True)
class ClusterBreakage:
    """As `Breakage`; `undo`: once the node is healed; `is_cut`: `do` cuts it off."""

    name: str
    do: Callable[[NodeCluster, Node, BreakingNode], object]
    undo: Callable[[NodeCluster, Node], object]
    word: Word
    says: str
    comes_back: bool | None
    is_cut: bool = False


def _lead(cluster: NodeCluster, daemons: str, namespace: str, *objects: Json) -> None:
    """Gives a DaemonSet other objects, and starts it anew."""
    cluster.apply(objects)
    what = f"daemonset/{daemons}"
    cluster.kubectl.run("rollout", "restart", what, f"--namespace={namespace}").expect()
    cluster.rolled_out(namespace, what)


def _proxy_past_the_relay(cluster: NodeCluster, *_: object) -> None:
    made = named(node_addons.kube_proxy(server=cluster.plane.server), "ConfigMap", "kube-proxy")
    own = _relays_kubeconfig()
    own["data"] = {"kubeconfig.conf": made["data"]["kubeconfig.conf"]}
    _lead(cluster, "kube-proxy-relay", "kube-system", own)


def _proxy_by_the_relay(cluster: NodeCluster, *_: object) -> None:
    _lead(cluster, "kube-proxy-relay", "kube-system", _relays_kubeconfig())


def _relays_kubeconfig() -> Json:
    path = MANIFESTS / "overlays/node/kube-proxy/kubeconfig.yaml"
    made: Json = yaml.safe_load(path.read_text())
    return made


def _dns(*, is_by_relay: bool) -> Callable[..., None]:
    def do(cluster: NodeCluster, *_: object) -> None:
        made = copy.deepcopy(list(overlay("node")))
        settings = named(made, "ConfigMap", "coredns-node")
        if not is_by_relay:
            corefile = re.sub(r"\n *kubeconfig .*", "", settings["data"]["Corefile"])
            settings["data"]["Corefile"] = corefile
            spec = named(made, "DaemonSet", "coredns-node")["spec"]["template"]["spec"]
            host, port = cluster.plane.server.removeprefix("https://").split(":")
            spec["containers"][0]["env"] = [
                {"name": "KUBERNETES_SERVICE_HOST", "value": host},
                {"name": "KUBERNETES_SERVICE_PORT", "value": port},
            ]
        _lead(cluster, "coredns-node", "kube-system", *made)

    return do


def _without_image(name: str) -> Callable[..., None]:
    def do(cluster: NodeCluster, node: Node, breaking: BreakingNode) -> None:
        node.run("ctr", "-n=k8s.io", "images", "rm", "--sync", name).expect()

    return do


def _with_images(cluster: NodeCluster, node: Node) -> None:
    for archive in node.run("ls", IMAGES).expect().split():
        node.run("ctr", "-n=k8s.io", "images", "import", "--local", f"{IMAGES}/{archive}").expect()
    # An image that kubelet once tried to pull, it pulls also where it is there: to see whether the
    # pod may use it (KEP-2535).
    node.run("rm", "-rf", "/var/lib/kubelet/image_manager/pulling").expect()
    node.run("systemctl", "restart", "kubelet").expect()


def _ended_certificate(*, has_bootstrap: bool) -> Callable[..., None]:
    """While it is cut, since the API server would refuse it."""

    def do(cluster: NodeCluster, node: Node, breaking: BreakingNode) -> None:
        if has_bootstrap:
            flag = " --bootstrap-kubeconfig=/etc/kubernetes/bootstrap.conf"
            started_as(KUBELET, lambda line: line + flag)(breaking)
            breaking.restart(KUBELET)
        node.cut()
        cluster.until(lambda: not node.status()["link"]["isUp"], what="the relay notices")
        give_certificate(cluster, node, life=3.0)
        time.sleep(4.0)

    return do


def _good_certificate(cluster: NodeCluster, node: Node) -> None:
    give_certificate(cluster, node, life=YEAR)
    node.run("systemctl", "restart", "relay-sidecar", "kubelet").expect()


OF_CLUSTER: Final = (
    ClusterBreakage(
        "kube-proxy goes past the relay",
        _proxy_past_the_relay,
        _proxy_by_the_relay,
        "fails",
        "goes past",
        comes_back=False,
    ),
    ClusterBreakage(
        "CoreDNS goes past the relay",
        _dns(is_by_relay=False),
        _dns(is_by_relay=True),
        "fails",
        "goes past",
        comes_back=False,
    ),
    ClusterBreakage(
        "an image of a pod is gone",
        _without_image(WORKLOAD),
        _with_images,
        "fails",
        f"image {WORKLOAD} is not on the node",
        comes_back=False,
    ),
    ClusterBreakage(
        "the sandbox image is gone",
        _without_image(PAUSE),
        _with_images,
        "fails",
        f"the sandbox image {PAUSE} is not on the node",
        comes_back=False,
    ),
    ClusterBreakage(
        "the certificate has ended, with a bootstrap kubeconfig",
        _ended_certificate(has_bootstrap=True),
        _good_certificate,
        "fails",
        "it has ended, and kubelet does not start with it",
        comes_back=False,
        is_cut=True,
    ),
    ClusterBreakage(
        "the certificate has ended",
        _ended_certificate(has_bootstrap=False),
        _good_certificate,
        "unknown",
        "the pods of this node",
        comes_back=True,
        is_cut=True,
    ),
)
