"""What `node install` would change on a node, from what is there."""

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from edge_sidecars.runtime.cli.values import BadInput, address
from pool_sidecar.config.member_config import NODE_KUBECONFIG
from relay_node.file_state import FileChange
from relay_node.installer import cni
from relay_node.installer.installation import Installation
from relay_node.installer.plan import CREDENTIAL, NodeOptions, plan
from relay_node.installer.systemd import units

DATA = Path("/var/lib/relay-sidecar")
KUBECONFIG = Path("/etc/kubernetes/kubelet.conf")
CA_FILE = Path("/etc/kubernetes/pki/ca.crt")
PEM = "/var/lib/kubelet/pki/kubelet-client-current.pem"
BRIDGE = {
    "cniVersion": "1.0.0",
    "name": "pods",
    "plugins": [
        {"type": "bridge", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/24"}]]}},
        {"type": "portmap"},
    ],
}
FLANNEL = {"name": "cbr0", "plugins": [{"type": "flannel", "delegate": {}}, {"type": "portmap"}]}


def kubeconfig(server: str = "https://10.0.0.1:6443", **user: str) -> dict[str, Any]:
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(b"CA").decode()}
    user = user or {"client-certificate": PEM, "client-key": PEM}
    return {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


class Node:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.installation = Installation(root, DATA)
        self.put(KUBECONFIG, json.dumps(kubeconfig()))
        self.put(CA_FILE, "CLIENT-CA")
        self.put(Path("/sticky-ipam"), "binary")
        self.put(cni.CONFIGURATIONS / "10-bridge.conflist", json.dumps(BRIDGE))

    def put(self, path: Path, text: str) -> None:
        target = self.installation.on_node(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def options(self, **changed: Any) -> NodeOptions:
        values: dict[str, Any] = {
            "kubelet_kubeconfig": KUBECONFIG,
            "data_dir": DATA,
            "listen": address("127.0.0.1:10550"),
            "pod_listen": address("169.254.20.11:10550"),
            "client_ca_file": CA_FILE,
            "keep_secrets": None,
            "sticky_ipam": self.root / "sticky-ipam",
            "program": ("/opt/relay-sidecar/bin/relay-sidecar",),
        }
        return NodeOptions(**(values | changed))

    def contents(self, **changed: Any) -> dict[Path, bytes]:
        made = plan(self.options(**changed), self.installation)
        return {change.path: change.content or b"" for change in made.changes}

    def notes(self) -> str:
        return "\n".join(plan(self.options(), self.installation).notes)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_kubelet_asks_the_relay_as_itself(node: Node) -> None:
    made = json.loads(node.contents()[KUBECONFIG])
    assert made["users"] == kubeconfig()["users"]
    assert made["clusters"][0]["cluster"] == {
        "server": "https://127.0.0.1:10550",
        "certificate-authority": "/var/lib/relay-sidecar/public/ca.crt",
    }


def test_what_may_not_go_through_the_relay_finds_the_way_past_it(node: Node) -> None:
    """Beside kubelet's kubeconfig, whose relative paths it has: the member of a pool."""
    content = kubeconfig(**{"client-certificate": "pki/client.pem", "client-key": "pki/client.pem"})
    cluster = content["clusters"][0]["cluster"]
    del cluster["certificate-authority-data"]
    cluster["certificate-authority"] = "pki/server-ca.crt"
    node.put(KUBECONFIG, json.dumps(content))
    node.put(KUBECONFIG.parent / "pki/server-ca.crt", "SERVER-CA")
    [path] = [it for it in node.contents() if it.name == "kubelet-upstream.conf"]
    assert path.parent == KUBECONFIG.parent
    made = json.loads(node.contents()[path])
    assert made["users"] == content["users"]
    assert made["clusters"][0]["cluster"] == {
        "server": "https://10.0.0.1:6443",
        "certificate-authority-data": base64.b64encode(b"SERVER-CA").decode(),
    }
    [first, *_] = NODE_KUBECONFIG.split(os.pathsep)
    assert first == str(path)


def test_the_relay_asks_the_api_server_as_the_node(node: Node) -> None:
    unit = node.contents()[units.FOLDER / units.RELAY].decode()
    [start] = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    words = start.removeprefix("ExecStart=").split()
    assert words[0] == "/opt/relay-sidecar/bin/relay-sidecar"
    for flag in (
        "--server=https://10.0.0.1:6443",
        f"--client-certificate={PEM}",
        "--certificate-authority=/var/lib/relay-sidecar/node/upstream-ca.crt",
        "--client-ca-file=/var/lib/relay-sidecar/node/client-ca.crt",
        "--kubelet-unit=kubelet.service",
        "--access=caller",
        "--access-ttl=10m",
        "--access-offline-ttl=7d",
        "--probe-interval=15s",
        "--pod-listen=169.254.20.11:10550",
    ):
        assert flag in words
    assert node.contents()[DATA / "node/upstream-ca.crt"] == b"CA"
    assert node.contents()[DATA / "node/client-ca.crt"] == b"CLIENT-CA"


def test_the_flags_of_the_unit_are_flags_of_the_relay(node: Node) -> None:
    from relay_sidecar.config.config import load

    unit = node.contents()[units.FOLDER / units.RELAY].decode()
    [start] = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    config = load(start.split()[1:], {})
    assert config.client_certificate == Path(PEM)
    assert config.log_refusals


def test_the_relay_is_there_before_kubelet_and_does_not_keep_it_from_starting(node: Node) -> None:
    contents = node.contents()
    assert "Before=kubelet.service" in contents[units.FOLDER / units.RELAY].decode()
    drop_in = contents[units.KUBELET_DROP_IN].decode()
    assert f"Wants={units.RELAY}" in drop_in
    assert "Requires" not in drop_in


@pytest.mark.parametrize(
    ("key", "flag", "line"),
    [
        ("/etc/keys/node.key", "--keep-secrets=/etc/keys/node.key", None),
        (
            f"/etc/credstore.encrypted/{CREDENTIAL}",
            f"--keep-secrets=%t/relay-sidecar/{CREDENTIAL}",
            # "-": without it the relay serves all but Secrets and tokens.
            f"ExecStartPre=-+systemd-creds decrypt --name={CREDENTIAL} "
            f"/etc/credstore.encrypted/{CREDENTIAL} %t/relay-sidecar/{CREDENTIAL}",
        ),
    ],
)
def test_the_key_is_a_file_or_a_credential(
    node: Node, key: str, flag: str, line: str | None
) -> None:
    unit = node.contents(keep_secrets=Path(key))[units.FOLDER / units.RELAY].decode()
    assert flag in unit
    assert ("systemd-creds" in unit) is (line is not None)
    assert line is None or line in unit.splitlines()


def test_host_local_is_replaced_and_keeps_its_ranges(node: Node) -> None:
    contents = node.contents()
    network = json.loads(contents[cni.CONFIGURATIONS / "10-bridge.conflist"])
    assert network["plugins"][0]["ipam"] == {
        "type": "sticky-ipam",
        "ranges": [[{"subnet": "10.1.0.0/24"}]],
        "sticky": {"stateDir": "/var/lib/relay-sidecar/cni"},
    }
    assert network["plugins"][1] == {"type": "portmap"}
    assert contents[cni.BINARY] == b"binary"


@pytest.mark.parametrize(
    ("plugin", "said"),
    [
        ({"type": "calico", "ipam": {"type": "host-local", "subnet": "usePodCidr"}}, "usePodCidr"),
        (
            {
                "type": "calico",
                "ipam": {"type": "host-local", "ranges": [[{"subnet": "usePodCidr"}]]},
            },
            "usePodCidr",
        ),
        ({"type": "cilium-cni"}, "cilium-cni gives the addresses itself"),
        ({"type": "multus-shim", "delegates": []}, "multus-shim gives the addresses itself"),
        ({"type": "bridge", "ipam": {"type": "whereabouts"}}, "addresses come from whereabouts"),
    ],
)
def test_what_cannot_keep_addresses_is_left_and_said(
    node: Node, plugin: dict[str, Any], said: str
) -> None:
    node.put(cni.CONFIGURATIONS / "10-bridge.conflist", json.dumps({"plugins": [plugin]}))
    assert cni.CONFIGURATIONS / "10-bridge.conflist" not in node.contents()
    assert said in node.notes()
    assert "services be dead" in node.notes()


@pytest.mark.parametrize(
    "content",
    [b'{"plugins": 3}', b"[]", b'{"plugins": [1]}', b'{"plugins": null}', b"\xff", b"[" * 5000],
)
def test_a_broken_network_is_left_and_said(node: Node, content: bytes) -> None:
    path = cni.CONFIGURATIONS / "10-bridge.conflist"
    node.installation.on_node(path).write_bytes(content)
    assert path not in node.contents()
    assert f"{path} is no " in node.notes()


def test_a_plugin_without_ipam_is_no_reason_to_end(node: Node) -> None:
    plugins = [*BRIDGE["plugins"], {"type": "bandwidth", "ipam": None}, {"type": "x", "ipam": 3}]
    node.put(cni.CONFIGURATIONS / "10-bridge.conflist", json.dumps({"plugins": plugins}))
    assert cni.CONFIGURATIONS / "10-bridge.conflist" in node.contents()


def test_a_configuration_keeps_its_mode(node: Node) -> None:
    path = cni.CONFIGURATIONS / "10-bridge.conflist"
    node.installation.on_node(path).chmod(0o600)
    made = plan(node.options(), node.installation)
    assert [it.mode for it in made.changes if it.path == path] == [0o600]


def test_the_relay_is_in_a_sandbox(node: Node) -> None:
    lines = node.contents()[units.FOLDER / units.RELAY].decode().splitlines()
    for line in ("ProtectSystem=strict", "NoNewPrivileges=yes", f"ReadWritePaths={DATA}"):
        assert line in lines
    # As root, which may do nothing else.
    assert [it for it in lines if it.startswith("CapabilityBoundingSet=")] == [
        "CapabilityBoundingSet=CAP_SYS_PTRACE"
    ]
    assert not [it for it in lines if it.startswith(("User=", "AmbientCapabilities="))]
    assert "PrivateTmp=yes" in lines
    # Which would hide the program.
    unit = node.contents(program=("/tmp/venv/bin/relay-sidecar",))[units.FOLDER / units.RELAY]
    assert "PrivateTmp=yes" not in unit.decode()


@pytest.mark.parametrize("text", ["/a\nExecStart=/x", "/a\x00", "/a\x85b", "/\ud800"])
def test_no_line_of_another_reaches_a_unit(node: Node, text: str) -> None:
    for changed in ({"keep_secrets": Path(text)}, {"more_flags": (f"--x={text}",)}):
        with pytest.raises(BadInput, match="no unit of systemd can have"):
            node.contents(**changed)


def test_the_proxy_of_kubelets_kubeconfig_is_the_relays(node: Node) -> None:
    content = kubeconfig()
    content["clusters"][0]["cluster"] |= {"proxy-url": "http://u:p%40@proxy:3128"}
    node.put(KUBECONFIG, json.dumps(content))
    contents = node.contents(kubelet_environ={"HTTPS_PROXY": "http://other:1", "NO_PROXY": "*"})
    assert contents[DATA / "node/environment"] == (
        b'HTTPS_PROXY="http://u:p%40@proxy:3128"\nNO_PROXY=""\n'
    )
    assert "proxy-url" not in contents[KUBECONFIG].decode()
    assert "proxy-url" in contents[KUBECONFIG.with_name("kubelet-upstream.conf")].decode()


def test_flannels_configuration_is_left_to_flannel_and_said(node: Node) -> None:
    node.put(cni.CONFIGURATIONS / "10-flannel.conflist", json.dumps(FLANNEL))
    assert cni.CONFIGURATIONS / "10-flannel.conflist" not in node.contents()
    assert "ConfigMap kube-flannel-cfg" in node.notes()


def test_a_network_without_host_local_is_said_with_what_follows(node: Node) -> None:
    calico = {"name": "k8s", "plugins": [{"type": "calico", "ipam": {"type": "calico-ipam"}}]}
    node.put(cni.CONFIGURATIONS / "10-calico.conflist", json.dumps(calico))
    node.put(cni.CONFIGURATIONS / "99-broken.conflist", "{")
    assert "calico-ipam" in node.notes()
    assert "services be dead" in node.notes()
    assert "99-broken.conflist is no JSON: left as it is" in node.notes()


def test_a_second_installation_is_made_from_the_originals(node: Node) -> None:
    first = node.contents()
    node.installation.install([FileChange(path, content) for path, content in first.items()])
    assert node.contents() == first
    assert node.contents(listen=address("127.0.0.1:10560")) != first


@pytest.mark.parametrize(
    "write",
    [
        lambda it: json.dumps(it, indent="\t"),
        lambda it: json.dumps(it | {"name" * 400: "of an extension"}),
        lambda it: "\ufeff" + json.dumps(it, indent=1).replace("\n", "\r\n"),
        lambda it: json.dumps(it | {"preferences": {"x": "\x7f"}}, ensure_ascii=False),
        lambda it: f"preferences: {{joined: 2026-13-41}}\n{yaml.safe_dump(it)}",
    ],
    ids=["tabs", "a long key", "of Windows", "a control character", "no time"],
)
def test_a_kubeconfig_may_be_written_in_each_way_that_client_go_reads(
    node: Node, write: Callable[[dict[str, Any]], str]
) -> None:
    node.put(KUBECONFIG, write(kubeconfig()))
    by_relay = json.loads(node.contents()[KUBECONFIG])
    assert by_relay["users"] == kubeconfig()["users"]


def test_a_second_installation_finds_what_the_kubeconfig_names_from_its_folder(node: Node) -> None:
    content = kubeconfig(**{"client-certificate": "pki/own.pem", "client-key": "../own.key"})
    content["clusters"][0]["cluster"] = {
        "server": "https://10.0.0.1:6443",
        "certificate-authority": "pki/server-ca.crt",
    }
    node.put(KUBECONFIG, json.dumps(content))
    node.put(KUBECONFIG.with_name("pki") / "server-ca.crt", "CA")
    first = plan(node.options(), node.installation)
    node.installation.install(first.changes)
    again = plan(node.options(), node.installation)
    assert again.upstream == first.upstream
    assert again.upstream.certificate == KUBECONFIG.with_name("pki") / "own.pem"
    assert node.installation.pending(again.changes) == []


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (kubeconfig("https://127.0.0.1:10550"), "the relay itself"),
        (kubeconfig("https://localhost:10550"), "the relay itself"),
        (kubeconfig("http://10.0.0.1"), "no https server"),
        (kubeconfig(token="t"), "rotateCertificates: true"),
        (
            kubeconfig(**{"client-certificate-data": "Q0E=", "client-key-data": "Q0E="}),
            "rotateCertificates: true",
        ),
        ({}, "name the file with which kubelet starts"),
    ],
)
def test_a_kubeconfig_that_cannot_serve_is_refused_with_the_remedy(
    node: Node, broken: dict[str, Any], message: str
) -> None:
    node.put(KUBECONFIG, json.dumps(broken))
    with pytest.raises(BadInput, match=message) as raised:
        node.contents()
    assert str(KUBECONFIG) in str(raised.value)


@pytest.mark.parametrize("path", [KUBECONFIG, CA_FILE, Path("/sticky-ipam")])
def test_a_file_that_is_missing_is_named(node: Node, path: Path) -> None:
    node.installation.on_node(path).unlink()
    with pytest.raises(BadInput, match=path.name):
        node.contents()
