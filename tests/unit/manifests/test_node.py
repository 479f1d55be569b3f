"""What is applied for nodes with a relay: rights, DNS, kube-proxy, flannel, and what uses it."""

import json
from pathlib import Path

import pytest
import yaml

from edge_sidecars.runtime.cli.options import SERVICE_ACCOUNT_DIR
from edge_sidecars.runtime.cli.values import address
from relay_node.commands.node import DATA_DIR
from relay_node.installer.cni import STICKY
from relay_node.installer.installation import PUBLIC_CA
from relay_node.installer.kubelet import of_pods
from relay_node.installer.plan import POD_KUBECONFIG, POD_TOKEN
from relay_sidecar.config import DEFAULT_LISTEN
from tests.unit.manifests.built import (
    WORKLOADS,
    Json,
    containers,
    named,
    of_kind,
    overlay,
    workload,
    write_kustomization,
)
from tests.unit.manifests.node_addons import flannel, kube_proxy
from tools.harness.controlplane.clients.kustomize import kustomize

IN_CLUSTER = "in-cluster"
PUBLIC = str(DATA_DIR / PUBLIC_CA.parent)
HOST = "metadata.annotations['edge-sidecars.io/relay-host']"
PORT = "metadata.annotations['edge-sidecars.io/relay-port']"
LABEL = {"edge-sidecars.io/relay": ""}


def pod_spec(found: Json) -> Json:
    spec: Json = found["spec"]["template"]["spec"]
    return spec


def container(found: Json, name: str) -> Json:
    [it] = [it for it in containers(found) if it["name"] == name]
    return it


# ── pods that use the relay, unchanged ──


@pytest.fixture(scope="module", params=WORKLOADS)
def injected(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Json:
    body = workload(request.param, serviceAccountName="shop")
    other = {"name": "first", "image": "example.com/first:1", "env": [{"name": "A", "value": "b"}]}
    body["spec"]["template"]["spec"]["initContainers"] = [other]
    objects = kustomize(
        write_kustomization(tmp_path_factory.mktemp("injected"), [body], components=[IN_CLUSTER])
    )
    return named(objects, request.param, "shop")


def test_every_container_finds_the_directory_and_the_relay(injected: Json) -> None:
    for name in ("first", "main"):
        it = container(injected, name)
        [mount] = it["volumeMounts"]
        assert (mount["name"], mount["mountPath"]) == (IN_CLUSTER, SERVICE_ACCOUNT_DIR)
        told = {each["name"]: each["valueFrom"]["fieldRef"] for each in it["env"][-2:]}
        assert told == {
            "KUBERNETES_SERVICE_HOST": {"fieldPath": HOST},
            "KUBERNETES_SERVICE_PORT": {"fieldPath": PORT},
        }
    assert container(injected, "main")["volumeMounts"][0]["readOnly"]
    assert {"name": "A", "value": "b"} in container(injected, "first")["env"]
    assert pod_spec(injected)["automountServiceAccountToken"] is False
    annotations = injected["spec"]["template"]["metadata"]["annotations"]
    told = {name.partition("/")[2]: value for name, value in annotations.items()}
    assert told == {"relay-host": "169.254.20.11", "relay-port": str(address(DEFAULT_LISTEN).port)}


def test_the_directory_is_there_before_others_start_and_kept_fresh(injected: Json) -> None:
    names = [it["name"] for it in pod_spec(injected)["initContainers"]]
    assert names == ["in-cluster-first", IN_CLUSTER, "first"]
    first, sidecar = (container(injected, name) for name in names[:2])
    assert "--once" in first["args"]
    assert "restartPolicy" not in first
    assert sidecar["restartPolicy"] == "Always"
    assert [it for it in first["args"] if it != "--once"] == sidecar["args"]
    assert f"--output={SERVICE_ACCOUNT_DIR}" in sidecar["args"]


def test_the_sidecar_may_no_more_than_it_needs(injected: Json) -> None:
    for name in ("in-cluster-first", IN_CLUSTER):
        it = container(injected, name)
        context = it["securityContext"]
        assert context["runAsNonRoot"]
        assert context["readOnlyRootFilesystem"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        writable = [each["name"] for each in it["volumeMounts"] if not each.get("readOnly")]
        assert writable == [IN_CLUSTER]
        assert it["resources"]["limits"].keys() == {"memory"}
    volumes = {it["name"]: it for it in pod_spec(injected)["volumes"]}
    assert volumes[IN_CLUSTER]["emptyDir"]["medium"] == "Memory"
    assert volumes["relay-public"]["hostPath"]["path"] == PUBLIC


def test_another_address_is_told_in_one_place(tmp_path: Path) -> None:
    annotations = {"edge-sidecars.io/relay-host": "fe80::1"}
    patch = {**workload(), "spec": {"template": {"metadata": {"annotations": annotations}}}}
    patches = [{"target": {"kind": "Deployment"}, "patch": yaml.safe_dump(patch)}]
    folder = write_kustomization(tmp_path, [workload()], components=[IN_CLUSTER], patches=patches)
    found = named(kustomize(folder), "Deployment", "shop")
    told = found["spec"]["template"]["metadata"]["annotations"]
    assert told["edge-sidecars.io/relay-host"] == "fe80::1"


def test_listed_last_it_serves_other_sidecars_too(tmp_path: Path) -> None:
    body = workload(serviceAccountName="shop")
    components = ["elector-sidecar", IN_CLUSTER]
    found = named(
        kustomize(write_kustomization(tmp_path, [body], components=components)),
        "Deployment",
        "shop",
    )
    names = [it["name"] for it in pod_spec(found)["initContainers"]]
    assert names == ["in-cluster-first", IN_CLUSTER, "elector"]
    mounts = container(found, "elector")["volumeMounts"]
    assert {"name": IN_CLUSTER, "mountPath": SERVICE_ACCOUNT_DIR} in mounts


# ── pods that stay on a node that is cut off ──


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
@pytest.mark.parametrize("own", [[], [{"key": "a", "operator": "Exists"}]])
def test_pods_stay_where_the_node_is_cut_off(kind: str, own: list[Json], tmp_path: Path) -> None:
    body = workload(kind, **({"tolerations": own} if own else {}))
    folder = write_kustomization(tmp_path, [body], components=["keep-on-cut-nodes"])
    [found] = kustomize(folder)
    unreachable = "node.kubernetes.io/unreachable"
    kept = {"key": unreachable, "operator": "Exists", "effect": "NoExecute"}
    assert pod_spec(found)["tolerations"] == [*own, kept]


# ── what runs on the node itself ──


def test_nodes_may_what_their_daemons_may_and_no_more() -> None:
    bindings = of_kind(overlay("node"), "ClusterRoleBinding")
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}
    roles = [it["roleRef"]["name"] for it in bindings if it["subjects"] == [group]]
    assert sorted(roles) == ["flannel", "system:coredns", "system:node-proxier"]
    [other] = [it for it in bindings if it["subjects"] != [group]]
    assert other["roleRef"]["name"] == "system:coredns"
    [account] = of_kind(overlay("node"), "ServiceAccount")
    [subject] = other["subjects"]
    assert subject["name"] == account["metadata"]["name"]
    assert subject["namespace"] == account["metadata"]["namespace"]
    assert of_kind(overlay("node"), "Role", "ClusterRole", "RoleBinding") == []


def test_dns_asks_the_relay_at_the_address_for_pods() -> None:
    corefile = named(overlay("node"), "ConfigMap", "coredns-node")["data"]["Corefile"]
    assert f"kubeconfig {DATA_DIR / POD_KUBECONFIG} relay\n" in corefile
    daemons = named(overlay("node"), "DaemonSet", "coredns-node")
    hosts = {
        container(daemons, "coredns")[probe]["httpGet"]["host"]
        for probe in ("readinessProbe", "livenessProbe")
    }
    assert hosts == {"169.254.20.11"}
    assert "bind 169.254.20.11\n" in corefile


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> list[Json]:
    components = ["../overlays/node/kube-proxy"]
    folder = tmp_path_factory.mktemp("proxy")
    return kustomize(write_kustomization(folder, kube_proxy(), components=components))


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> list[Json]:
    components = ["../overlays/node/kube-flannel"]
    folder = tmp_path_factory.mktemp("network")
    return kustomize(write_kustomization(folder, flannel(), components=components))


def test_kube_proxy_has_the_nodes_kubeconfig_and_its_own_configuration(proxy: list[Json]) -> None:
    told = yaml.safe_load(named(proxy, "ConfigMap", "kube-proxy-relay")["data"]["kubeconfig.conf"])
    authority = DATA_DIR / PUBLIC_CA
    ours = of_pods(listen=address(DEFAULT_LISTEN), authority=authority, token=POD_TOKEN)
    assert told == json.loads(ours)
    [daemons] = of_kind(proxy, "DaemonSet")
    volumes = {it["name"]: it for it in pod_spec(daemons)["volumes"]}
    sources = volumes["kube-proxy"]["projected"]["sources"]
    names = [it["configMap"]["name"] for it in sources]
    assert names == ["kube-proxy", "kube-proxy-relay"]
    assert "configMap" not in volumes["kube-proxy"]


VIEW = "../overlays/node/endpoint-view"


def test_endpoint_view_kube_proxy_goes_there(tmp_path: Path) -> None:
    components = ["../overlays/node/kube-proxy", VIEW]
    found = kustomize(write_kustomization(tmp_path, kube_proxy(), components=components))
    settings = named(found, "ConfigMap", "kube-proxy-relay")["data"]
    view = address("127.0.0.1:10556")
    ours = of_pods(listen=view, authority=DATA_DIR / PUBLIC_CA, token=POD_TOKEN)
    assert yaml.safe_load(settings["kubeconfig.conf"]) == json.loads(ours)


def test_endpoint_view_coredns_goes_there_and_is_as_ever_otherwise(tmp_path: Path) -> None:
    found = kustomize(write_kustomization(tmp_path, overlay("node"), components=[VIEW]))
    settings = named(found, "ConfigMap", "coredns-node")["data"]
    before = named(overlay("node"), "ConfigMap", "coredns-node")["data"]["Corefile"]
    ordinary = f"kubeconfig {DATA_DIR / POD_KUBECONFIG} relay\n"
    assert settings["Corefile"] == before.replace(
        ordinary, "kubeconfig /etc/coredns/kubeconfig relay\n"
    )
    view = address("127.0.0.1:10556")
    ours = of_pods(listen=view, authority=DATA_DIR / PUBLIC_CA, token=POD_TOKEN)
    assert yaml.safe_load(settings["kubeconfig"]) == json.loads(ours)
    # All else is as it was.
    others = [it for it in found if it["metadata"]["name"] != "coredns-node"]
    assert [it for it in overlay("node") if it["metadata"]["name"] != "coredns-node"] == others


def test_flannel_has_the_nodes_kubeconfig_and_pods_keep_their_addresses(
    network: list[Json],
) -> None:
    settings = named(network, "ConfigMap", "kube-flannel-relay")["data"]
    original = named(flannel(), "ConfigMap", "kube-flannel-cfg")["data"]
    assert settings["net-conf.json"] == original["net-conf.json"]
    [plugin, _] = json.loads(settings["cni-conf.json"])["plugins"]
    assert (plugin["type"], plugin["ipam"]) == ("flannel", {"type": STICKY})
    [daemons] = of_kind(network, "DaemonSet")
    it = container(daemons, "kube-flannel")
    assert f"--kubeconfig-file={DATA_DIR / POD_KUBECONFIG}" in it["command"]
    assert it["args"] == ["--ip-masq", "--kube-subnet-mgr"]
    volumes = {it["name"]: it for it in pod_spec(daemons)["volumes"]}
    assert volumes["flannel-cfg"]["configMap"]["name"] == "kube-flannel-relay"


def test_flannel_installs_its_configuration_once_it_runs(network: list[Json]) -> None:
    [before] = of_kind(flannel(), "DaemonSet")
    [plugin, install] = pod_spec(before)["initContainers"]
    [daemons] = of_kind(network, "DaemonSet")
    assert pod_spec(daemons)["initContainers"] == [plugin]
    it = container(daemons, "kube-flannel")
    assert it["lifecycle"]["postStart"]["exec"]["command"] == install["command"] + install["args"]
    mounts = {(each["name"], each["mountPath"]) for each in it["volumeMounts"]}
    assert mounts >= {(each["name"], each["mountPath"]) for each in install["volumeMounts"]}


def test_the_daemons_are_second_ones_on_nodes_with_a_relay(
    proxy: list[Json], network: list[Json]
) -> None:
    originals = {it["metadata"]["name"] for it in (*kube_proxy(), *flannel())}
    for objects in (proxy, network, overlay("node")):
        [daemons] = of_kind(objects, "DaemonSet")
        spec = pod_spec(daemons)
        assert daemons["metadata"]["name"] not in originals
        assert spec["nodeSelector"].items() >= LABEL.items()
        mount = {"name": "relay-public", "mountPath": PUBLIC, "readOnly": True}
        assert mount in spec["containers"][0]["volumeMounts"]
        public = {"path": PUBLIC, "type": "Directory"}
        assert {"name": "relay-public", "hostPath": public} in spec["volumes"]
        labels = daemons["spec"]["template"]["metadata"]["labels"]
        assert labels.items() >= daemons["spec"]["selector"]["matchLabels"].items()
        for original in (*kube_proxy(), *flannel()):
            if original["kind"] == "DaemonSet":
                assert daemons["spec"]["selector"] != original["spec"]["selector"]
