"""`relay-sidecar node doctor`, `node status` and `node ipam-gc` on a node whose pods, Secrets,
tokens, images and addresses are real."""

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relay_node.ipam_gc import collect
from tests.integration.cni.test_sticky_ipam import Node as Network
from tests.integration.relay.node.breakages import KEY
from tests.integration.relay.node.folder_node import PAUSE, FolderNode
from tests.integration.relay.node.node_place import NodePlace, allow_nodes, unique, write_key
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.nodes.cni import sticky_ipam
from tools.harness.pods.wire.caller import Reply
from tools.harness.processes.process import installed
from tools.harness.relay_objects import Contents

IMAGE = "example.com/main:1"
SECRETS = ("db", "variables")
NODES, CSI_NODES = "/api/v1/nodes", "/apis/storage.k8s.io/v1/csinodes"
DRIVERS: dict[str, Any] = {"drivers": []}
# What the machine of the tests has is none of theirs.
UNTOLD = ("is on tmpfs", "no pod of kube-proxy", "it starts with --kubeconfig", "clusterDNS")


class Node:
    """`edge-…`, with all that a command is to look at below one folder."""

    def __init__(self, place: NodePlace, name: str, folder: Path) -> None:
        self.place = place
        self.name = name
        self.folder = folder
        self.network = Network(folder)
        self.environ: dict[str, str] = {}
        self.kubelet = place.caller(place.pair)
        self.kubeconfig = folder / "kubelet.conf"
        self.lead_to(place.relay.url, place.ca)
        relay = place.relay
        listen = f"{LOOPBACK}:{relay.port}"
        self.disk = FolderNode(folder / "root", listen=listen, journal=relay.data_dir)
        self.disk.at(KEY).parent.mkdir()
        write_key(self.disk.at(KEY))
        self.set_network("sticky-ipam")

    def lead_to(self, server: str, authority: Path) -> None:
        pair = {"client-certificate": str(self.place.file), "client-key": str(self.place.file)}
        cluster = {"server": server, "certificate-authority": str(authority)}
        content = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": pair}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        self.kubeconfig.write_text(json.dumps(content))

    def set_network(self, ipam: str) -> None:
        plugin = self.network.config()
        plugin["ipam"]["type"] = ipam
        configuration = self.folder / "net.d" / "10-pods.conflist"
        configuration.parent.mkdir(exist_ok=True)
        configuration.write_text(json.dumps({"name": "pods", "plugins": [plugin]}))

    def command(
        self, *words: str, path: str = os.environ["PATH"]
    ) -> subprocess.CompletedProcess[str]:
        relay = self.place.relay
        return subprocess.run(
            [
                *(str(installed("relay-sidecar")), "node", *words),
                f"--kubeconfig={self.kubeconfig}",
                f"--data-dir={self.folder / 'node'}",
                f"--listen={LOOPBACK}:{relay.port}",
                f"--url=http://{LOOPBACK}:{relay.status_port}",
            ],
            env={"PATH": path, **self.environ},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def doctor(self) -> list[str]:
        """What it says of the relay, and of the pods, of which none makes rules of Services; its
        exit status is that of what it says."""
        flags = [f"--cni-conf-dir={self.folder / 'net.d'}", f"--sticky-ipam={sticky_ipam()}"]
        flags.append(f"--root={self.disk.root}")
        done = self.command("doctor", *flags, path=f"{self.disk.bin}:{os.environ['PATH']}")
        *lines, last = done.stdout.splitlines()
        if any(line.startswith("fails: ") for line in [*lines, last]):
            assert done.returncode == 1, done.stderr
            lines.append(last)
        else:
            assert done.returncode == 3, done.stderr
            assert last == "nothing was found that would fail, but not all could be seen"
        return [line for line in lines if not any(it in line for it in UNTOLD)]

    def ask_token(self, pod: dict[str, Any]) -> Reply:
        """As kubelet does for the pod."""
        meta = pod["metadata"]
        bound = {"kind": "Pod", "apiVersion": "v1", "name": meta["name"], "uid": meta["uid"]}
        spec = {"expirationSeconds": 3607, "audiences": ["vault"], "boundObjectRef": bound}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{meta['namespace']}/serviceaccounts/default/token"
        return self.kubelet.ask(path, method="POST", body=body)

    def list_secret(self, contents: Contents, name: str) -> Reply:
        named = {"fieldSelector": f"metadata.name={name}", "resourceVersion": "0"}
        return self.kubelet.get(contents.path("secrets"), named)

    def report_images(self, *names: str) -> None:
        """By kubelet, and by the runtime."""
        self.disk.set_images([PAUSE, *names])
        images = [{"names": [name], "sizeBytes": 1} for name in names]
        admin = self.place.plane.admin
        expect(admin.patch(f"{NODES}/{self.name}/status", {"status": {"images": images}}))


@pytest.fixture(scope="module")
def rights(control_plane: ControlPlane) -> None:
    allow_nodes(control_plane)


@pytest.fixture
def node(control_plane: ControlPlane, tmp_path: Path, rights: None) -> Iterator[Node]:
    key, name = write_key(tmp_path / "node.key"), unique("edge")
    expect(control_plane.admin.post(NODES, {"metadata": {"name": name}}))
    user, flags = f"system:node:{name}", [f"--keep-secrets={key}"]
    with NodePlace(control_plane, tmp_path, user=user, flags=flags) as place:
        made = Node(place, name, tmp_path)
        # As kubelet does when it starts.
        expect(control_plane.admin.post(CSI_NODES, {"metadata": {"name": name}, "spec": DRIVERS}))
        made.kubelet.get(f"{CSI_NODES}/{name}").expect()
        yield made
    expect(control_plane.admin.delete(f"{NODES}/{name}"))


@pytest.fixture
def pod(node: Node, contents: Contents) -> dict[str, Any]:
    """It needs a token, two Secrets, an image and an address."""
    for name in SECRETS:
        contents.create("secrets", name, data={"k": base64.b64encode(b"v").decode()})
    token = {"path": "token", "audience": "vault", "expirationSeconds": 3607}
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "envFrom": [{"secretRef": {"name": "variables"}}],
    }
    spec = {
        "nodeName": node.name,
        "serviceAccountName": "default",
        "automountServiceAccountToken": False,
        "volumes": [
            {"name": "token", "projected": {"sources": [{"serviceAccountToken": token}]}},
            {"name": "db", "secret": {"secretName": "db"}},
        ],
        "containers": [container],
    }
    made = contents.create("pods", "web-0", spec=spec)
    set_address(contents, "10.9.0.77")
    node.report_images("example.com/other:1")
    return made


def set_address(contents: Contents, address: str) -> None:
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    contents.edit("pods", "web-0/status", {"status": status})


def supply(node: Node, contents: Contents, pod: dict[str, Any]) -> None:
    """All that the pod needs, as kubelet and the runtime would."""
    assert node.ask_token(pod).status == 201
    for name in SECRETS:
        node.list_secret(contents, name).expect()
    node.report_images("example.com/other:1", IMAGE)
    [address] = node.network.add(pod["metadata"]["uid"], "sandbox-1")
    set_address(contents, address)


def test_what_a_pod_lacks_is_found_until_it_is_there(
    node: Node, contents: Contents, pod: dict[str, Any]
) -> None:
    name = f"pod {contents.namespace}/web-0"
    remedy = "restart kubelet while the link is up"
    # The relay asks for tokens by itself, sooner or later than doctor looks.
    no_token = f"fails: {name}: no token of ServiceAccount default for vault is kept for it"
    assert [line for line in node.doctor() if line != f"{no_token}; {remedy}"] == [
        f"fails: {name}: Secret db is not kept; {remedy}",
        f"fails: {name}: Secret variables is not kept; {remedy}",
        f"fails: {name}, container main: image {IMAGE} is not on the node; pull it",
        f"fails: {name}: no reservation keeps its address 10.9.0.77; delete the pod, so that it is "
        "made anew",
    ]
    supply(node, contents, pod)
    assert node.doctor() == []
    node.set_network("host-local")
    [line] = node.doctor()
    assert "not set up by sticky-ipam: 1 pods" in line


def test_what_is_well_is_there_after_a_restart_while_cut(
    node: Node, contents: Contents, pod: dict[str, Any]
) -> None:
    supply(node, contents, pod)
    # What is looked at is learned by the relay, and kept.
    assert node.doctor() == []
    node.place.cut()
    for _ in range(2):
        lines = node.doctor()
        assert "those that the relay last knew" in lines[0]
        assert "the clock was not compared" in lines[1]
        assert len(lines) == 2
        node.place.relay.kill()
        node.place.relay.start()
    assert node.ask_token(pod).status == 201
    for name in SECRETS:
        node.list_secret(contents, name).expect()


def test_a_relay_that_has_lost_its_key_is_found(
    node: Node, contents: Contents, pod: dict[str, Any]
) -> None:
    supply(node, contents, pod)
    key = node.folder / "node.key"
    key.unlink()
    node.place.relay.kill()
    node.place.relay.start()
    node.place.relay.wait_link(up=True)
    [line] = node.doctor()
    assert f"fails: Secrets and tokens: --keep-secrets {key}" in line
    # Another key: what kubelet asks for from now on is sealed with that.
    write_key(key)
    node.place.relay.kill()
    node.place.relay.start()
    node.place.relay.wait_link(up=True)
    assert any("holds another key" in line for line in node.doctor())
    assert node.ask_token(pod).status == 201
    for name in SECRETS:
        node.list_secret(contents, name).expect()
    assert node.doctor() == []


def test_a_kubelet_that_goes_past_the_relay_is_found(
    node: Node, contents: Contents, pod: dict[str, Any]
) -> None:
    supply(node, contents, pod)
    plane = node.place.plane
    node.lead_to(f"https://{LOOPBACK}:{plane.port}", plane.ca_bundle)
    [line] = node.doctor()
    assert line.startswith(f"fails: kubelet: {node.kubeconfig} leads to https://")


def test_the_status_says_what_serves_and_what_is_kept(
    node: Node, contents: Contents, pod: dict[str, Any]
) -> None:
    supply(node, contents, pod)
    done = node.command("status")
    assert done.returncode == 0, done.stderr
    rows = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert rows["INSTALLED"] == f"no, not by {node.folder / 'node'}"
    assert rows["RELAY"].endswith(", ready")
    assert rows["LINK"].startswith("up, to ")
    assert rows["KEPT"] == "2 Secrets, 1 tokens"
    assert rows["KUBELET"].endswith(f"leads to {node.place.relay.url}, the relay")


def test_the_status_document_names_what_tokens_are_for_and_no_token(
    node: Node, contents: Contents, pod: dict[str, Any]
) -> None:
    given = node.ask_token(pod)
    meta = pod["metadata"]
    told = node.place.relay.status()
    assert told["secrets"] == {"isKept": True, "failure": None}
    assert told["tokens"] == [
        {
            "namespace": contents.namespace,
            "serviceAccount": "default",
            "podName": "web-0",
            "podUID": meta["uid"],
            "audiences": ["vault"],
            "expirationSeconds": 3607,
        }
    ]
    assert given.json()["status"]["token"] not in json.dumps(told)


# ── ipam-gc ──


def test_a_reservation_is_counted_absent_only_while_the_cloud_says_so(
    node: Node, contents: Contents, pod: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    def absent() -> set[str]:
        collect(node.kubeconfig, state_dir=node.network.state, binary=Path(sticky_ipam()))
        found = node.network.reservations().items()
        return {uid for uid, reservation in found if reservation.get("absent")}

    uid = pod["metadata"]["uid"]
    for sandbox, owner in enumerate((uid, "gone")):
        node.network.add(owner, f"sandbox-{sandbox}")
    node.network.delete("gone", "sandbox-1")
    assert absent() == {"gone"}
    assert "out of reach" not in capsys.readouterr().out
    contents.delete("pods", "web-0")
    node.place.cut()
    assert absent() == {"gone"}
    assert "the cloud is out of reach" in capsys.readouterr().out
    node.place.link.heal()
    node.place.relay.wait_link(up=True)
    assert absent() == {"gone", uid}
