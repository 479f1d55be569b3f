"""The state of GM's and LC's demo: the system in one mode, its jobs, and who looks.

Owns which GMs are not there and which nodes are cut off on purpose, and who leads and who is
connected where, as GMs and LCs say. Nothing here knows how it is shown.
"""

from dataclasses import dataclass, field

from tools.demo.runner import Runner
from tools.demo.sedna.jobs import Jobs
from tools.demo.sedna.status_poller import StatusPoller
from tools.demo.sedna.workload import Workload
from tools.harness.pods.edge_node import RELAY, EdgeNode
from tools.harness.pods.gm import GmPod
from tools.harness.pods.system import ACTIVE_STANDBY, System


@dataclass
class SednaState:
    """`absent`: names of GMs that were killed, or are still to be added; `cut`: of nodes."""

    system: System
    status_poller: StatusPoller
    workload: Workload
    jobs: Jobs
    runner: Runner
    absent: set[str] = field(default_factory=set)
    cut: set[str] = field(default_factory=set)

    # ── who leads ──

    def leads(self, pod: GmPod, *, since: float = 0.0) -> bool:
        said = self.status_poller.gm(pod, since=since)
        return said is not None and bool(said["leader"]["mayAct"])

    def leader(self, *, since: float = 0.0) -> GmPod | None:
        """The one that says so; None for none or, between two answers, two."""
        leading = [pod for pod in self.system.gms if self.leads(pod, since=since)]
        return leading[0] if len(leading) == 1 else None

    def is_ready(self, pod: GmPod, *, since: float = 0.0) -> bool:
        said = self.status_poller.gm(pod, since=since)
        return said is not None and bool(said["isReady"])

    # ── who is connected ──

    def peer(self, edge: EdgeNode, *, since: float = 0.0) -> str:
        """What an LC is connected to: a GM's name or, in mode relay, the API; "" for nothing."""
        said = self.status_poller.lc(edge, since=since)
        if said is None or not said["link"]["isUp"]:
            return ""
        if self.system.mode == RELAY:
            return "API"
        port = int(said["link"]["peer"].rpartition(":")[2])
        ports = {link.port: pod.name for link, pod in zip(edge.links, self.system.gms, strict=True)}
        return ports.get(port, "")

    def are_connected(self, *, since: float = 0.0) -> bool:
        """All LCs that are not cut, to who serves them; by answers that were asked for since."""
        leader = self.leader(since=since)
        if leader is None:
            return False
        peers = {
            self.peer(edge, since=since)
            for name, edge in self.system.edges.items()
            if name not in self.cut
        }
        if self.system.mode == ACTIVE_STANDBY:
            return peers == {leader.name}
        return "" not in peers and not peers & self.absent

    def waiting(self, edge: EdgeNode, *, since: float = 0.0) -> int | None:
        """Reports that an LC has and nobody has taken from it; None where it does not answer."""
        said = self.status_poller.lc(edge, since=since)
        return None if said is None else int(said["reports"]["waiting"])

    # ── what is done to them ──

    def kill(self, pod: GmPod) -> None:
        self.absent.add(pod.name)
        pod.kill()

    def bring_back(self, pod: GmPod) -> None:
        pod.restart()
        self.absent.discard(pod.name)

    def cut_off(self, name: str) -> None:
        """All of the node, without a word to anybody."""
        self.cut.add(name)
        self.system.edges[name].cut(is_silent=True)
        self.system.kubelet.cut(self.system.node(name))

    def heal(self, name: str) -> None:
        self.system.edges[name].heal()
        self.system.kubelet.heal(self.system.node(name))
        self.cut.discard(name)

    def restart(self, name: str) -> None:
        """The LC's pod is killed and started again."""
        edge = self.system.edges[name]
        edge.kill()
        edge.restart()


def fallen(system: System, absent: set[str]) -> str:
    """What ended though nobody killed it; "" for nothing."""
    runs: dict[str, bool] = {}
    for pod in system.gms:
        if pod.name not in absent:
            runs[f"{pod.name}: its gm"] = pod.gm.is_running
            runs[f"{pod.name}: its elector"] = pod.elector.is_running
            runs[f"{pod.name}: its relay"] = pod.relay.is_running
    for name, edge in system.edges.items():
        runs[f"{name}: its lc"] = edge.lc.is_running
        runs[f"{name}: its relay"] = edge.relay is None or edge.relay.is_running
    return next((what for what, is_running in runs.items() if not is_running), "")
