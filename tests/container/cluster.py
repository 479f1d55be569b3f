"""Three GMs in the cloud, two edge nodes behind a router, and people and workers; all in containers
but for the people, the kubelets that say what became of workers, and the controller manager.

Owns a namespace in one of the modes. Pods are what manifests say; rights too. Not there, because an
engine has none: the Service (LCs are told the pods' addresses instead) and the leader label that it
looks for.
"""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from tests.container.edge import TIMING as EDGE_TIMING
from tests.container.edge import EdgeContainers
from tests.container.gm import TIMING as GM_TIMING
from tests.container.gm import GmContainers
from tests.integration.system.gm_cluster import plan_of
from tests.unit.manifests.built import gm_rules
from tools.harness.containers.engine.lab import DockerLab
from tools.harness.containers.manifest import Manifest, Place
from tools.harness.containers.networks.network import Network
from tools.harness.containers.networks.router import Router, owner
from tools.harness.containers.program import Variables, merged
from tools.harness.controlplane.access.accounts import Rule, expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.edge_node import RELAY
from tools.harness.pods.system import AnySystem, node
from tools.harness.system.workers import Workers
from tools.harness.system.workload import Workload

# Of manifests/overlays, by mode.
OVERLAYS = {
    "active-standby": "active-standby-service",
    "active-active": "active-active",
    RELAY: RELAY,
}
LEASE = "gm"
GMS, EDGES, CLOUDS = 3, ("edge-a", "edge-b"), ("cloud-1",)
# Seconds in which everything must be final and right after a fault, on a busy machine; a quiet one
# is to need 30 (issue 5).
HEALING = 120.0


class ClusterNetwork:
    """What clusters have in common: an engine's networks with their router, and a control plane."""

    def __init__(
        self,
        docker_lab: DockerLab,
        images: Mapping[str, str],
        plane: ControlPlane,
        *,
        cloud: Network,
        edge: Network,
        watched: Network,
    ) -> None:
        self.docker_lab, self.images, self.plane = docker_lab, images, plane
        self.cloud, self.edge, self.watched = cloud, edge, watched
        self.router = Router(docker_lab, cloud, edge)
        host = str(urlsplit(plane.server).hostname)
        # Relays of edge nodes come from there.
        self.api_id = owner(docker_lab, cloud, host)
        self.router.lead(self.api_id, of=cloud)
        address = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": str(plane.port)}
        # Of those who ask the API server themselves.
        self.variables: Variables = {"elector": address, "relay": address}

    def account(
        self, namespace: str, name: str, rules: Sequence[Rule], cluster_rules: Sequence[Rule]
    ) -> Path:
        """A folder as kubelet projects it."""
        plane = self.plane
        it = plane.service_account_dir(namespace, name, rules, cluster_rules=cluster_rules)
        for path in (plane.folder, it.path, *it.path.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        return it.path


class ContainerCluster(AnySystem[GmContainers, EdgeContainers]):
    """A context manager; who breaks something in it heals it."""

    def __init__(self, cluster_network: ClusterNetwork, folder: Path, *, mode: str) -> None:
        namespace = cluster_network.plane.create_namespace("cluster")
        gms = _gms(cluster_network, namespace, folder, mode)
        edges = _edges(cluster_network, namespace, folder, mode, gms)
        self.workers = Workers()
        super().__init__(
            cluster_network.plane,
            folder,
            mode=mode,
            namespace=namespace,
            gms=gms,
            edges=edges,
            clouds=CLOUDS,
            plan_of=functools.partial(plan_of, self.workers),
        )
        self.workload = Workload(self, self.workers, seed=7)

    def leader(self, *, other_than: GmContainers | None = None) -> GmContainers:
        """Waits for one."""
        pods = [it for it in self.gms if it is not other_than]
        found: GmContainers = self.until(
            lambda: next((it for it in pods if it.may_act), None), what="a leader"
        )
        return found

    def settled(self) -> None:
        """Nothing doubled, nothing lost, every status right, LCs' stores as the API; fails where
        it is not so in time."""
        self.workers.quiet.set()
        try:
            self.until(lambda: not self._wrongs(), what="all is right", timeout=HEALING)
        except AssertionError as error:
            raise AssertionError(f"{self._wrongs()[:5]}: {error}") from None
        finally:
            self.workers.quiet.clear()
        assert not self.api_observer.doubled
        assert not self.api_observer.reopened
        assert not self.workers.complaints
        programs = [it for gm in self.gms for it in gm.programs.values()]
        programs += [it for edge in self.edges.values() for it in edge.programs.values()]
        assert not [it.log_text() for it in programs if it.has_ended]

    def _wrongs(self) -> list[str]:
        return self.workload.wrongs() or self.unsettled_reports() or self.wrong_stores()


# kubelet makes no tokens here.
_TRUSTING_GM: Variables = {
    "gm": {
        "GM_REVIEW_TOKENS": None,
        "GM_TLS_CERT": None,
        "GM_TLS_KEY": None,
        "GM_TRUST_ANY_LC": "true",
    }
}
_TRUSTING_LC = {"LC_SERVER_CA": None, "LC_GM_TOKEN_FILE": None}


def _gms(
    cluster_network: ClusterNetwork, namespace: str, folder: Path, mode: str
) -> list[GmContainers]:
    manifest = Manifest(OVERLAYS[mode])
    lease = {**manifest.find("Lease", LEASE), "metadata": {"name": LEASE}}
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    expect(cluster_network.plane.admin.post(leases, lease))
    account = cluster_network.account(
        namespace,
        "gm",
        [*manifest.rules("Role", "gm-elector"), *gm_rules()],
        manifest.rules("ClusterRole", "sedna-gm-nodes"),
    )
    own: Variables = {
        # The clusters of other modes are not its own.
        "gm": {"GM_NAMESPACE": namespace},
        "elector": {"ELECTOR_LEADER_LABEL": None},
    }
    if mode != RELAY:
        own = merged(own, _TRUSTING_GM)
    return [
        GmContainers(
            cluster_network.docker_lab,
            cluster_network.images,
            manifest,
            Place(f"gm-{number}", namespace, "", folder / f"gm-{number}", account),
            networks=(cluster_network.cloud, cluster_network.watched),
            router=cluster_network.router,
            api_id=cluster_network.api_id,
            variables=merged(GM_TIMING, cluster_network.variables, own),
        )
        for number in range(GMS)
    ]


def _edges(
    cluster_network: ClusterNetwork,
    namespace: str,
    folder: Path,
    mode: str,
    gms: Sequence[GmContainers],
) -> dict[str, EdgeContainers]:
    manifest = Manifest(OVERLAYS[mode])
    account = None
    own: Variables = {"lc": {"GM_ADDRESS": ",".join(it.address for it in gms), **_TRUSTING_LC}}
    if mode == RELAY:
        account = cluster_network.account(
            namespace, "lc", [], manifest.rules("ClusterRole", "sedna-lc")
        )
        own = {"lc": {"LC_NAMESPACE": namespace}}
    return {
        name: EdgeContainers(
            cluster_network.docker_lab,
            cluster_network.images,
            manifest,
            Place(f"lc-{name}", namespace, node(name, namespace), folder / name, account),
            networks=(cluster_network.edge, cluster_network.watched),
            router=cluster_network.router,
            variables=merged(EDGE_TIMING, cluster_network.variables, own),
        )
        for name in EDGES
    }
