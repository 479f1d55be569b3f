"""components/lc-tokens with real processes: who is an LC, by a token that the API server issued.

GM and LC have the variables, files and rights that the overlay gives them, and no others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from edge_sidecars.sedna_api.core.kinds import DATASET
from tests.integration.manifests.confined import AccountOf
from tests.integration.manifests.gm_and_lc import PATIENCE, rules, until
from tests.unit.manifests.built import containers, gm_rules, named, overlay
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.access.certificates import Authority
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.controlplane.schemas import sedna_kinds
from tools.harness.pods.edge_node import EdgeNode
from tools.harness.pods.gm import GmPod

Json = dict[str, Any]

OVERLAY = "active-standby-service"
# Where the component mounts what it needs.
MOUNTS = ("/run/gm-tls", "/run/gm-ca", "/run/gm-token")


def variables(kind: str, name: str, folder: Path, namespace: str) -> dict[str, str]:
    """Of a workload's main container: what the component adds, with files below `folder`."""
    container = list(containers(named(overlay(OVERLAY), kind, name)))[-1]
    found = {}
    for it in container["env"]:
        value = it.get("value", "")
        if value.startswith(MOUNTS):
            found[it["name"]] = f"{folder}{value}"
        elif it["name"] in ("GM_REVIEW_TOKENS", "GM_TRUST_ANY_LC"):
            found[it["name"]] = value
        elif it.get("valueFrom") == {"fieldRef": {"fieldPath": "metadata.namespace"}}:
            found[it["name"]] = namespace
    return found


def audience() -> str:
    """Of the token that kubelet mounts in LC's pod."""
    pod = named(overlay(OVERLAY), "DaemonSet", "lc")["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    (volume,) = [it for it in pod["volumes"] if it["name"] == "gm-token"]
    (source,) = volume["projected"]["sources"]
    return str(source["serviceAccountToken"]["audience"])


class Site:
    """A GM in a namespace of its own, and pods on nodes, with their tokens."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._plane, self._folder = plane, folder
        self.namespace = plane.create_namespace("tokens")
        reviews = rules(OVERLAY, "ClusterRole", "sedna-gm-token-reviews")
        nodes = rules(OVERLAY, "ClusterRole", "sedna-gm-nodes")
        gm = AccountOf(
            plane,
            namespace=self.namespace,
            account="gm",
            rules=[*rules(OVERLAY, "Role", "gm-elector"), *gm_rules()],
            cluster_rules=[*nodes, *reviews],
        )
        for account in ("lc", "shop"):
            path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
            expect(plane.admin.post(path, {"metadata": {"name": account}}))
        authority = Authority(folder, "gm-ca")
        files = authority.issue_server("gm", hosts=[LOOPBACK])
        self._put("/run/gm-tls/tls.crt", files.certificate.read_bytes())
        self._put("/run/gm-tls/tls.key", files.key.read_bytes())
        self._put("/run/gm-ca/ca.crt", authority.bundle.read_bytes())
        self.gm = GmPod(gm, self.namespace)
        self.gm.gm.environ |= variables("Deployment", "gm", folder, self.namespace)

    def _put(self, path: str, content: bytes) -> Path:
        place = Path(f"{self._folder}{path}")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        return place

    def pod(self, node: str, account: str) -> Json:
        """A pod of an account, bound to a node, that kubelet would ask tokens for."""
        self._plane.admin.post("/api/v1/nodes", {"metadata": {"name": node}})
        spec = {
            "nodeName": node,
            "serviceAccountName": account,
            "containers": [{"name": "main", "image": "example.com/x:1"}],
        }
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        body = {"metadata": {"generateName": f"{account}-"}, "spec": spec}
        return expect(self._plane.admin.post(path, body))

    def token(self, pod: Json, *, of_audience: str | None = None) -> str:
        """As kubelet projects it into the pod; "" as audience: for the API server."""
        wanted = audience() if of_audience is None else of_audience
        metadata, account = pod["metadata"], pod["spec"]["serviceAccountName"]
        bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"]}
        spec = {"boundObjectRef": {**bound, "uid": metadata["uid"]}, "expirationSeconds": 3600}
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token"
        body = {"spec": {**spec, "audiences": [wanted] if wanted else []}}
        return str(expect(self._plane.admin.post(path, body))["status"]["token"])

    def write_token(self, node: str, token: str) -> None:
        self._put(f"/{node}/run/gm-token/token", token.encode())

    @contextmanager
    def lc(self, node: str, token: str) -> Iterator[EdgeNode]:
        """An LC that says it is of `node`, with its own file for the token."""
        folder = self._folder / node
        self.write_token(node, token)
        ca = Path(f"{self._folder}/run/gm-ca/ca.crt").read_bytes()
        self._put(f"/{node}/run/gm-ca/ca.crt", ca)
        edge = EdgeNode(
            node,
            self._plane,
            [self.gm],
            mode="active-standby",
            namespace=self.namespace,
            root=folder / "root",
            flags=("--dataset-interval=1s", "--redial-cap=1s"),
        )
        edge.lc.environ |= variables("DaemonSet", "lc", folder, self.namespace)
        with ExitStack() as stack:
            stack.callback(edge.stop)
            edge.start()
            edge.lc.wait_ready()
            yield edge

    def connected(self) -> set[str]:
        return {it["node"] for it in self.gm.gm.status()["nodes"]}

    def dataset(self, node: str) -> str:
        spec = {"url": "/srv/a.txt", "format": "txt", "nodeName": node}
        body = {"apiVersion": "sedna.io/v1alpha1", "kind": "Dataset", "spec": spec}
        name = f"of-{node}"
        path = DATASET.collection(self.namespace)
        expect(self._plane.admin.post(path, {**body, "metadata": {"name": name}}))
        return DATASET.path(self.namespace, name)

    def samples(self, dataset: str) -> int | None:
        status, found = self._plane.admin.get(dataset)
        assert status == HTTPStatus.OK
        counted: int | None = found.get("status", {}).get("numberOfSamples")
        return counted


def never(is_so: Callable[[], object], *, within: float = 3.0) -> None:
    end = time.monotonic() + within
    while time.monotonic() < end:
        assert not is_so()
        time.sleep(0.05)


@pytest.fixture(scope="module")
def site(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    sedna_kinds.install(control_plane)
    made = Site(control_plane, tmp_path_factory.mktemp("tokens"))
    with made.gm:
        made.gm.wait_leading()
        yield made


@pytest.mark.long
@pytest.mark.slow
def test_an_lc_with_the_token_of_its_pod_is_its_node(site: Site) -> None:
    """And goes on with each token that kubelet puts there."""
    pod = site.pod("edge-a", "lc")
    dataset = site.dataset("edge-a")
    with site.lc("edge-a", site.token(pod)) as edge:
        edge.lc.write("/srv/a.txt", "1\n2\n")
        until(lambda: site.samples(dataset) == 2, what="its report counts")
        edge.cut()
        edge.lc.until(lambda it: not it["link"]["isUp"])
        site.write_token("edge-a", site.token(pod))
        edge.heal()
        edge.lc.until(lambda it: it["link"]["isUp"])
        edge.lc.write("/srv/a.txt", "1\n2\n3\n")
        until(lambda: site.samples(dataset) == 3, what="with a renewed token as well")


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("shows", ["another account's", "its API token", "none of ours"])
def test_another_token_is_no_lc(site: Site, shows: str) -> None:
    pod = site.pod("edge-b", "shop" if shows == "another account's" else "lc")
    token = "e30.e30.AAAA"
    if shows != "none of ours":
        token = site.token(pod, of_audience="" if shows == "its API token" else None)
    with site.lc("edge-b", token) as edge:
        edge.lc.until(lambda it: "PERMISSION_DENIED" in it["link"]["problem"], timeout=PATIENCE)
        never(lambda: "edge-b" in site.connected())


@pytest.mark.long
@pytest.mark.slow
def test_the_token_of_one_node_speaks_for_no_other(site: Site) -> None:
    """Which its LC names, as a node that is taken over may."""
    token = site.token(site.pod("edge-c", "lc"))
    dataset = site.dataset("edge-d")
    with site.lc("edge-d", token) as edge:
        edge.lc.write("/srv/a.txt", "1\n")
        edge.lc.until(lambda it: "PERMISSION_DENIED" in it["link"]["problem"], timeout=PATIENCE)
        never(lambda: {"edge-c", "edge-d"} & site.connected())
        assert site.samples(dataset) is None
