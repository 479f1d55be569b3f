"""A node as a container: systemd, containerd, kubelet, and whatever is installed on it.

Owns where its files are. Guarantees: what is on its disk outlasts a reboot, what is in /run does
not; the machine that it runs on keeps its own settings.

An engine without CAP_SYS_RESOURCE starts no privileged container: it has all other capabilities,
and neither containerd nor kubelet sets scores for the OOM killer.
"""

import io
import json
import os
import re
import tarfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.models.containers import Container

from tools.harness.containers.engine.lab import DockerLab
from tools.harness.containers.networks.network import Network
from tools.harness.containers.networks.router import Router
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.nodes import programs
from tools.harness.nodes.configuration import CERTIFICATE, DNS_ADDRESS, configuration
from tools.harness.nodes.images import RELAY_FOLDER

HERE = Path(__file__).parent
IMAGES = "/images"
RELAY = f"{RELAY_FOLDER}/relay-sidecar"
# From where they are put where the runtime looks for them.
PLUGINS = "/usr/local/lib/cni"
CNI_PLUGINS = ("bridge", "loopback", "portmap", "host-local")
# On a disk of the engine's: an overlay does not stand on another one, and a reboot keeps them.
DISKS = ("/var/lib/containerd", "/var/lib/kubelet", "/var/lib/relay-sidecar")
_SYSTEMD_WAITED = (
    "timeout",
    "60",
    "sh",
    "-c",
    "until systemctl is-system-running; do sleep 0.1; done",
)
# Of rules, until one is whole.
_LISTINGS = 10
# At the head of a line, among warnings about what else the machine has.
_ID = re.compile(r"^[0-9a-f]{64}\b", re.MULTILINE)
_RSS = re.compile(r"^VmRSS:\s+(\d+) kB$", re.MULTILINE)
_REFUSED = re.compile(
    r'^relay_requests_refused_total{verb="(.*)",resource="(.*)",reason="(.*)"} (\d+)$', re.MULTILINE
)


# Asks for A records (RFC 1035, 4.1), each of which ends with the length of its data and the four
# bytes of an address.
_NAMED = r"""
import socket, struct, sys
labels = b"".join(bytes([len(it)]) + it.encode() for it in sys.argv[2].split("."))
query = struct.pack(">6H", 1, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">2H", 1, 1)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
    asking.settimeout(2)
    try:
        asking.sendto(query, (sys.argv[1], 53))
        answer = asking.recv(4096)
    except OSError:
        answer = b""
for at in range(len(query), len(answer) - 5):
    if answer[at : at + 2] == b"\0\4":
        print(socket.inet_ntoa(answer[at + 2 : at + 6]))
"""


@dataclass(frozen=True)
class Done:
    """Of one command on a node."""

    status: int
    output: str

    def expect(self) -> str:
        """Its output; fails where the command did."""
        assert self.status == 0, self.output
        return self.output


class Node:
    """Stopped, until `start`."""

    def __init__(
        self,
        docker_lab: DockerLab,
        plane: ControlPlane,
        name: str,
        *,
        image: str,
        network: Network,
        router: Router,
        relay: Path,
        images: Sequence[Path],
    ) -> None:
        self.name = name
        self.address = network.new_address()
        self._router = router
        self._counted = ""
        self._archives = [f"{IMAGES}/{path.name}" for path in images]
        files = {path: f"/usr/local/bin/{it}" for it, path in programs.node_programs().items()}
        plugins = programs.cni_plugins()
        # Of the installer, which puts it where plugins are.
        files[plugins["sticky-ipam"]] = "/usr/local/bin/sticky-ipam"
        files |= {plugins[it]: f"{PLUGINS}/{it}" for it in CNI_PLUGINS}
        files |= {path: f"{IMAGES}/{path.name}" for path in images}
        files |= {relay: RELAY_FOLDER, HERE / "boot.sh": "/usr/local/sbin/boot"}
        endpoint = network.settings(docker_lab, self.address)
        self._container: Container = docker_lab.client.containers.create(
            image,
            ["/bin/sh", "/usr/local/sbin/boot"],
            hostname=name,
            labels=docker_lab.network_labels(),
            environment={"container": "docker", "ROUTER": router.address_in(network)},
            cap_add=["ALL"],
            cap_drop=["SYS_RESOURCE"],
            security_opt=["seccomp=unconfined", "apparmor=unconfined"],
            device_cgroup_rules=["a *:* rwm"],
            cgroupns="private",
            tmpfs={"/run": "exec", "/tmp": ""},
            stop_signal="SIGRTMIN+3",
            volumes=[*(f"{path}:{to}:ro" for path, to in files.items()), *DISKS],
            **endpoint,
        )
        self.write(configuration(plane, name, self.address))

    @property
    def container_id(self) -> str:
        return str(self._container.id)

    # ── power ──

    def start(self) -> None:
        """For the first time: kubelet once containerd has the images."""
        self._container.start()
        self.run(*_SYSTEMD_WAITED).expect()
        # Files of the node, which tests may remove.
        self.run("mkdir", "-p", "/opt/cni/bin").expect()
        self.run("cp", *(f"{PLUGINS}/{it}" for it in CNI_PLUGINS), "/opt/cni/bin").expect()
        self.run("systemctl", "enable", "--now", "containerd").expect()
        for archive in self._archives:
            self.run("ctr", "-n=k8s.io", "images", "import", "--local", archive).expect()
        self.run("systemctl", "enable", "--now", "kubelet").expect()

    def lose_power(self) -> None:
        """Everything ends at once; the disk's contents are as the kernel has them."""
        self._container.kill()
        self._container.wait()

    def power_on(self) -> None:
        """Returns at once."""
        self._container.start()

    def remove(self) -> None:
        self._container.remove(force=True, v=True)

    def give_certificate(self, pair: bytes) -> None:
        """To its kubelet, which keeps it as a link to the newest; `pair`: PEM, with the key."""
        path = f"{os.path.dirname(CERTIFICATE)}/kubelet-client-{os.urandom(4).hex()}.pem"
        self.write({path: (pair, 0o600)})
        self.run("ln", "-sfn", path, f"{CERTIFICATE}.new").expect()
        self.run("mv", "-T", f"{CERTIFICATE}.new", CERTIFICATE).expect()

    # ── link ──

    def cut(self) -> None:
        """Nothing passes between it and the cloud; nobody is told."""
        self._router.drop(self.address)

    def heal(self) -> None:
        self._router.let_pass(self.address)

    # ── what is done on it ──

    def run(self, *command: str) -> Done:
        done = self._container.exec_run(list(command))
        assert done.exit_code is not None
        assert isinstance(done.output, bytes)
        return Done(done.exit_code, done.output.decode(errors="replace"))

    def run_in(self, pod: str, container: str, *command: str) -> Done:
        """In a container of a pod, also where kubelet cannot be asked."""
        labels = f'labels."io.kubernetes.pod.name"=={pod}'
        labels += f',labels."io.kubernetes.container.name"=={container}'
        listed = self.run("ctr", "-n=k8s.io", "containers", "ls", "-q", labels)
        running = [it for it in _ID.findall(listed.output) if it in self.containers()]
        if not running:
            return Done(1, "")
        return self.run(
            *("ctr", "-n=k8s.io", "tasks", "exec", f"--exec-id={os.urandom(4).hex()}"),
            *(running[0], *command),
        )

    def named(self, name: str) -> set[str]:
        """The addresses that the DNS of this node has for a name; none where it does not answer."""
        return set(self.run("python3", "-c", _NAMED, DNS_ADDRESS, name).expect().split())

    def load(self, archive: Path) -> None:
        """An image, into containerd."""
        content = archive.read_bytes()
        path = f"/var/tmp/{archive.name}"
        self.write({path: (content, 0o600)})
        self.run("ctr", "-n=k8s.io", "images", "import", "--local", path).expect()

    def relay(self, *arguments: str) -> Done:
        """`relay-sidecar` with these arguments, as root."""
        return self.run(RELAY, *arguments)

    def status(self, port: int = 10551) -> dict[str, Any]:
        """/status of its relay, or of what has this port; fails where it does not answer."""
        command = "curl", "-sS", "-m", "3", f"http://127.0.0.1:{port}/status"
        while True:
            answer = self.run(*command).expect()
            # Of a command that ends at once, a busy engine loses all or some of the output now and
            # then.
            with suppress(ValueError):
                found: dict[str, Any] = json.loads(answer)
                return found

    def containers(self) -> set[str]:
        """The ids of those that run."""
        listed = ""
        # Not `-q`: only with its header is an empty list one that came (see `status`).
        while "TASK" not in listed:
            listed = self.run("ctr", "-n=k8s.io", "tasks", "ls").expect()
        return set(_ID.findall(listed))

    def relay_costs(self) -> tuple[float, float]:
        """Of the relay's process: resident memory in KiB, seconds of a processor so far."""
        pid = self.run("systemctl", "show", "-p", "MainPID", "--value", "relay-sidecar").expect()
        folder = f"/proc/{pid.strip()}"
        status, stat = self.run("cat", f"{folder}/status"), self.run("cat", f"{folder}/stat")
        rss = _RSS.search(status.expect())
        assert rss is not None, status.output
        # utime and stime: proc(5); the name before may contain blanks.
        user, system = stat.expect().rpartition(")")[2].split()[11:13]
        return float(rss[1]), (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def count_bytes(self, host: str) -> None:
        """From now on, of what goes to that address and comes from there, pods' included."""
        for chain, side in (("PREROUTING", "-s"), ("POSTROUTING", "-d")):
            self.run("iptables", "-t", "mangle", "-A", chain, side, host).expect()
        self._counted = host

    def counted_bytes(self) -> int:
        return sum(map(self._counted_in, ("PREROUTING", "POSTROUTING")))

    def _counted_in(self, chain: str) -> int:
        """While another program changes the rules, a listing may lack some."""
        for _ in range(_LISTINGS):
            listed = self.run("iptables", "-t", "mangle", "-L", chain, "-n", "-v", "-x").expect()
            lines = [line.split() for line in listed.splitlines() if self._counted in line]
            if lines:
                return int(lines[0][1])
        raise AssertionError(f"{self.name} counts nothing in {chain}:\n{listed}")

    def refused(self) -> Counter[tuple[str, str, str]]:
        """Requests that its relay refused since it was started: by verb, resource, reason."""
        found = _REFUSED.findall(self.metrics())
        return Counter({(verb, what, why): int(count) for verb, what, why, count in found})

    def metrics(self) -> str:
        """Of its relay, in Prometheus' text format."""
        return self.run("curl", "-sS", "-m", "3", "http://127.0.0.1:10551/metrics").expect()

    def journal(self, unit: str, *more: str) -> str:
        """What a unit printed, since its first start."""
        return self.run("journalctl", "-q", "-o", "cat", "-u", unit, *more).output

    def write(self, files: Mapping[str, tuple[bytes, int]]) -> None:
        """Contents and modes, by path."""
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for path, (content, mode) in files.items():
                entry = tarfile.TarInfo(path.lstrip("/"))
                entry.size, entry.mode = len(content), mode
                tar.addfile(entry, io.BytesIO(content))
        self._container.put_archive("/", archive.getvalue())
