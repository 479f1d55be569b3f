"""Things of a node that break, one at a time: how, what `node doctor` has to say, and whether the
node comes back from a reboot while it is cut off.

One table for nodes as containers (tests/node) and for a folder that looks like one
(tests/integration/relay/node): `NodeFiles` is what both offer.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from edge_sidecars.runtime.certificates.maker import key_pem, new_key
from tools.harness.nodes.configuration import CERTIFICATE, CLIENT_CA, KUBECONFIG

UNITS: Final = "/etc/systemd/system"
RELAY, KUBELET, CONTAINERD = "relay-sidecar.service", "kubelet.service", "containerd.service"
KUBELET_DROP_IN: Final = f"{UNITS}/kubelet.service.d/20-relay-sidecar.conf"
KUBELET_SETTINGS: Final = "/etc/kubernetes/kubelet.json"
SETTINGS_DROP_INS: Final = "/etc/kubernetes/kubelet.conf.d"
RUNTIME_SETTINGS: Final = "/etc/containerd/config.toml"
KEY: Final = "/etc/relay-sidecar/key"
DATA: Final = "/var/lib/relay-sidecar"
_ELSEWHERE: Final = "--data-dir=/var/lib/elsewhere"
PLUGINS, NETWORKS = "/opt/cni/bin", "/etc/cni/net.d"
FLANNEL: Final = f"{NETWORKS}/10-flannel.conflist"

# nothing: doctor says that nothing would fail.
Word = Literal["fails", "unknown", "nothing"]


class NodeFiles(Protocol):
    """Of one node, running. What is changed is put back after the test."""

    def read(self, path: str) -> str: ...

    def write(self, path: str, content: str | bytes, mode: int = 0o644) -> None: ...

    def remove(self, path: str) -> None: ...

    def link(self, path: str, target: str) -> None: ...

    def chmod(self, path: str, mode: int) -> None: ...

    def restart(self, unit: str) -> None:
        """After systemd has read its files."""
        ...


@dataclass(frozen=True)
class Breakage:
    """`says`: a part of the line with which doctor tells it. `comes_back` None: either is right,
    since doctor does not know."""

    name: str
    do: Callable[[NodeFiles], None]
    word: Word
    says: str
    comes_back: bool | None


def fails(name: str, says: str, do: Callable[[NodeFiles], None]) -> Breakage:
    return Breakage(name, do, "fails", says, comes_back=False)


def harmless(name: str, do: Callable[[NodeFiles], None]) -> Breakage:
    """It looks broken, and comes back."""
    return Breakage(name, do, "nothing", "nothing would fail", comes_back=True)


def unseen(name: str, says: str, do: Callable[[NodeFiles], None]) -> Breakage:
    return Breakage(name, do, "unknown", says, comes_back=None)


# ── how ──


def drop_in(unit: str, *lines: str) -> Callable[[NodeFiles], None]:
    def do(node: NodeFiles) -> None:
        node.write(f"{UNITS}/{unit}.d/50-broken.conf", "\n".join([*lines, ""]))

    return do


def started_as(unit: str, change: Callable[[str], str]) -> Callable[[NodeFiles], None]:
    """Another ExecStart=, by a drop-in."""

    def do(node: NodeFiles) -> None:
        lines = node.read(f"{UNITS}/{unit}").replace("\\\n", " ").splitlines()
        [line] = [it for it in lines if it.startswith("ExecStart=")]
        drop_in(unit, "[Service]", "ExecStart=", change(line))(node)

    return do


def removed(*paths: str) -> Callable[[NodeFiles], None]:
    def do(node: NodeFiles) -> None:
        for path in paths:
            node.remove(path)

    return do


def masked(unit: str) -> Callable[[NodeFiles], None]:
    def do(node: NodeFiles) -> None:
        node.remove(f"{UNITS}/{unit}")
        node.link(f"{UNITS}/{unit}", "/dev/null")

    return do


def edited(path: str, old: str, new: str) -> Callable[[NodeFiles], None]:
    def do(node: NodeFiles) -> None:
        before = node.read(path)
        assert old in before, f"{path} has no {old!r}: {before}"
        node.write(path, before.replace(old, new))

    return do


def written(path: str, content: str | bytes, mode: int = 0o644) -> Callable[[NodeFiles], None]:
    return lambda node: node.write(path, content, mode)


def with_mode(path: str, mode: int) -> Callable[[NodeFiles], None]:
    return lambda node: node.chmod(path, mode)


_SETTINGS_KIND: Final = (
    '"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"'
)


def _settings_by_drop_in(content: str) -> Callable[[NodeFiles], None]:
    """Of kubelet's configuration."""

    def do(node: NodeFiles) -> None:
        started_as(KUBELET, lambda line: f"{line} --config-dir={SETTINGS_DROP_INS}")(node)
        node.write(f"{SETTINGS_DROP_INS}/more/50-dns.conf", content)

    return do


def _with_tabs(node: NodeFiles) -> None:
    settings = json.loads(node.read(KUBELET_SETTINGS))
    node.write(KUBELET_SETTINGS, json.dumps(settings, indent="\t"))


def _without_interpreter(node: NodeFiles) -> None:
    node.write("/usr/local/bin/broken", "#!/no/such/python3\n", 0o755)
    drop_in(RELAY, "[Service]", "ExecStartPre=/usr/local/bin/broken")(node)


def _with_another_key(node: NodeFiles) -> None:
    node.write(f"{DATA}/ca.key", key_pem(new_key()), 0o600)


def _with_swap(node: NodeFiles) -> None:
    settings = node.read(KUBELET_SETTINGS).replace('"failSwapOn": false,', "")
    node.write(KUBELET_SETTINGS, settings)
    node.write("/etc/fstab", "# none\n/swapfile none swap sw 0 0\n")


def _restarted_nicely(node: NodeFiles) -> None:
    drop_in(RELAY, "[Service]", "Nice=1")(node)
    node.restart(RELAY)


def _past_the_relay(node: NodeFiles) -> None:
    node.write(
        KUBECONFIG, re.sub(r'https://[^"]+', "https://127.0.0.1:9", node.read(KUBECONFIG)), 0o600
    )


_WANTED: Final = f"{UNITS}/multi-user.target.wants"
_ENABLED: Final = (f"{_WANTED}/{RELAY}", f"{UNITS}/kubelet.service.wants/{RELAY}")

# Of the relay's unit, its files, and its key.
OF_RELAY: Final = (
    fails(
        "the relay's unit is gone", "there is no unit relay-sidecar", removed(f"{UNITS}/{RELAY}")
    ),
    fails("the relay's unit is masked", f"{RELAY}: it is masked", masked(RELAY)),
    harmless("the relay is disabled, and kubelet wants it", removed(*_ENABLED)),
    fails(
        "the relay is disabled",
        f"{RELAY}: nothing starts it at a boot",
        removed(*_ENABLED, KUBELET_DROP_IN),
    ),
    fails(
        "another program is started instead of the relay",
        "ExecStart= /bin/false ends at once",
        drop_in(RELAY, "[Service]", "ExecStart=", "ExecStart=/bin/false"),
    ),
    fails(
        "nothing is started instead of the relay",
        "it has no ExecStart=",
        drop_in(RELAY, "[Service]", "ExecStart="),
    ),
    fails(
        "the relay has a flag that there is not",
        "--no-such-flag",
        started_as(RELAY, lambda line: f"{line} --no-such-flag"),
    ),
    fails(
        "the relay has a value that is none",
        "--retain",
        started_as(RELAY, lambda line: f"{line} --retain=soon"),
    ),
    fails(
        "the relay has a condition",
        "ConditionPathExists=/no/such does not hold",
        drop_in(RELAY, "[Unit]", "ConditionPathExists=/no/such"),
    ),
    fails(
        "the relay asserts what is not so",
        "AssertPathExists=/no/such does not hold",
        drop_in(RELAY, "[Unit]", "AssertPathExists=/no/such"),
    ),
    fails(
        "a program is missing before the relay",
        "ExecStartPre= /no/such does not exist",
        drop_in(RELAY, "[Service]", "ExecStartPre=/no/such"),
    ),
    fails(
        "variables of the relay are missing",
        "EnvironmentFile= /no/such does not exist",
        drop_in(RELAY, "[Service]", "EnvironmentFile=/no/such"),
    ),
    fails(
        "the relay's folder is missing",
        "WorkingDirectory= /no/such does not exist",
        drop_in(RELAY, "[Service]", "WorkingDirectory=/no/such"),
    ),
    unseen(
        "the relay needs a unit that there is not",
        "no-such.service, which it requires, is missing",
        drop_in(RELAY, "[Unit]", "Requires=no-such.service"),
    ),
    fails(
        "the relay has a network of its own",
        "PrivateNetwork=",
        drop_in(RELAY, "[Service]", "PrivateNetwork=yes"),
    ),
    fails(
        "the relay has a user that there is not",
        "User= no-such does not exist",
        drop_in(RELAY, "[Service]", "User=no-such"),
    ),
    unseen(
        "the relay has a user that may read nothing",
        f"{UNITS}/{RELAY}.d/50-broken.conf changed after it was started",
        drop_in(RELAY, "[Service]", "User=nobody"),
    ),
    unseen(
        "the relay has too little memory",
        f"{UNITS}/{RELAY}.d/50-broken.conf changed after it was started",
        drop_in(RELAY, "[Service]", "MemoryMax=4M"),
    ),
    harmless("the relay was started with its drop-in", _restarted_nicely),
    fails(
        "the relay keeps elsewhere from its next start on",
        "--data-dir /var/lib/elsewhere",
        started_as(RELAY, lambda line: re.sub(r"--data-dir=\S+", _ELSEWHERE, line)),
    ),
    fails(
        "the relay keeps no Secrets from its next start on",
        "without --keep-secrets",
        started_as(RELAY, lambda line: line.replace(f"--keep-secrets={KEY}", "")),
    ),
    fails(
        "the API server's CA is gone",
        f"--certificate-authority {DATA}/node/upstream-ca.crt does not exist",
        removed(f"{DATA}/node/upstream-ca.crt"),
    ),
    fails(
        "kubelet's CA is gone",
        f"--client-ca-file {DATA}/node/client-ca.crt does not exist",
        removed(f"{DATA}/node/client-ca.crt"),
    ),
    fails("the key of the node's CA is gone", f"{DATA}/ca.key", removed(f"{DATA}/ca.key")),
    fails(
        "the key of the node's CA is another one",
        f"{DATA}/ca.key is not the key of {DATA}/public/ca.crt",
        _with_another_key,
    ),
    fails(
        "a program of the relay's unit has no interpreter",
        "/no/such/python3, which runs /usr/local/bin/broken, does not exist",
        _without_interpreter,
    ),
    fails("the key is gone", f"--keep-secrets {KEY}", removed(KEY)),
    fails("the key is another one", "holds another key", written(KEY, bytes(range(32)), 0o600)),
    fails("the key is too short", "is not a key", written(KEY, b"x" * 31, 0o600)),
    fails("all may read the key", "has mode 0644", with_mode(KEY, 0o644)),
)

# Of kubelet.
OF_KUBELET: Final = (
    fails(
        "kubelet is disabled",
        f"{KUBELET}: nothing starts it at a boot",
        removed(f"{_WANTED}/{KUBELET}"),
    ),
    fails("kubelet is masked", f"{KUBELET}: it is masked", masked(KUBELET)),
    fails(
        "another program is started instead of kubelet",
        "ExecStart= /no/such/kubelet does not exist",
        drop_in(KUBELET, "[Service]", "ExecStart=", "ExecStart=/no/such/kubelet"),
    ),
    unseen(
        "kubelet has a flag that there is not",
        f"{UNITS}/{KUBELET}.d/50-broken.conf changed after it was started",
        started_as(KUBELET, lambda line: f"{line} --no-such-flag"),
    ),
    unseen(
        "kubelet needs a unit that there is not",
        "no-such.service, which it requires, is missing",
        drop_in(KUBELET, "[Unit]", "Requires=no-such.service"),
    ),
    fails("kubelet goes past the relay", "not to the relay", _past_the_relay),
    fails("kubelet's certificate is gone", "does not exist", removed(CERTIFICATE)),
    fails(
        "kubelet's configuration is gone",
        f"--config={KUBELET_SETTINGS}: No such file",
        removed(KUBELET_SETTINGS),
    ),
    fails(
        "kubelet's configuration is broken",
        f"--config={KUBELET_SETTINGS}: ",
        written(KUBELET_SETTINGS, f"{{{_SETTINGS_KIND}"),
    ),
    unseen(
        "kubelet's configuration is written anew, with tabs",
        f"{KUBELET_SETTINGS} changed after it was started",
        _with_tabs,
    ),
    fails("kubelet's client CA is gone", "its clientCAFile", removed(CLIENT_CA)),
    fails(
        "clusterDNS leads nowhere",
        "clusterDNS 10.96.0.10 is no address",
        edited(KUBELET_SETTINGS, "169.254.20.11", "10.96.0.10"),
    ),
    fails(
        "clusterDNS leads nowhere by a drop-in of kubelet's configuration",
        "clusterDNS 10.96.0.10 is no address",
        _settings_by_drop_in(f'{{{_SETTINGS_KIND}, "clusterDNS": ["10.96.0.10"]}}'),
    ),
    fails(
        "a drop-in of kubelet's configuration is broken",
        f"--config-dir={SETTINGS_DROP_INS}/more/50-dns.conf: ",
        _settings_by_drop_in(f"{{{_SETTINGS_KIND}"),
    ),
    unseen(
        "swap comes back",
        "/etc/fstab has /swapfile as swap",
        _with_swap,
    ),
    fails(
        "kubelet's resolvers are missing",
        "/no/such, its resolvConf, does not exist",
        edited(KUBELET_SETTINGS, '"clusterDNS"', '"resolvConf": "/no/such", "clusterDNS"'),
    ),
)

# Of the container runtime, and of the network of pods.
OF_RUNTIME: Final = (
    harmless("containerd is disabled, and kubelet wants it", removed(f"{_WANTED}/{CONTAINERD}")),
    fails("containerd is masked", f"{CONTAINERD}: it is masked", masked(CONTAINERD)),
    fails(
        "another program is started instead of containerd",
        "ExecStart= /no/such/containerd does not exist",
        drop_in(CONTAINERD, "[Service]", "ExecStart=", "ExecStart=/no/such/containerd"),
    ),
    fails(
        "containerd's configuration is broken",
        "config dump",
        written(RUNTIME_SETTINGS, "version = = 3\n"),
    ),
    fails(
        "the sandbox image is another one",
        "the sandbox image lab.example/pause:2 is not on the node",
        edited(RUNTIME_SETTINGS, "lab.example/pause:1", "lab.example/pause:2"),
    ),
    fails(
        "sticky-ipam is gone",
        f"{PLUGINS}/sticky-ipam does not exist",
        removed(f"{PLUGINS}/sticky-ipam"),
    ),
    fails(
        "sticky-ipam cannot be executed",
        f"{PLUGINS}/sticky-ipam cannot be executed",
        with_mode(f"{PLUGINS}/sticky-ipam", 0o644),
    ),
    fails(
        "sticky-ipam gives what host-local gives",
        f"{PLUGINS}/sticky-ipam.passthrough has it give pods other addresses",
        written(f"{PLUGINS}/sticky-ipam.passthrough", ""),
    ),
    fails(
        "host-local is gone",
        f"{PLUGINS}/host-local does not exist",
        removed(f"{PLUGINS}/host-local"),
    ),
    fails("bridge is gone", f"{PLUGINS}/bridge does not exist", removed(f"{PLUGINS}/bridge")),
    fails("portmap is gone", f"{PLUGINS}/portmap does not exist", removed(f"{PLUGINS}/portmap")),
    fails(
        "portmap is empty",
        f"{PLUGINS}/portmap is empty",
        written(f"{PLUGINS}/portmap", "", 0o755),
    ),
    fails("loopback is gone", f"{PLUGINS}/loopback does not exist", removed(f"{PLUGINS}/loopback")),
    harmless("flannel's plugin is gone, which its pod puts back", removed(f"{PLUGINS}/flannel")),
    harmless("flannel's network is gone, which its pod puts back", removed(FLANNEL)),
    fails(
        "another network comes first, and calls what there is not",
        f"{PLUGINS}/no-such does not exist",
        written(
            f"{NETWORKS}/00-first.conflist",
            '{"cniVersion": "0.3.1", "name": "first", "plugins": [{"type": "no-such"}]}',
        ),
    ),
    fails(
        "another network comes first, and is broken",
        f"{NETWORKS}/00-first.conflist: it cannot be read",
        written(f"{NETWORKS}/00-first.conflist", "[" * 20_000),
    ),
    harmless(
        "another network comes later, and is broken",
        written(f"{NETWORKS}/90-last.conflist", "{"),
    ),
    fails(
        "the kubeconfig of pods is gone",
        f"{DATA}/public/kubeconfig",
        removed(f"{DATA}/public/kubeconfig"),
    ),
    harmless("the copy of the subnet is gone", removed(f"{DATA}/snapshot/run_flannel_subnet.env")),
)

ALL: Final = (*OF_RELAY, *OF_KUBELET, *OF_RUNTIME)
