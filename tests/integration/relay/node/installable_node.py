"""A node on which `relay-sidecar node install` runs as on a real one: as root of a file system of
its own, with a systemctl of the tests', before a real API server. What it starts is a real relay.
"""

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.integration.relay.node.node_place import GROUP, unique, write_key
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.reservation import LOOPBACK, Reservation
from tools.harness.nodes.cni import host_local, sticky_ipam
from tools.harness.processes.arguments import latest_of_each
from tools.harness.processes.process import installed

HERE = Path(__file__).parent
KUBECONFIG = "etc/kubernetes/kubelet.conf"
CLIENT_CA = "etc/kubernetes/pki/ca.crt"
PEM = "var/lib/kubelet/pki/kubelet-client-current.pem"
KEY = "etc/relay-sidecar/key"
CONFLIST = "etc/cni/net.d/10-pods.conflist"
# Of no process.
_ENDED = 999999
KUBELET_CONFIG = "var/lib/kubelet/config.yaml"
POD_ADDRESS = "127.0.0.77"
# Of the machine: programs, and where the tests are. All else is the node's own.
_OWN = ("etc", "fake", "opt", "run", "var", "lost+found")
_ENTER = """
root=$1; shift
for it in /*; do
    name=${it#/}
    case " OWN " in *" $name "*) continue ;; esac
    if [ -L "$it" ]; then ln -sfn "$(readlink "$it")" "$root/$name"
    elif [ -d "$it" ]; then mkdir -p "$root/$name"; mount --rbind "$it" "$root/$name"
    fi
done
exec chroot "$root" "$@"
""".replace("OWN", " ".join(_OWN))
_OWN_MOUNTS = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
# ip(8), of the addresses of lo.
_IP = """#!/bin/sh
touch /fake/lo
case $2 in
replace) sed -i "\\\\,^$3$,d" /fake/lo; echo "$3" >>/fake/lo ;;
delete) sed -i "\\\\,^$3$,d" /fake/lo ;;
*) sed 's/^/1: lo inet /; s/$/ scope host/' /fake/lo ;;
esac
"""
_JOURNALCTL = "#!/bin/sh\ntail -n 1 /fake/log 2>/dev/null\n"

# Runs `relay-sidecar` again and again, in a process of its own each time, without loading it anew.
_SERVER = """
import json, os, sys, tempfile
import relay_node.commands.node_install
from relay_node.commands.node import main
for line in sys.stdin:
    asked = json.loads(line)
    files = [tempfile.TemporaryFile(dir="/fake") for _ in range(2)]
    pid = os.fork()
    if pid == 0:
        os.chdir(asked["cwd"])
        for number, file in enumerate(files, 1):
            os.dup2(file.fileno(), number)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        sys.argv = asked["argv"]
        try:
            status = main(asked["argv"][2:], os.environ)
        except SystemExit as error:
            status = error.code
        except BaseException:
            sys.excepthook(*sys.exc_info())
            status = 70
        sys.stdout.flush()
        os._exit(status or 0)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    told = []
    for file in files:
        file.seek(0)
        told.append(file.read().decode())
    print(json.dumps([status, *told]), flush=True)
"""

Entry = tuple[str, int, int, int, str]


class InstallableNode:
    """`edge-…`, known to the API server; its kubelet is "active", and counted when restarted."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.name = unique("edge")
        self.root = folder / "root"
        self.fake = self.root / "fake"
        self.ports = [Reservation() for _ in range(3)]
        self._others: list[socket.socket] = []
        self._folder = folder
        self._server: subprocess.Popen[str] | None = None
        for name in ("etc", "opt/cni/bin", "run", "fake"):
            (self.root / name).mkdir(parents=True, mode=0o755)
        for name in ("passwd", "ld.so.cache"):
            with suppress(FileNotFoundError):
                shutil.copy(f"/etc/{name}", self.root / "etc" / name)
        self.pair = plane.client_authority.issue_client(
            self.name, user=f"system:node:{self.name}", group=GROUP
        )
        self.make_files()
        expect(plane.admin.post("/api/v1/nodes", {"metadata": {"name": self.name}}))

    def make_files(self) -> None:
        """As they are before the first installation; others are removed."""
        self._end()
        for name in ("etc/systemd", "etc/kubernetes", "etc/cni", "var", "home"):
            shutil.rmtree(self.root / name, ignore_errors=True)
        for name in ("etc/systemd/system", "var/log/pods"):
            (self.root / name).mkdir(parents=True, mode=0o755)
        shutil.rmtree(self.fake)
        (self.fake / "active").mkdir(parents=True)
        pair = self.pair
        self.put(PEM, pair.certificate.read_bytes() + pair.key.read_bytes(), mode=0o600)
        self.put(CLIENT_CA, self.plane.client_authority.bundle.read_bytes())
        self.put("etc/kubernetes/pki/server-ca.crt", self.plane.ca_bundle.read_bytes())
        self.lead_kubelet()
        self.put(KUBELET_CONFIG, b"clusterDNS: [10.96.0.10]\n")
        self.put("etc/systemd/system/kubelet.service", b"[Service]\nExecStart=/usr/bin/kubelet\n")
        (self.fake / "active/kubelet.service").write_text("0\n")
        network = {
            "name": "pods",
            "plugins": [
                {"type": "bridge", "ipam": {"type": "host-local", "subnet": "10.9.0.0/24"}}
            ],
        }
        self.put(CONFLIST, json.dumps(network).encode(), mode=0o600)
        key = write_key(self._folder / "key")
        self.put(KEY, key.read_bytes(), mode=0o600)
        self._make_programs()

    def _make_programs(self) -> None:
        programs = self.root / "opt/tests"
        programs.mkdir(exist_ok=True)
        for name, text in (
            ("systemctl", (HERE / "systemctl.sh").read_text()),
            ("journalctl", _JOURNALCTL),
            ("ip", _IP),
        ):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        shutil.rmtree(self.root / "opt/cni")
        (self.root / "opt/cni/bin").mkdir(parents=True)
        shutil.copy(host_local(), self.root / "opt/cni/bin/host-local")
        shutil.copy(sticky_ipam(), programs / "sticky-ipam")

    def lead_kubelet(self, **cluster: Any) -> None:
        """`cluster`: other fields of kubelet's kubeconfig."""
        fields = {
            "server": f"https://{LOOPBACK}:{self.plane.port}",
            "certificate-authority": "/etc/kubernetes/pki/server-ca.crt",
        }
        user = {"client-certificate": f"/{PEM}", "client-key": f"/{PEM}"}
        content = {
            "clusters": [{"name": "c", "cluster": {**fields, **cluster}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        self.put(KUBECONFIG, json.dumps(content).encode(), mode=0o600)

    # ── files ──

    def put(self, path: str, content: bytes, *, mode: int = 0o644) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        target.write_bytes(content)
        target.chmod(mode)
        return target

    def read(self, path: str) -> str:
        return (self.root / path).read_text()

    def tree(self) -> dict[str, Entry]:
        """All of the node: kind, mode, owner, content or target. Not the tests' own, and not the
        sources of `__pycache__`."""
        found = {}
        for top in ("etc", "opt", "run", "var"):
            for path in sorted((self.root / top).rglob("*")):
                it = path.lstat()
                what = (
                    os.readlink(path)
                    if path.is_symlink()
                    else path.read_bytes().hex()
                    if path.is_file()
                    else ""
                )
                kind = stat.filemode(it.st_mode)[0]
                name = str(path.relative_to(self.root))
                mode = stat.S_IMODE(it.st_mode)
                found[name] = (kind, mode, it.st_uid, it.st_gid, what)
        return found

    # ── what is run ──

    def node(self, *words: str, cwd: str = "/") -> "subprocess.CompletedProcess[str]":
        """`relay-sidecar node …`."""
        argv = [str(installed("relay-sidecar")), "node", *words]
        if self._server is None:
            self._server = self._start_server()
        channel = self._server
        assert channel.stdin is not None
        assert channel.stdout is not None
        channel.stdin.write(json.dumps({"argv": argv, "cwd": cwd}) + "\n")
        channel.stdin.flush()
        status, out, err = json.loads(channel.stdout.readline())
        return subprocess.CompletedProcess(argv, status, out, err)

    def _start_server(self) -> "subprocess.Popen[str]":
        enter = ["sh", "-ec", _ENTER, "sh", str(self.root)]
        path = f"/opt/tests:{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin"
        return subprocess.Popen(
            [*_OWN_MOUNTS, *enter, sys.executable, "-c", _SERVER],
            env={"PATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def install(
        self, *words: str, flags: tuple[str, ...] = (), **more: Any
    ) -> "subprocess.CompletedProcess[str]":
        """With what a good installation has, unless `words` and `flags` have something else."""
        listen, status, pods = (it.port for it in self.ports)
        own = latest_of_each(
            [
                f"--listen={LOOPBACK}:{listen}",
                f"--pod-listen={POD_ADDRESS}:{pods}",
                f"--keep-secrets=/{KEY}",
                *words,
            ]
        )
        relays = latest_of_each([f"--status-listen={LOOPBACK}:{status}", *flags])
        return self.node("install", *own, "--", *relays, **more)

    # ── what it does ──

    def active(self) -> set[str]:
        """Units that run."""
        return {path.name for path in (self.fake / "active").iterdir()}

    def starts(self, unit: str) -> int:
        path = self.fake / "starts" / unit
        return len(path.read_text().splitlines()) if path.exists() else 0

    def take_port(self, number: int) -> None:
        """Of `ports`: another program listens there."""
        other = socket.socket()
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((LOOPBACK, self.ports[number].port))
        other.listen()
        self._others.append(other)

    def relay_runs(self) -> bool:
        path = self.fake / "active/relay-sidecar.service"
        return path.exists() and Path(f"/proc/{path.read_text().strip()}").exists()

    def addresses(self) -> set[str]:
        path = self.fake / "lo"
        return set(path.read_text().split()) if path.exists() else set()

    def _end(self) -> None:
        """What still runs of an installation, and who took a port."""
        with suppress(FileNotFoundError, ValueError, ProcessLookupError):
            pid = int((self.fake / "active/relay-sidecar.service").read_text())
            if pid and pid != _ENDED:
                os.kill(pid, signal.SIGKILL)
        while self._others:
            self._others.pop().close()

    def close(self) -> None:
        self._end()
        if self._server is not None:
            assert self._server.stdin is not None
            assert self._server.stdout is not None
            self._server.stdin.close()
            self._server.wait()
            self._server.stdout.close()
        for port in self.ports:
            port.release()
        expect(self.plane.admin.delete(f"/api/v1/nodes/{self.name}"))
