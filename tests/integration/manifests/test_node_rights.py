"""The rights that overlays/node gives to nodes are what a relay needs for those who run there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_sidecars.runtime.cli.values import Address
from relay_node.installer.kubelet import of_pods
from tests.integration.relay.node.node_place import GROUP, NODE, NodePlace
from tests.unit.manifests.built import MANIFESTS, Json, of_kind
from tests.unit.manifests.node_addons import COREDNS_RULES, FLANNEL_RULES
from tools.harness.controlplane.access.accounts import RBAC, REVIEWS, expect
from tools.harness.controlplane.clients.kustomize import kustomize
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.peers.informers import InformerProcess, spec

READ = ["list", "watch"]
# As kubeadm and flannel's manifest make them; system:node-proxier is kube-apiserver's own.
ROLES = {"system:coredns": COREDNS_RULES, "flannel": FLANNEL_RULES}
# Without their selectors: what kube-proxy, CoreDNS and flanneld list and watch.
WATCHED = [
    ("", "services"),
    ("discovery.k8s.io", "endpointslices"),
    ("networking.k8s.io", "servicecidrs"),
    ("", "nodes"),
    ("", "namespaces"),
]


@pytest.fixture
def plane(own_plane: ControlPlane) -> Iterator[ControlPlane]:
    """Where only these roles are bound to nodes."""
    made: list[tuple[str, Json]] = [
        ("clusterroles", {"metadata": {"name": name}, "rules": rules})
        for name, rules in ROLES.items()
    ]
    bindings = of_kind(kustomize(MANIFESTS / "rbac/node"), "ClusterRoleBinding")
    made += [("clusterrolebindings", body) for body in bindings]
    for kind, body in made:
        expect(own_plane.admin.post(f"{RBAC}/{kind}", body))
    yield own_plane
    for kind, body in made:
        own_plane.admin.delete(f"{RBAC}/{kind}/{body['metadata']['name']}")


def _may(plane: ControlPlane, verb: str, group: str, resource: str) -> bool:
    attributes = {"verb": verb, "group": group, "resource": resource}
    body = {"spec": {"user": NODE, "groups": [GROUP], "resourceAttributes": attributes}}
    return bool(expect(plane.admin.post(REVIEWS, body))["status"]["allowed"])


def test_a_relay_watches_all_that_a_nodes_daemons_do(plane: ControlPlane, tmp_path: Path) -> None:
    space = plane.create_namespace("node")
    rules = [{"apiGroups": [group], "resources": [name], "verbs": READ} for group, name in WATCHED]
    account = plane.service_account_dir(space, "daemon", [], cluster_rules=rules)
    with NodePlace(plane, tmp_path) as node:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_bytes(
            of_pods(
                listen=Address(LOOPBACK, node.relay.port),
                authority=node.ca,
                token=account.path / "token",
            )
        )
        specs = [
            spec("metadata", f"{name}.v1.{group}" if group else name) for group, name in WATCHED
        ]
        with InformerProcess(kubeconfig, specs) as informers:
            informers.wait_synced()
            assert "upstream refuses a stream" not in node.relay.log_text(all_lives=True)
            node.cut()
            informers.check()
        with InformerProcess(kubeconfig, specs) as later:
            later.wait_synced()


def test_nodes_may_read_these_and_write_nothing_of_them(plane: ControlPlane) -> None:
    for group, resource in WATCHED:
        assert all(_may(plane, verb, group, resource) for verb in READ), resource
        assert not any(
            _may(plane, verb, group, resource) for verb in ("create", "update", "patch", "delete")
        ), resource
    for resource in ("secrets", "configmaps", "serviceaccounts", "persistentvolumes"):
        assert not any(_may(plane, verb, "", resource) for verb in ("get", *READ)), resource
