"""`relay-sidecar node install` and `uninstall` by their command line: all or nothing."""

import base64
import datetime
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.relay.node.installable_node import (
    CLIENT_CA,
    CONFLIST,
    KEY,
    KUBECONFIG,
    KUBELET_CONFIG,
    PEM,
    POD_ADDRESS,
    Entry,
    InstallableNode,
)
from tests.integration.relay.node.node_place import GROUP, allow_nodes, unique
from tools.harness.controlplane.cluster import ControlPlane

RELAY = "relay-sidecar.service"
UNIT = f"etc/systemd/system/{RELAY}"
KUBELET = "kubelet.service"
OURS = "var/lib/relay-sidecar"
Change = Callable[[InstallableNode], object]


@pytest.fixture(scope="module")
def rights(control_plane: ControlPlane) -> None:
    allow_nodes(control_plane)


@pytest.fixture(scope="module")
def shared(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory, rights: None
) -> Iterator[InstallableNode]:
    it = InstallableNode(control_plane, tmp_path_factory.mktemp("node"))
    yield it
    it.close()


@pytest.fixture
def node(shared: InstallableNode) -> InstallableNode:
    """As before its first installation."""
    shared.make_files()
    return shared


@pytest.fixture
def fresh_node(
    control_plane: ControlPlane, tmp_path: Path, rights: None
) -> Iterator[InstallableNode]:
    it = InstallableNode(control_plane, tmp_path)
    yield it
    it.close()


def without_ours(node: InstallableNode) -> dict[str, Entry]:
    """What an uninstallation leaves as it was."""
    return without_ours_of(node.tree())


def without_ours_of(tree: dict[str, Entry]) -> dict[str, Entry]:
    return {name: it for name, it in tree.items() if not name.startswith(OURS)}


# ── bad input, and surroundings that do not work ──


def refuse(*words: str, flags: tuple[str, ...] = (), said: str, change: Change | None = None):  # type: ignore[no-untyped-def]
    return pytest.param(words, flags, change, said, id=said)


def write(path: str, content: bytes, mode: int = 0o644) -> Change:
    return lambda node: node.put(path, content, mode=mode)


def lead(path: str, target: str) -> Change:
    return lambda node: (node.root / path).symlink_to(target)


def kubeconfig(text: str) -> Change:
    return write(KUBECONFIG, text.encode(), 0o600)


def edit(change: Callable[[dict[str, object]], object]) -> Change:
    """Of kubelet's kubeconfig."""

    def work(node: InstallableNode) -> None:
        content = json.loads(node.read(KUBECONFIG))
        change(content)
        node.put(KUBECONFIG, json.dumps(content).encode(), mode=0o600)

    return work


def with_user(**user: str) -> Change:
    return edit(lambda it: it["users"][0].update(user=user))  # type: ignore[index]


def certificate(*, user: str | None = None, days: int = 1, own_key: bool = True) -> Change:
    def work(node: InstallableNode) -> None:
        issued = [
            node.plane.client_authority.issue_client(
                unique("bad"),
                user=user or f"system:node:{node.name}",
                group=GROUP,
                validity=datetime.timedelta(days=days, minutes=-30),
            )
            for _ in range(2)
        ]
        key = issued[0 if own_key else 1].key
        pem = issued[0].certificate.read_bytes() + key.read_bytes()
        node.put(PEM, pem, mode=0o600)

    return work


def behind_proxy(url: str) -> Change:
    def work(node: InstallableNode) -> None:
        (node.fake / "environ").write_text(f"HTTPS_PROXY={url}")
        node.lead_kubelet(server="https://10.0.0.1:6443")

    return work


BAD_INPUT = [
    refuse(flags=("--watch-bufer=1Mi",), said="did you mean --watch-buffer"),
    refuse(flags=("--retain=soon",), said="--retain"),
    refuse(flags=("--retain=1m",), said="shorter than --idle-timeout"),
    refuse(flags=("--listen=127.0.0.1:1",), said="--listen is what `node install` sets"),
    refuse(flags=("--help",), said="name flags of `relay-sidecar run`"),
    refuse(flags=("word",), said="word"),
    refuse("--keep-secrets=/nowhere/key", said="/nowhere/key: No such file"),
    refuse(change=write(KEY, b"x" * 31, 0o600), said="is not a key"),
    refuse(change=write(KEY, os.urandom(32)), said="mode 0644"),
    refuse("--keep-secrets=/etc", said="/etc: Is a directory"),
    refuse(
        f"--keep-secrets=/{OURS}/key",
        change=write(f"{OURS}/key", os.urandom(32), 0o600),
        said="lies in --data-dir",
    ),
    refuse("--keep-secrets=key", said="'key' is relative"),
    refuse("--kubelet-kubeconfig=/nowhere", said="/nowhere does not exist"),
    refuse("--kubelet-kubeconfig=etc/kubernetes/kubelet.conf", said="is relative"),
    refuse("--data-dir=data", said="'data' is relative"),
    refuse(change=kubeconfig("a: [b"), said="neither JSON nor YAML"),
    refuse(change=kubeconfig("clusters: 3"), said="clusters of"),
    refuse(change=with_user(token="t"), said="rotateCertificates: true"),
    refuse(
        change=edit(
            lambda it: it["users"][0]["user"].update(  # type: ignore[index]
                {"client-certificate": "/a\nExecStart=/x", "client-key": "/a\nExecStart=/x"}
            )
        ),
        said="no unit of systemd can have",
    ),
    refuse("--client-ca-file=/nowhere", said="--client-ca-file /nowhere"),
    refuse(change=write(CLIENT_CA, b"no certificate"), said="no certificate of a CA"),
    refuse(
        change=lambda node: node.put(CLIENT_CA, node.plane.ca_bundle.read_bytes()),
        said="no CA of --client-ca-file",
    ),
    refuse(change=lambda node: (node.root / PEM).unlink(), said="No such file"),
    refuse(change=write(PEM, b"half", 0o600), said="start kubelet, which makes both"),
    refuse(change=certificate(own_key=False), said="is not the key of"),
    refuse(change=certificate(days=0), said="renew it first"),
    refuse(change=certificate(user="alice"), said="is of alice, no node"),
    refuse(change=write("etc/kubernetes/pki/server-ca.crt", b"x"), said="holds no certificate"),
    refuse("--sticky-ipam=/etc/passwd", said="--sticky-ipam /etc/passwd"),
    refuse("--sticky-ipam=/bin/true", said="is another program"),
    refuse("--sticky-ipam=./sticky-ipam", said="is relative"),
    refuse("--pod-listen=10.0.0.5:10550", said="use a link-local one"),
    refuse(change=lambda node: (node.fake / "load").write_text("not-found"), said="not-found"),
    refuse(change=lead(UNIT, "/dev/null"), said=f"{RELAY}: not a regular file; move it away"),
    refuse(
        change=lambda node: (node.root / UNIT).mkdir(), said=f"{RELAY}: Is a directory; move it"
    ),
    refuse(
        change=lead(f"etc/systemd/system/{KUBELET}.wants", f"{KUBELET}.wants"),
        said="Too many levels of symbolic links; move it away",
    ),
    refuse(
        change=write(f"{OURS}/node/installed.json", b"[" * 20_000), said="installed.json cannot be"
    ),
    refuse(change=behind_proxy("socks5://p:1"), said="HTTPS_PROXY 'socks5://p:1'"),
    refuse(
        "--kubelet-kubeconfig=/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
        change=lambda node: node.put(
            "var/lib/rancher/k3s/agent/kubelet.kubeconfig", node.read(KUBECONFIG).encode()
        ),
        said="k3s or RKE2",
    ),
    refuse(
        "--kubelet-kubeconfig=/etc/kubernetes/none.conf",
        change=lambda node: (node.root / "var/lib/rancher/rke2/agent").mkdir(parents=True),
        said="a node of RKE2",
    ),
]


@pytest.mark.parametrize(("words", "flags", "change", "said"), BAD_INPUT)
def test_bad_input_is_named_and_nothing_is_changed(
    node: InstallableNode,
    words: tuple[str, ...],
    flags: tuple[str, ...],
    change: Change | None,
    said: str,
) -> None:
    if change is not None:
        change(node)
    before = node.tree()
    for mode in ("--dry-run", "--now"):
        done = node.install(mode, *words, flags=flags)
        [line] = done.stderr.splitlines()
        assert (done.returncode, said in line) == (2, True), line
        assert node.tree() == before
        assert node.active() == {KUBELET}
        assert not node.starts(RELAY)
        assert not node.starts(KUBELET)


def occupy(path: str) -> Change:
    """A file where a directory has to be."""
    return write(path, b"")


def fake(name: str, content: str) -> Change:
    """Of the tests' systemctl."""
    return lambda node: (node.fake / name).write_text(content)


def break_(change: Change, said: str, *words: str, status: int = 1):  # type: ignore[no-untyped-def]
    # Those that wait are many seconds each.
    marks = (pytest.mark.long,) if any("--patience" in word for word in words) else ()
    return pytest.param(change, words, status, said, id=said, marks=marks)


BROKEN = [
    break_(occupy(f"etc/systemd/system/{KUBELET}.d"), f"{KUBELET}.d", status=2),
    break_(occupy(OURS), OURS, status=2),
    break_(fake("fail", "^show"), "systemctl show"),
    break_(fake("fail", "^daemon-reload"), "systemctl daemon-reload: Job failed"),
    break_(fake("fail", f"^start.*{RELAY}"), f"{RELAY}: Job failed"),
    break_(fake("fail", "restart.*snapshot.path"), "snapshot.path: Job failed"),
    break_(fake("fail", f"^restart {KUBELET}"), f"restart {KUBELET}: Job failed"),
    break_(fake("dies", KUBELET), "kubelet does not stay up behind the relay"),
    break_(fake("dies", RELAY), "the relay does not serve: /readyz"),
    break_(
        edit(lambda it: it["clusters"][0]["cluster"].update(server="https://127.0.0.1:9")),  # type: ignore[index]
        "the relay does not serve: GET /api/v1/nodes/",
        "--patience=12s",
    ),
    break_(
        certificate(user="system:node:unknown"),
        "GET /api/v1/nodes/unknown: 404",  # a Node that kubelet has not made yet
        "--patience=12s",
    ),
    break_(lambda node: node.take_port(0), "Address already in use", "--patience=10s"),
]


@pytest.mark.parametrize(("change", "words", "status", "said"), BROKEN)
def test_what_does_not_work_is_taken_back(
    node: InstallableNode, change: Change, words: tuple[str, ...], status: int, said: str
) -> None:
    change(node)
    before = node.tree()
    done = node.install("--now", *words)
    [line] = done.stderr.splitlines()
    assert (done.returncode, said in line) == (status, True), line
    assert "its log: " in line or "does not serve" not in line
    assert node.tree() == before
    assert node.active() == {KUBELET}
    assert not node.addresses()


# ── what works ──


def test_what_is_installed_serves_and_is_taken_back_whole(node: InstallableNode) -> None:
    """Modes, owners and symbolic links too."""
    (node.root / KUBECONFIG).rename(node.root / "etc/kubernetes/real.conf")
    (node.root / KUBECONFIG).symlink_to("real.conf")
    if os.geteuid() == 0:
        os.chown(node.root / CONFLIST, 1000, 1000)
    before = node.tree()
    done = node.install("--now")
    assert done.returncode == 0, done.stderr
    assert node.starts(KUBELET) == 1
    assert RELAY in node.active()
    there = node.tree()
    assert there[CONFLIST][1:4] == before[CONFLIST][1:4]
    assert there[f"etc/systemd/system/kubelet.service.wants/{RELAY}"][4] == f"/{UNIT}"
    assert node.addresses() == {"127.0.0.77/32"}
    done = node.node("uninstall", "--now")
    assert done.returncode == 0, done.stderr
    assert without_ours(node) == without_ours_of(before)
    assert node.active() == {KUBELET}
    assert not node.addresses()
    assert node.node("uninstall").returncode == 2


@pytest.mark.long
def test_a_second_installation_keeps_what_it_is_not_given_anew(node: InstallableNode) -> None:
    assert node.install("--now", flags=("--retain=8d",)).returncode == 0
    first = node.read(UNIT)
    done = node.node("install")
    assert done.returncode == 0, done.stderr
    assert node.read(UNIT) == first
    assert f"note: --keep-secrets=/{KEY}, as installed before" in done.stdout
    assert "--retain=8d, as installed before" in done.stdout
    # One that fails leaves the one before, which goes on.
    before = node.tree()
    (node.fake / "fail").write_text("restart.*snapshot.path")
    assert node.node("install", "--now", "--keep-secrets=none").returncode == 1
    assert without_ours_of(node.tree()) == without_ours_of(before)
    assert node.relay_runs()
    done = node.node("install", "--keep-secrets=none")
    assert done.returncode == 0, done.stderr
    assert "--keep-secrets" not in node.read(UNIT)
    assert "does not come back after a reboot while cut" in done.stdout


def test_nothing_is_taken_from_the_working_directory(node: InstallableNode) -> None:
    evil = node.put("home/sticky-ipam", b"#!/bin/sh\necho sticky-ipam >&2\n", mode=0o755)
    (node.root / "opt/tests/sticky-ipam").unlink()
    done = node.install("--now", cwd=f"/{evil.parent.relative_to(node.root)}")
    assert done.returncode == 2
    assert "neither beside" in done.stderr
    assert "pip does not bring it" in done.stderr


def test_how_kubelet_reaches_the_api_server_is_how_the_relay_does(node: InstallableNode) -> None:
    node.lead_kubelet(**{"tls-server-name": "kubernetes.default.svc"})
    (node.fake / "environ").write_text("HTTPS_PROXY=http://u:p%40@127.0.0.1:9 NO_PROXY=127.0.0.1")
    content = json.loads(node.read(KUBECONFIG))
    # YAML has dates, which JSON has not.
    lines = [f"{name}: {json.dumps(value)}" for name, value in content.items()]
    text = "\n".join(["preferences: {joined: 2026-11-28}", *lines])
    node.put(KUBECONFIG, text.encode(), mode=0o600)
    done = node.install("--now")
    assert done.returncode == 0, done.stderr
    assert "--tls-server-name=kubernetes.default.svc" in node.read(UNIT)
    environment = f"{OURS}/node/environment"
    assert f"EnvironmentFile=/{environment}" in node.read(UNIT)
    assert 'HTTPS_PROXY="http://u:p%40@127.0.0.1:9"' in node.read(environment)
    assert node.tree()[environment][1] == 0o600


def test_what_pods_still_need_stays_until_nothing_names_it(node: InstallableNode) -> None:
    flannel = {"name": "cbr0", "plugins": [{"type": "flannel", "ipam": {"type": "sticky-ipam"}}]}
    node.put("etc/cni/net.d/05-flannel.conflist", json.dumps(flannel).encode())
    # As libcni keeps it of a container that runs.
    config = base64.b64encode(json.dumps({"ipam": {"type": "sticky-ipam"}}).encode()).decode()
    kept = "var/lib/cni/results/pods-1-eth0"
    node.put(kept, json.dumps({"kind": "cniCacheV1", "config": config}).encode())
    node.put(KUBELET_CONFIG, f"clusterDNS: [{POD_ADDRESS}]\n".encode())
    logs = node.root / "var/log/pods/kube-system_coredns-node-x7k2p_0b"
    logs.mkdir()
    assert node.install("--now").returncode == 0
    plugin, marker = "opt/cni/bin/sticky-ipam", "opt/cni/bin/sticky-ipam.passthrough"
    done = node.node("uninstall", "--now")
    assert done.returncode == 0, done.stderr
    assert {plugin, marker} <= node.tree().keys()
    assert node.addresses() == {f"{POD_ADDRESS}/32"}
    for said in (
        f"kubectl label node {node.name} edge-sidecars.io/relay-",
        "take away manifests/overlays/node and",
        f"/{KUBELET_CONFIG} has clusterDNS {POD_ADDRESS}",
        f"{POD_ADDRESS} stays on lo",
        "named by /etc/cni/net.d/05-flannel.conflist and 1 running sandboxes",
        "ConfigMap kube-flannel-cfg",
    ):
        assert said in done.stdout
    assert "no; /opt/cni/bin/sticky-ipam" in node.node("status").stdout
    # The overlay is gone, sandboxes of before are not.
    logs.rmdir()
    node.put(KUBELET_CONFIG, b"clusterDNS: [10.96.0.10]\n")
    (node.root / "etc/cni/net.d/05-flannel.conflist").unlink()
    done = node.node("uninstall")
    assert done.returncode == 0
    assert "clusterDNS" not in done.stdout
    assert {plugin, marker} <= node.tree().keys()
    assert not node.addresses()
    # An installation takes it over, and an uninstallation takes all back.
    assert node.install("--now").returncode == 0
    assert marker not in node.tree()
    (node.root / kept).unlink()
    done = node.node("uninstall", "--now")
    assert done.returncode == 0, done.stderr
    assert not {plugin, marker} & node.tree().keys()
    assert "no, not by" in node.node("status").stdout


# ── killed ──


def kill_at(node: InstallableNode, number: int) -> bool:
    """Whether an installation had so many calls of systemctl."""
    (node.fake / "kill-at").write_text(str(number))
    done = node.install("--now")
    (node.fake / "kill-at").unlink()
    return done.returncode != 0


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("again", ["install", "uninstall"])
@pytest.mark.parametrize(
    "number",
    [6, pytest.param(9, marks=pytest.mark.long), pytest.param(0, marks=pytest.mark.manual)],
)
def test_one_that_is_killed_is_taken_back_by_the_next(
    node: InstallableNode, number: int, again: str
) -> None:
    """At the call of that number; 0: at each."""
    before = node.tree()
    numbers = [number] if number else range(1, 30)
    for each in numbers:
        (node.fake / "calls").unlink(missing_ok=True)
        if not kill_at(node, each):
            assert each > 10
            assert node.node("uninstall", "--now").returncode == 0
            break
        kubelets = node.starts(KUBELET)
        is_changed = node.tree()[KUBECONFIG] != before[KUBECONFIG]
        if again == "install":
            assert node.install("--now").returncode == 0
        done = node.node("uninstall", "--now")
        if done.returncode != 2:  # nothing was begun
            assert done.returncode == 0, done.stderr
        assert without_ours(node) == without_ours_of(before), each
        assert node.active() == {KUBELET}
        assert not node.addresses()
        assert not is_changed or node.starts(KUBELET) >= kubelets


def test_an_uninstallation_that_is_killed_is_ended_by_the_next(node: InstallableNode) -> None:
    before = node.tree()
    assert node.install("--now").returncode == 0
    kubelets = node.starts(KUBELET)
    calls = len((node.fake / "calls").read_text().splitlines())
    # After the one that looks at kubelet: files are put back by then.
    (node.fake / "kill-at").write_text(str(calls + 2))
    assert node.node("uninstall", "--now").returncode != 0
    (node.fake / "kill-at").unlink()
    assert node.relay_runs()
    done = node.node("uninstall", "--now")
    assert done.returncode == 0, done.stderr
    assert node.active() == {KUBELET}
    assert node.starts(KUBELET) == kubelets + 1
    assert without_ours(node) == without_ours_of(before)
