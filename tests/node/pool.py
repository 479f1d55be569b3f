"""Nodes of a NodeCluster as a pool, as docs/how-to/pool.md makes them: `overlays/pool`, the labels,
the relays of the nodes with --pool and --endpoint-view, and kube-proxy and CoreDNS led to the view.

Owns what is installed for that. A context manager: everything is taken back in the end, in the
order in which an operator does it.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import docker

from tests.unit.manifests.built import overlay
from tools.harness.controlplane.access.accounts import expect
from tools.harness.nodes.cluster import NodeCluster
from tools.harness.nodes.images import pool_images
from tools.harness.nodes.node import Node
from tools.harness.nodes.workloads import RELAYED

Json = dict[str, Any]

NAME = "site"
LABELS = "edge-sidecars.node-restriction.kubernetes.io"
NAMESPACE = "edge-pool"
FLAGS = (
    "--pool=http://127.0.0.1:10553",
    "--pool-token-file=/var/lib/pool-sidecar/clients/token",
    "--endpoint-view=127.0.0.1:10556",
)
CLOUD_LINK = "pool.edge-sidecars.io/CloudLink"
_RELAY_STATUS, _MEMBER_STATUS = 10551, 10553
_DAEMONS = ("pool-member", "pool-candidate")


class NodePool:
    """Of RELAYED; its controller is on the node without a relay."""

    def __init__(self, cluster: NodeCluster, client: docker.DockerClient, folder: Path) -> None:
        self._cluster = cluster
        self._client = client
        self._folder = folder
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        cluster = self._cluster
        images = pool_images(self._client, self._folder)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda node: _load(node, images), cluster.nodes.values()))
        with ExitStack() as stack:
            stack.callback(self._remove)
            # First: the controller stays off the nodes of pools.
            for name in RELAYED:
                labels = f"{LABELS}/pool={NAME}", f"{LABELS}/may-lead=true"
                cluster.kubectl.run("label", "node", name, *labels).expect()
            cluster.apply(overlay("pool"))
            cluster.rolled_out(NAMESPACE, "deployment/controller")
            for name in _DAEMONS:
                cluster.rolled_out(NAMESPACE, f"daemonset/{name}")
            stack.callback(self._lead, has_view=False)
            self._lead(has_view=True)
            cluster.until(self.is_calm, what="the pool has a leader, and nobody borrows")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _lead(self, *, has_view: bool) -> None:
        """kube-proxy and CoreDNS to the view, or back."""
        cluster = self._cluster
        flags = FLAGS if has_view else ()
        if has_view:
            self._install(flags)
        cluster.lead_proxy_and_dns(has_view=has_view)
        if not has_view:
            self._install(flags)

    def _install(self, flags: Sequence[str]) -> None:
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda it: self._cluster.install(it, flags=flags), self._cluster.relayed))

    def _remove(self) -> None:
        kubectl = self._cluster.kubectl
        for name in RELAYED:
            labels = f"{LABELS}/pool-", f"{LABELS}/may-lead-"
            kubectl.run("label", "node", name, *labels).expect()
        self._cluster.until(lambda: not self.members(), what="the controller deletes PoolMembers")
        self._cluster.delete(overlay("pool"))

    # ── what befalls it ──

    @contextmanager
    def cut(self, name: str) -> Iterator[None]:
        """One node, which goes on over a neighbour; ends with the heal, and calm."""
        node = self._cluster.nodes[name]
        node.cut()
        try:
            self._cluster.until(
                lambda: node.status()["link"]["via"], what=f"the relay of {name} goes over another"
            )
            yield
        finally:
            node.heal()
        self._cluster.until(self.is_calm, what="the pool is as before")

    # ── what is seen ──

    def members(self) -> dict[str, Json]:
        """PoolMembers by name."""
        path = "/apis/pool.edge-sidecars.io/v1alpha1/poolmembers"
        found = expect(self._cluster.plane.admin.get(path))["items"]
        return {it["metadata"]["name"]: it for it in found}

    def is_calm(self) -> bool:
        """One leads, each goes over its own link and hears the others, and the cloud knows."""
        members = self.members()
        links = [members.get(name, {}).get("status", {}).get("link") for name in RELAYED]
        told = [_document(self._cluster.nodes[name], _MEMBER_STATUS) for name in RELAYED]
        leaders = [it for it in told if it and it["role"] == "Leader"]
        is_over_own = all(it and it["ownLink"] and not it["via"] for it in told)
        are_own = links == ["Own"] * len(links)
        return are_own and is_over_own and len(leaders) == 1 and self.hears_all()

    def hears_all(self) -> bool:
        """Each member the others; and the relays go by that."""
        return all(self._hears_all(self._cluster.nodes[name]) for name in RELAYED)

    def _hears_all(self, node: Node) -> bool:
        relay, member = _document(node, _RELAY_STATUS), _document(node, _MEMBER_STATUS)
        if relay is None or member is None or not relay["endpointView"]:
            return False
        verdicts = [it["verdict"] for it in member["peers"]]
        has_verdicts: bool = relay["endpointView"]["hasVerdicts"]
        return verdicts == ["Alive"] * (len(RELAYED) - 1) and has_verdicts


def _load(node: Node, images: Sequence[Path]) -> None:
    for archive in images:
        node.load(archive)


def _document(node: Node, port: int) -> Json | None:
    """None where nothing answers."""
    try:
        return node.status(port)
    except AssertionError:
        return None
