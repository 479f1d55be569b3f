"""A node of the site as processes in a network, and with a disk, of its own, and what befalls it.

Member, relay, kubelet, perhaps a candidate for the pool's Lease, and a watch client of client-go
behind the relay. Guarantees: all of them reach the cloud over the node's link alone, and its
neighbours over the LAN alone; a node without power says nothing to anybody from that moment on,
not even that a connection has ended; `close` leaves no process behind.
"""

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol, Self

from pool_sidecar.core.controller.node_state import DEFAULT_POOL_LABEL, MAY_LEAD_NODE_LABEL
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.access.kubeconfig import write_kubeconfig
from tools.harness.controlplane.clients.answer import ask
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.controlplane.reservation import LOOPBACK, Reservation
from tools.harness.peers.informers import InformerProcess
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.pools.accounts import token_of_pod
from tools.harness.pods.pools.controller import NAMESPACE
from tools.harness.pods.pools.member import PoolMemberProcess
from tools.harness.pods.relay import RelayProcess
from tools.harness.processes.faketime import faketime_library
from tools.harness.processes.process import Process
from tools.nemesis.pool.network import CLOUD_ADDRESS, Pair, SiteNetwork
from tools.nemesis.pool.objects import CANDIDATE, ZONE
from tools.nemesis.pool.small_disk import SmallDisk

POOL = "factory-7"
SITE_ZONE = "site"
LAN_PORT = 10555
# Characters of a watch client's log.
LOGGED = 3000
# Of what every node of the site watches.
WATCHED = ("typed:services", "metadata:endpointslices.v1.discovery.k8s.io")
ROOT = Path(__file__).parents[3]


class Part(Protocol):
    """One process of a node."""

    @property
    def is_running(self) -> bool: ...
    def freeze(self) -> None: ...
    def thaw(self) -> None: ...
    def kill(self) -> None: ...
    def log_text(self) -> str: ...


class KubeletProcess(Process):
    def __init__(self, node: str, *flags: str, plane: ControlPlane) -> None:
        super().__init__(
            f"kubelet-{node}",
            ports=1,
            environ={"PYTHONPATH": str(ROOT)},
            guardian=plane.guardian,
        )
        (self.port,) = self.ports
        self._flags = [f"--node={node}", *flags]

    def start(self) -> Self:
        """Returns at once."""
        flags = [*self._flags, f"--healthz-port={self.port}"]
        self._launch("python", "-m", "tools.nemesis.pool.kubelet", *flags)
        return self


class PoolNode:
    """Runs while it is entered. `number`: of the node, from 1."""

    def __init__(
        self,
        plane: ControlPlane,
        network: SiteNetwork,
        name: str,
        *,
        number: int,
        others: Sequence[str],
        may_lead: bool,
        kubelet_flags: Sequence[str] = (),
    ) -> None:
        self.name = name
        self._plane, self._network = plane, network
        self._others = [it for it in others if it != name]
        self._may_lead = may_lead
        self.link = FaultProxy(plane.port, listen=network.listen_in_cloud)
        self._server = f"{CLOUD_ADDRESS}:{self.link.port}"
        self._kubeconfig = plane.folder / f"{name}.kubeconfig"
        self._candidate_kubeconfig = plane.folder / f"{name}-candidate.kubeconfig"
        self._disk = SmallDisk(plane.folder / f"{name}-disk")
        self.is_off = False
        with network.entered(name):
            self._make(number, kubelet_flags)

    def _make(self, number: int, kubelet_flags: Sequence[str]) -> None:
        plane, name = self._plane, self.name
        files = plane.client_authority.issue_client(
            f"kubelet-{name}", user=f"system:node:{name}", group="system:nodes"
        )
        self.kubelet = KubeletProcess(
            name,
            f"--number={number}",
            f"--server={self._server}",
            f"--ca={plane.ca_bundle}",
            f"--certificate={files.certificate}",
            f"--key={files.key}",
            *kubelet_flags,
            plane=plane,
        )
        self.relay = RelayProcess(
            [f"--kubeconfig={self._kubeconfig}"],
            name=f"relay-{name}",
            data_dir=self._disk.folder / "relay",
            guardian=plane.guardian,
        )
        lease_file = plane.folder / f"{name}.lease"
        self._elector_port, self._pool_port = Reservation(), Reservation()
        elector = f"{LOOPBACK}:{self._elector_port.port}"
        self.member = PoolMemberProcess(
            [
                f"--node-kubeconfig={self._kubeconfig}",
                f"--relay={self.relay.url}",
                f"--relay-status=http://{LOOPBACK}:{self.relay.status_port}",
                f"--kubelet=http://{LOOPBACK}:{self.kubelet.port}",
                *([f"--lease-file={lease_file}"] if self._may_lead else []),
                *([f"--elector=http://{elector}"] if self._may_lead else []),
            ],
            node=name,
            address=self._network.address(name),
            lan_port=LAN_PORT,
            guardian=plane.guardian,
        )
        self.member.data_dir = self._disk.folder / "member"
        pool_listen = f"{LOOPBACK}:{self._pool_port.port}"
        self.member.flags.append(f"--relay-pool={pool_listen}")
        member = f"http://{LOOPBACK}:{self.member.port}"
        self.relay.flags += [
            f"--pool={member}",
            f"--pool-token-file={self.member.data_dir / 'token'}",
            f"--pool-connect={LOOPBACK}:{self.member.proxy_port}",
            f"--pool-listen={pool_listen}",
        ]
        self._candidate_environ = {"POD_NAME": f"{CANDIDATE}-{name}", "POD_NAMESPACE": NAMESPACE}
        self.candidate = ElectorPod(
            name,
            "",
            [
                *("--lease-file", str(lease_file)),
                *("--kubeconfig", str(self._candidate_kubeconfig), "--listen", elector),
                *("--lease-duration", "20s", "--renew-interval", "5s"),
                *("--health-url", f"{member}/eligible", "--drain-url", f"{member}/drain"),
            ],
            environ=self._candidate_environ,
            guardian=plane.guardian,
        )

    def __enter__(self) -> Self:
        labels = {
            DEFAULT_POOL_LABEL: POOL,
            ZONE: SITE_ZONE,
            "kubernetes.io/hostname": self.name,
            **({MAY_LEAD_NODE_LABEL: "true"} if self._may_lead else {}),
        }
        body = {"metadata": {"name": self.name, "labels": labels}}
        expect(self._plane.admin.post("/api/v1/nodes", body))
        self.rotate()
        watcher = write_kubeconfig(
            self._plane.folder / f"{self.name}-watch.kubeconfig",
            server=self.relay.url,
            ca=None,
            credentials="unused",
        )
        self.informer = InformerProcess(watcher, WATCHED, user_agent=f"watch-{self.name}")
        with ExitStack() as stack:
            for held in (self._elector_port, self._pool_port):
                stack.callback(held.release)
            stack.enter_context(self._disk)
            stack.enter_context(self.link)
            for part in (self.kubelet, self.relay, self.member, self.candidate, self.informer):
                stack.callback(part.stop)
            with self._network.entered(self.name):
                self.kubelet.start()
                self.relay.start(wait=False)
                self.member.start()
                if self._may_lead:
                    self.candidate.start(wait=False)
                self.relay.wait_ready()
                self.informer.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # ── what it says ──

    @property
    def parts(self) -> dict[str, Part]:
        """Those that are to run, by what they are."""
        found: dict[str, Part] = {
            "member": self.member,
            "relay": self.relay,
            "kubelet": self.kubelet,
        }
        return {**found, "elector": self.candidate} if self._may_lead else found

    def said(self) -> dict[str, Any] | None:
        """Its member's /status; None without an answer."""
        if not self.member.is_running:
            return None
        with self._network.entered(self.name):
            answer = ask(self.member.port, "/status")
        return answer.json() if answer is not None and answer.status == 200 else None

    def held(self) -> list[str]:
        """Hashes of what its watch client holds."""
        with self._network.entered(self.name):
            return [it.hash for it in self.informer.states()]

    def wrong_events(self) -> list[str]:
        """What its watch client saw that must not be."""
        with self._network.entered(self.name):
            return [text for it in self.informer.stats() for text in it["violations"]]

    def watch_state(self) -> str:
        """All that its watch client and its relay say of themselves."""
        with self._network.entered(self.name):
            said = f"{self.informer.states()}, {self.informer.stats()}, {self.relay.status()}"
        return f"{said}\n{self.informer.log_text()[-LOGGED:]}"

    @property
    def lan_pairs(self) -> list[Pair]:
        """From it and to it."""
        found = [(self.name, it) for it in self._others]
        return [*found, *((it, self.name) for it in self._others)]

    # ── what befalls it ──

    def start(self, what: str) -> None:
        """A part that was killed, with its ports and data."""
        with self._network.entered(self.name):
            if what == "member":
                self.member.start()
            elif what == "relay":
                self.relay.start(wait=False)
            elif what == "kubelet":
                self.kubelet.start()
            else:
                self.candidate.start(wait=False)

    def lose_data(self, what: str) -> None:
        """Of a part that does not run: as on a new disk."""
        folder = self.member.data_dir if what == "member" else self.relay.data_dir
        shutil.rmtree(folder, ignore_errors=True)

    def fill_disk(self) -> None:
        """Nothing more can be written there."""
        self._disk.fill()

    def make_room(self) -> None:
        self._disk.make_room()

    @property
    def clocked(self) -> list[str]:
        """The parts whose clock can be set: all but kubelet."""
        return [what for what in self.parts if what != "kubelet"]

    def set_clock(self, seconds: float) -> None:
        """By so many, the wall clock of `clocked` is off once they are started again.
        Kubelet's stays right: a node whose renewTime goes back is lost to Kubernetes itself."""
        clock = {
            "LD_PRELOAD": faketime_library(),
            "FAKETIME": f"{seconds:+g}",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        for environ in (self.member.environ, self.relay.environ, self._candidate_environ):
            for name, value in clock.items():
                environ.pop(name, None)
                if seconds:
                    environ[name] = value

    def silence(self) -> None:
        """From when it returns, nothing leaves it."""
        self._network.part(self.lan_pairs)
        self._network.cut(self.name)

    def power_off(self) -> None:
        """Of one that was silenced."""
        self.is_off = True
        for part in self.parts.values():
            if part.is_running:
                part.kill()

    def power_on(self) -> None:
        self._network.join(self.lan_pairs)
        self._network.mend(self.name)
        for what in self.parts:
            self.start(what)
        self.is_off = False

    def rotate(self) -> None:
        """Other credentials of the same node and account, in the same files."""
        ca = self._plane.ca_bundle.read_bytes()
        server = f"https://{self._server}"
        files = self._plane.client_authority.issue_client(
            f"pool-{self.name}", user=f"system:node:{self.name}", group="system:nodes"
        )
        _replace(self._kubeconfig, server=server, ca=ca, credentials=files)
        if self._may_lead:
            token = token_of_pod(self._plane, CANDIDATE, self.name)
            path = self._candidate_kubeconfig
            _replace(path, server=server, ca=ca, credentials=token, namespace=NAMESPACE)


def _replace(path: Path, **content: Any) -> None:
    """At once, as kubelet does."""
    write_kubeconfig(path.with_suffix(".new"), **content).replace(path)
