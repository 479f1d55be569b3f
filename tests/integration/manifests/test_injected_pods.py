"""Pods as manifests/injection makes them, by their containers' own commands, variables and mounts:
unchanged in-cluster programs work through the relay, online and cut; the elector leads with the
generated Role alone."""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.manifests.confined import unused
from tests.integration.manifests.gm_and_lc import until
from tests.integration.manifests.injection import (
    ELECTOR,
    RELAY,
    RELAY_FLAGS,
    Injected,
    injected,
)
from tests.integration.manifests.pod_processes import PodProcesses
from tests.unit.manifests.built import Json
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.audit import AuditEvent
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.controlplane.fixtures import lack, require_program
from tools.harness.peers.informers import InformerProcess, spec

pytestmark = pytest.mark.slow

READ = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]
PROGRAM = """
import sys
from kubernetes import client, config
config.load_{0}_config()
found = client.CoreV1Api().list_namespaced_config_map(sys.argv[1])
print(*sorted(item.metadata.name for item in found.items))
"""


@pytest.fixture(scope="module")
def site(own_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Injected]:
    if os.geteuid() != 0:
        lack("pods as processes have networks and mounts of their own: run this as root")
    with injected(own_plane, tmp_path_factory.mktemp("injected")) as it:
        yield it


@pytest.fixture
def link(site: Injected) -> Iterator[FaultProxy]:
    with FaultProxy(site.plane.port) as it:
        yield it


@dataclass(frozen=True)
class Shop:
    """An account that may read ConfigMaps, of which there is one named a."""

    site: Injected
    namespace: str

    def pod(self, mode: str, **labels: str) -> Json:
        where = Injected(self.site.plane, self.namespace, self.site.typist)
        flags = {RELAY_FLAGS: "--preload=configmaps?namespace=$(POD_NAMESPACE)"}
        return where.pod({RELAY: mode, **labels}, flags, serviceAccountName="shop")

    def configmap(self, name: str) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        expect(self.site.plane.admin.post(path, {"metadata": {"name": name}}))


@pytest.fixture
def shop(site: Injected) -> Shop:
    namespace = site.plane.create_namespace("shop")
    site.plane.service_account_dir(namespace, "shop", READ)
    it = Shop(site, namespace)
    it.configmap("a")
    return it


def _python(pod: PodProcesses, namespace: str, *, kind: str = "incluster") -> list[str]:
    return pod.run("main", sys.executable, "-c", PROGRAM.format(kind), namespace).split()


def test_an_in_cluster_program_in_python_works_online_and_cut(shop: Shop, link: FaultProxy) -> None:
    with PodProcesses(shop.site.plane, shop.pod("in-cluster"), target=link.port) as pod:
        assert _python(pod, shop.namespace) == ["a"]
        link.refuse()
        assert _python(pod, shop.namespace) == ["a"]
        pod.restart("relay")
        pod.restart("in-cluster")
        assert _python(pod, shop.namespace) == ["a"]
        link.heal()
        shop.configmap("b")
        until(lambda: _python(pod, shop.namespace) == ["a", "b"], what="what is new")


def test_in_cluster_programs_of_client_go_work_online_and_cut(shop: Shop, link: FaultProxy) -> None:
    kubectl = require_program("kubectl")
    specs = [spec("typed", "configmaps", namespace=shop.namespace)]
    with PodProcesses(shop.site.plane, shop.pod("in-cluster"), target=link.port) as pod:

        def kubectl_names() -> str:
            return pod.run("main", kubectl, "get", "configmaps", "--output=name")

        def informed() -> list[str]:
            with pod.network.entered():
                [state] = informer.states(objects=True)
            return sorted(key.partition("/")[2] for key, _ in state.objects)

        assert kubectl_names() == "configmap/a\n"
        prefix, environ = pod.prefix("main"), pod.environ("main")
        with InformerProcess(None, specs, prefix=prefix, environ=environ) as informer:
            until(lambda: informed() == ["a"], what="the informer's list")
            link.refuse()
            assert kubectl_names() == "configmap/a\n"
            pod.restart("relay")
            shop.configmap("b")
            assert informed() == ["a"]
            link.heal()
            until(lambda: informed() == ["a", "b"], what="what changed meanwhile")
            with pod.network.entered():
                informer.check()


def test_a_program_that_reads_kubeconfigs_works_online_and_cut(
    shop: Shop, link: FaultProxy
) -> None:
    with PodProcesses(shop.site.plane, shop.pod("kubeconfig"), target=link.port) as pod:
        assert _python(pod, shop.namespace, kind="kube") == ["a"]
        link.refuse()
        assert _python(pod, shop.namespace, kind="kube") == ["a"]


def test_the_token_and_the_key_of_the_relay_are_not_where_the_main_reads(
    shop: Shop, link: FaultProxy
) -> None:
    with PodProcesses(shop.site.plane, shop.pod("in-cluster"), target=link.port) as pod:
        there = pod.run("main", "find", "/run", "-type", "f").split()
        folder = "/run/secrets/kubernetes.io/serviceaccount"
        assert {it for it in there if ".relay-sidecar" not in it} == {
            f"{folder}/{name}" for name in ("ca.crt", "namespace", "token")
        }
        assert "PRIVATE KEY" not in pod.run("main", "cat", f"{folder}/ca.crt")


@pytest.mark.long
def test_the_elector_leads_with_the_generated_role_alone_and_asks_no_relay(
    site: Injected, link: FaultProxy
) -> None:
    namespace = site.plane.create_namespace("shop")
    elector = f"{Path(sys.executable).parent}/elector-sidecar"
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    expect(site.plane.admin.post(path, {"metadata": {"name": "shop"}}))
    site.typist.type(
        f"{elector} rbac --lease shop --service-account shop"
        f" | kubectl apply --server-side --validate=strict --namespace {namespace} -f -"
    )
    where = Injected(site.plane, namespace, site.typist)
    body = where.pod({ELECTOR: "shop", RELAY: "in-cluster"}, serviceAccountName="shop")
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/shop"
    with PodProcesses(site.plane, body, target=link.port) as pod:
        until(lambda: pod.status(4041, "/readyz") == 200, what="the lead")
        holder = expect(site.plane.admin.get(lease))["spec"]["holderIdentity"]
        assert holder.startswith(body["metadata"]["name"])
        assert pod.run("main", elector, "check") == ""
        # Deleted by hand, it comes back: `create` is used as well.
        expect(site.plane.admin.delete(lease))
        until(lambda: site.plane.admin.get(lease)[0] == 200, what="the Lease again")
        role = expect(
            site.plane.admin.get(
                f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles/shop-elector"
            )
        )
        user = f"system:serviceaccount:{namespace}:shop"

        def events() -> list[AuditEvent]:
            return [
                it
                for it in site.plane.audit(stage=None, user=user)
                if it.user_agent.startswith("elector-sidecar")
            ]

        until(lambda: not unused(role["rules"], events()), what="each rule is used")
        assert {it.status for it in events()} <= {None, 200, 201, 404}
        # The way to the API server is cut: the relay answers, and the elector is told so by nobody.
        link.refuse()
        until(lambda: pod.status(4041, "/readyz") == 503, what="no lead without the API server")


def test_the_relay_keeps_with_the_generated_role_what_it_is_told_and_uses_all_of_it(
    site: Injected, link: FaultProxy
) -> None:
    namespace = site.plane.create_namespace("shop")
    relay = f"{Path(sys.executable).parent}/relay-sidecar"
    kept = f"configmaps?namespace={namespace}"
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    expect(site.plane.admin.post(path, {"metadata": {"name": "shop"}}))
    site.typist.type(
        f"{relay} rbac --service-account shop --namespace {namespace} --preload '{kept}'"
        f" | kubectl apply --server-side --validate=strict -f -"
    )
    Shop(site, namespace).configmap("a")
    where = Injected(site.plane, namespace, site.typist)
    flags = {RELAY_FLAGS: f"--preload={kept}"}
    body = where.pod({RELAY: "in-cluster"}, flags, serviceAccountName="shop")
    with PodProcesses(site.plane, body, target=link.port) as pod:
        assert _python(pod, namespace) == ["a"]
        roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles"
        rules = expect(site.plane.admin.get(f"{roles}/shop-relay"))["rules"]
        user = f"system:serviceaccount:{namespace}:shop"
        events = site.plane.audit(stage=None, user=user)
        until(
            lambda: not unused(rules, site.plane.audit(stage=None, user=user)),
            what="each rule is used",
        )
        assert {it.request_uri for it in events if it.status == 403} == set()
