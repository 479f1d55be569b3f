"""A folder that looks like the disk of a node, for `node doctor` to look at: units, kubelet's and
containerd's configuration, plugins, networks, and what is asked of programs there.
"""

import datetime
import json
import shutil
import stat
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from relay_node.installer.authority import ensure_serving
from relay_node.installer.systemd import units
from tests.integration.relay.node import breakages
from tests.integration.relay.node.breakages import CONTAINERD, DATA, KEY, KUBELET, RELAY, UNITS
from tools.harness.nodes.configuration import CERTIFICATE, CLIENT_CA, DNS_ADDRESS, KUBECONFIG

PAUSE = "lab.example/pause:1"
TARGETS = "/usr/lib/systemd/system"
PROGRAMS = ("/usr/local/bin/kubelet", "/usr/local/bin/relay-sidecar")
_NETWORK = {
    "cniVersion": "0.3.1",
    "name": "cbr0",
    "plugins": [{"type": "flannel", "ipam": {"type": "sticky-ipam"}}, {"type": "portmap"}],
}
# As containerd itself, it prints the whole of its configuration, or why it cannot.
_CONTAINERD = f"""#!{sys.executable}
import sys, tomllib
path = sys.argv[sys.argv.index("--config") + 1]
with open(path, "rb") as file:
    try:
        tomllib.load(file)
    except tomllib.TOMLDecodeError as error:
        sys.exit(f"containerd: {{error}}")
print(open(path).read())
"""
_SYSTEMCTL = """#!/bin/sh
for unit in "$@"; do case $unit in *.service) cat "$(dirname "$0")/$unit"; echo;; esac; done
"""
_CTR = """#!/bin/sh
cat "$(dirname "$0")/images"
"""


class FolderNode:
    """`bin` is to be the first folder in PATH. `journal`: of the relay that runs, which listens on
    `listen`."""

    def __init__(self, root: Path, *, listen: str, journal: Path) -> None:
        self.root = root
        self.bin = root / "fake" / "bin"
        self._undone: dict[str, Path | None] = {}
        self._kept = root / "fake" / "kept"
        self._write_programs()
        self._write_units(listen, journal)
        self._write_configurations(listen)
        for unit in (RELAY, KUBELET, CONTAINERD):
            self.restart(unit)

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def set_images(self, names: Sequence[str]) -> None:
        (self.bin / "images").write_text("\n".join(names))

    def set_run(self, unit: str, **shown: str) -> None:
        """What systemd says of it: that it was started now, but for `shown`."""
        shown = {
            "Id": unit,
            "ActiveState": "active",
            "SubState": "running",
            "NeedDaemonReload": "no",
            "MainPID": "7",
            "ExecMainStartTimestamp": f"@{int(time.time())}",
            "ExecMainStartTimestampMonotonic": str(int(time.monotonic() * 1e6)),
            **shown,
        }
        text = "\n".join(f"{name}={value}" for name, value in shown.items())
        (self.bin / unit).write_text(f"{text}\n")

    # ── NodeFiles ──

    def read(self, path: str) -> str:
        return self.at(path).read_text()

    def write(self, path: str, content: str | bytes, mode: int = 0o644) -> None:
        self._keep(path)
        place = self.at(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        place.chmod(mode)

    def remove(self, path: str) -> None:
        self._keep(path)
        self.at(path).unlink()

    def link(self, path: str, target: str) -> None:
        self._keep(path)
        self.at(path).symlink_to(target)

    def chmod(self, path: str, mode: int) -> None:
        self._keep(path)
        self.at(path).chmod(mode)

    def restart(self, unit: str) -> None:
        time.sleep(0.02)
        self.set_run(unit)

    def put_back(self) -> None:
        for path, kept in self._undone.items():
            self.at(path).unlink(missing_ok=True)
            if kept is not None:
                # Renamed: its time of change stays nearly what it was.
                kept.rename(self.at(path))
        self._undone.clear()
        for unit in (RELAY, KUBELET, CONTAINERD):
            self.restart(unit)

    def _keep(self, path: str) -> None:
        place = self.at(path)
        if path in self._undone:
            return
        self._undone[path] = None
        if place.exists() or place.is_symlink():
            self._kept.mkdir(exist_ok=True)
            kept = self._kept / str(len(self._undone))
            shutil.copy2(place, kept, follow_symlinks=False)
            self._undone[path] = kept

    # ── what is there ──

    def _put(self, files: Mapping[str, str | bytes], mode: int = 0o644) -> None:
        for path, content in files.items():
            place = self.at(path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content.encode() if isinstance(content, str) else content)
            place.chmod(mode)

    def _write_programs(self) -> None:
        self.bin.mkdir(parents=True)
        names = ("bridge", "flannel", "host-local", "loopback", "portmap", "sticky-ipam")
        executable = dict.fromkeys(PROGRAMS, "#!/bin/sh\n")
        executable |= {f"{breakages.PLUGINS}/{name}": "plugin" for name in names}
        executable |= {"/usr/local/bin/containerd": _CONTAINERD, "/bin/false": ""}
        executable |= dict.fromkeys(("/bin/sh", "/usr/sbin/ip", sys.executable), "a program")
        self._put(executable, 0o755)
        for name, text in (("systemctl", _SYSTEMCTL), ("ctr", _CTR)):
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(stat.S_IRWXU)

    def _write_units(self, listen: str, journal: Path) -> None:
        flags = [
            *(f"--listen={listen}", "--server=https://192.0.2.9:6443", "--access=caller"),
            f"--client-certificate={CERTIFICATE}",
            f"--certificate-authority={DATA}/node/upstream-ca.crt",
            f"--client-ca-file={DATA}/node/client-ca.crt",
            *(f"--{it}={DATA}/serving.pem" for it in ("tls-cert-file", "tls-private-key-file")),
            *(f"--data-dir={journal}", f"--keep-secrets={KEY}"),
        ]
        relay = units.relay(
            ["/usr/local/bin/relay-sidecar"],
            prepare=[
                *("node", "prepare", f"--data-dir={DATA}"),
                f"--pod-listen={DNS_ADDRESS}:10550",
            ],
            flags=flags,
            credential=None,
        )
        kubelet = "[Unit]\nWants=containerd.service\n[Service]\nExecStart=/usr/local/bin/kubelet "
        kubelet += f"--config={breakages.KUBELET_SETTINGS} --kubeconfig={KUBECONFIG}\n"
        containerd = "[Service]\nExecStart=/usr/local/bin/containerd "
        containerd += f"--config={breakages.RUNTIME_SETTINGS}\n"
        self._put(
            {
                f"{TARGETS}/default.target": "[Unit]\nRequires=multi-user.target\n",
                f"{TARGETS}/multi-user.target": "[Unit]\nDescription=all\n",
                f"{UNITS}/{RELAY}": relay,
                f"{UNITS}/{KUBELET}": kubelet,
                f"{UNITS}/{CONTAINERD}": containerd,
                breakages.KUBELET_DROP_IN: units.kubelet_drop_in(),
            }
        )
        for target in ("multi-user.target", KUBELET):
            for unit in (RELAY,) if target == KUBELET else (RELAY, KUBELET, CONTAINERD):
                link = self.at(f"{UNITS}/{target}.wants/{unit}")
                link.parent.mkdir(exist_ok=True)
                link.symlink_to(f"{UNITS}/{unit}")

    def _write_configurations(self, listen: str) -> None:
        kubelet = {
            "kind": "KubeletConfiguration",
            "authentication": {"x509": {"clientCAFile": CLIENT_CA}},
            "clusterDNS": [DNS_ADDRESS],
        }
        runtime = f"""[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE}"
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{breakages.PLUGINS}"]
conf_dir = "{breakages.NETWORKS}"
max_conf_num = 1
"""
        kubeconfig = {
            "clusters": [{"name": "c", "cluster": {"server": f"https://{listen}"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c"}}],
            "current-context": "x",
        }
        self._put(
            {
                breakages.KUBELET_SETTINGS: json.dumps(kubelet),
                breakages.RUNTIME_SETTINGS: runtime,
                breakages.FLANNEL: json.dumps(_NETWORK),
                "/etc/passwd": "root:x:0:0:::\nnobody:x:65534:65534:::\n",
                "/etc/resolv.conf": "nameserver 192.0.2.53\n",
                f"{DATA}/node/upstream-ca.crt": "a CA",
                f"{DATA}/node/client-ca.crt": "a CA",
                f"{DATA}/public/kubeconfig": json.dumps(kubeconfig),
                f"{DATA}/snapshot/run_flannel_subnet.env": "A=1",
                CLIENT_CA: "a CA",
                CERTIFICATE: "a certificate",
            }
        )
        ensure_serving(self.at(DATA), [], now=datetime.datetime.now(datetime.UTC))
