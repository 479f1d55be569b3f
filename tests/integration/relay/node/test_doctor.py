"""`node doctor` on a folder that looks like a node's disk, with a real relay and API: each broken
thing is told, nothing else is, and what cannot be seen is never called good.

The same table is played on real nodes, which are rebooted: tests/node/test_doctor.py.
"""

import base64
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from edge_sidecars.runtime.cli.values import Address
from relay_node.doctor.findings import findings, notes
from relay_node.doctor.node_reader import Places, collect
from relay_node.doctor.report import as_text, exit_status
from tests.integration.relay.node.breakages import ALL, DATA, KEY, Breakage
from tests.integration.relay.node.folder_node import PAUSE, FolderNode
from tests.integration.relay.node.node_place import NodePlace, allow_nodes, unique
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.relay_objects import Contents

Json = dict[str, Any]
IMAGE = "example.com/main:1"
WORDS = {0: "nothing", 1: "fails", 3: "unknown"}
SERVICES, SLICES = "/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices"
# Accounts of what a node needs, and what each lists.
COMPONENTS = {
    "kube-proxy": (SERVICES, SLICES),
    "coredns-node": (SERVICES, SLICES, "/api/v1/namespaces"),
    "flannel": ("/api/v1/nodes",),
}
PATHS = {"kube-proxy": [], "coredns-node": [f"{DATA}/public"], "flannel": ["/opt/cni/bin"]}


@dataclass
class Patient:
    """A node, its disk, and the relay that serves it. `claims`: of its pod `web-0`."""

    place: NodePlace
    disk: FolderNode
    name: str
    folder: Path
    contents: Contents

    def ask(self) -> tuple[str, str]:
        """Doctor's word by its exit status, and all that it says."""
        relay = self.place.relay
        facts = collect(
            Places(
                root=self.disk.root,
                data_dir=Path(DATA),
                kubeconfig=self.disk.at("/etc/kubernetes/kubelet.conf"),
                listen=Address(LOOPBACK, relay.port),
                status_url=f"http://{LOOPBACK}:{relay.status_port}",
                cni_folder=None,
                sticky_ipam=Path("/bin/true"),
            )
        )
        found = [it for it in findings(facts) if "addresses of pods" not in str(it)]
        found = [it for it in found if "is on tmpfs" not in str(it)]
        return WORDS[exit_status(found)], as_text(found, notes(facts))

    def restart_relay(self) -> None:
        self.place.relay.kill()
        self.place.relay.start()
        self.place.relay.wait_link(up=True)


@pytest.fixture(scope="module")
def patient(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Patient]:
    folder, name = tmp_path_factory.mktemp("doctor"), unique("edge")
    root = folder / "root"
    (root / "etc/relay-sidecar").mkdir(parents=True)
    key = root / KEY.lstrip("/")
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(32))
    allow_nodes(control_plane)
    expect(control_plane.admin.post("/api/v1/nodes", {"metadata": {"name": name}}))
    namespace = unique("shop")
    expect(control_plane.admin.post("/api/v1/namespaces", {"metadata": {"name": namespace}}))
    flags = [f"--keep-secrets={key}"]
    with NodePlace(control_plane, folder, user=f"system:node:{name}", flags=flags) as place:
        relay = place.relay
        disk = FolderNode(root, listen=f"{LOOPBACK}:{relay.port}", journal=relay.data_dir)
        write_kubeconfig(place, disk)
        it = Patient(place, disk, name, folder, Contents(control_plane, namespace))
        for account in COMPONENTS:
            add_component(it, account)
        add_pod(it)
        disk.set_images([PAUSE, IMAGE])
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", f"{disk.bin}:{os.environ['PATH']}")
            yield it
    expect(control_plane.admin.delete(f"/api/v1/nodes/{name}"))


def write_kubeconfig(place: NodePlace, disk: FolderNode) -> None:
    pair = {"client-certificate": str(place.file), "client-key": str(place.file)}
    cluster = {"server": place.relay.url, "certificate-authority": str(place.ca)}
    content = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": pair}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = disk.at("/etc/kubernetes/kubelet.conf")
    path.write_text(json.dumps(content))


def pod_spec(node: str, account: str, **more: Any) -> Json:
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}
    return {
        "nodeName": node,
        "serviceAccountName": account,
        "automountServiceAccountToken": False,
        "volumes": [{"name": "token", "projected": {"sources": [token]}}],
        "containers": [{"name": "main", "image": IMAGE, "imagePullPolicy": "IfNotPresent"}],
        **more,
    }


def add_component(it: Patient, account: str) -> None:
    """As kubelet starts it, and as it asks the relay."""
    admin, plane = it.place.plane.admin, it.place.plane
    namespace = "kube-flannel" if account == "flannel" else "kube-system"
    admin.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    admin.post(accounts, {"metadata": {"name": account}})
    binding = {
        "metadata": {"name": unique(account)},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "cluster-admin",
        },
    }
    expect(admin.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding))
    spec = pod_spec(it.name, account, hostNetwork=True)
    container = spec["containers"][0]
    container["ports"] = [{"containerPort": 53}] if account == "coredns-node" else []
    if account == "flannel":
        container["command"] = ["cp", "/flannel", "/opt/cni/bin/flannel"]
        container["args"] = ["/etc/cni/net.d/10-flannel.conflist"]
        PATHS[account] = ["/opt/cni/bin", "/etc/cni/net.d"]
    for number, path in enumerate(PATHS[account]):
        spec["volumes"].append({"name": f"v{number}", "hostPath": {"path": path}})
        mount = {"name": f"v{number}", "mountPath": path}
        container.setdefault("volumeMounts", []).append(mount)
    contents = Contents(plane, namespace)
    made = contents.create("pods", unique(account), spec=spec)
    token = ask_token(it, made, account)
    caller = it.place.caller(token=token)
    for path in COMPONENTS[account]:
        caller.get(path).expect()


def ask_token(it: Patient, pod: Json, account: str) -> str:
    meta = pod["metadata"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": meta["name"], "uid": meta["uid"]}
    spec = {"expirationSeconds": 3607, "boundObjectRef": bound}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = f"/api/v1/namespaces/{meta['namespace']}/serviceaccounts/{account}/token"
    answer = it.place.caller(it.place.pair).ask(path, method="POST", body=body)
    token: str = answer.expect(201)["status"]["token"]
    return token


def add_pod(it: Patient) -> None:
    """It needs a Secret, a ConfigMap, a claim and its volume; and kubelet its CSINode."""
    plane, contents = it.place.plane, it.contents
    expect(plane.admin.post("/apis/storage.k8s.io/v1/csinodes", csi_node(it.name)))
    volume = unique("pv")
    expect(plane.admin.post("/api/v1/persistentvolumes", persistent_volume(volume)))
    contents.create("secrets", "db", data={"k": base64.b64encode(b"v").decode()})
    contents.configmap("settings", k="v")
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Mi"}},
        "volumeName": volume,
        "storageClassName": "",
    }
    contents.create("persistentvolumeclaims", "data", spec=claim)
    accounts = contents.path("serviceaccounts")
    expect(plane.admin.post(accounts, {"metadata": {"name": "default"}}))
    spec = pod_spec(it.name, "default")
    spec["volumes"] += [
        {"name": "db", "secret": {"secretName": "db"}},
        {"name": "optional", "secret": {"secretName": "optional", "optional": True}},
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
    ]
    made = contents.create("pods", "web-0", spec=spec)
    ask_token(it, made, "default")
    kubelet = it.place.caller(it.place.pair)
    for resource, name in (("secrets", "db"), ("secrets", "optional"), ("configmaps", "settings")):
        named = {"fieldSelector": f"metadata.name={name}", "resourceVersion": "0"}
        kubelet.get(contents.path(resource), named).expect()
    for path in (
        contents.path("persistentvolumeclaims", "data"),
        f"/api/v1/persistentvolumes/{volume}",
        f"/apis/storage.k8s.io/v1/csinodes/{it.name}",
    ):
        kubelet.get(path).expect()


def csi_node(name: str) -> Json:
    return {"metadata": {"name": name}, "spec": {"drivers": []}}


def persistent_volume(name: str) -> Json:
    spec = {
        "capacity": {"storage": "1Mi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/srv"},
    }
    return {"metadata": {"name": name}, "spec": spec}


def test_a_whole_node_is_called_good(patient: Patient) -> None:
    word, text = patient.ask()
    assert text == "nothing would fail"
    assert word == "nothing"


@pytest.mark.parametrize("breakage", ALL, ids=lambda it: it.name)
def test_what_is_broken_is_told_and_nothing_else(patient: Patient, breakage: Breakage) -> None:
    try:
        breakage.do(patient.disk)
        word, text = patient.ask()
    finally:
        patient.disk.put_back()
    assert word == breakage.word, text
    assert breakage.says in text


def test_what_is_put_back_is_called_good_again(patient: Patient) -> None:
    assert patient.ask()[1] == "nothing would fail"
