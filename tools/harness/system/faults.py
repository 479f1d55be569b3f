"""What befalls GMs and edge nodes: each fault is a context manager that ends with everything back.

A process that was killed or stopped is started again, as kubelet would, with its data.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from tools.harness.pods.edge_node import EdgeNode
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.gm import GmPod, GmProcess
from tools.harness.pods.lc import LcProcess
from tools.harness.pods.relay import RelayProcess
from tools.harness.pods.system import System

GmFault = Callable[[GmPod], AbstractContextManager[None]]
EdgeFault = Callable[[System, EdgeNode], AbstractContextManager[None]]


# ── GMs ──


@contextmanager
def gm_pod_killed(pod: GmPod) -> Iterator[None]:
    pod.kill()
    try:
        yield
    finally:
        pod.restart()


@contextmanager
def gm_killed(pod: GmPod) -> Iterator[None]:
    pod.gm.kill()
    try:
        yield
    finally:
        pod.gm.start()


@contextmanager
def gm_elector_killed(pod: GmPod) -> Iterator[None]:
    pod.elector.kill()
    try:
        yield
    finally:
        pod.elector.start(wait=False)


@contextmanager
def gm_relay_killed(pod: GmPod) -> Iterator[None]:
    pod.relay.kill()
    try:
        yield
    finally:
        pod.relay.start(wait=False)


@contextmanager
def gm_pod_frozen(pod: GmPod) -> Iterator[None]:
    pod.freeze()
    try:
        yield
    finally:
        pod.thaw()


@contextmanager
def gm_frozen(pod: GmPod) -> Iterator[None]:
    pod.gm.freeze()
    try:
        yield
    finally:
        pod.gm.thaw()


@contextmanager
def gm_pod_stopped(pod: GmPod) -> Iterator[None]:
    """SIGTERM to all containers at once, as kubelet does."""
    pod.elector.terminate()
    pod.gm.terminate()
    pod.elector.wait()
    pod.relay.terminate()
    try:
        yield
    finally:
        pod.restart()


@contextmanager
def gm_cut(pod: GmPod) -> Iterator[None]:
    pod.link.refuse()
    try:
        yield
    finally:
        pod.link.heal()


@contextmanager
def gm_cut_silently(pod: GmPod) -> Iterator[None]:
    pod.link.black_hole()
    try:
        yield
    finally:
        pod.link.heal()


GM: dict[str, GmFault] = {
    "gm-pod-killed": gm_pod_killed,
    "gm-killed": gm_killed,
    "gm-elector-killed": gm_elector_killed,
    "gm-relay-killed": gm_relay_killed,
    "gm-pod-frozen": gm_pod_frozen,
    "gm-frozen": gm_frozen,
    "gm-pod-stopped": gm_pod_stopped,
    "gm-cut": gm_cut,
    "gm-cut-silently": gm_cut_silently,
}


# ── edge nodes ──


@contextmanager
def edge_cut(system: System, edge: EdgeNode) -> Iterator[None]:
    """The whole node: its kubelet tells nothing either."""
    edge.cut()
    system.kubelet.cut(edge.name)
    try:
        yield
    finally:
        edge.heal()
        system.kubelet.heal(edge.name)


@contextmanager
def edge_cut_silently(system: System, edge: EdgeNode) -> Iterator[None]:
    edge.cut(is_silent=True)
    try:
        yield
    finally:
        edge.heal()


@contextmanager
def edge_half_cut(system: System, edge: EdgeNode) -> Iterator[None]:
    """From one GM only; in mode relay from the API."""
    link = edge.links[0]
    link.black_hole()
    try:
        yield
    finally:
        link.heal()


@contextmanager
def lc_restarted_while_cut(system: System, edge: EdgeNode) -> Iterator[None]:
    edge.cut()
    edge.kill()
    edge.restart()
    try:
        yield
    finally:
        edge.heal()


@contextmanager
def lc_killed(system: System, edge: EdgeNode) -> Iterator[None]:
    edge.lc.kill()
    try:
        yield
    finally:
        edge.restart()


@contextmanager
def edge_killed(system: System, edge: EdgeNode) -> Iterator[None]:
    edge.kill()
    try:
        yield
    finally:
        edge.restart()


@contextmanager
def lc_stopped(system: System, edge: EdgeNode) -> Iterator[None]:
    assert edge.lc.terminate() == 0, edge.lc.log_text()[-2000:]
    try:
        yield
    finally:
        edge.restart()


@contextmanager
def lc_frozen(system: System, edge: EdgeNode) -> Iterator[None]:
    edge.lc.freeze()
    try:
        yield
    finally:
        edge.lc.thaw()


EDGE: dict[str, EdgeFault] = {
    "edge-cut": edge_cut,
    "edge-cut-silently": edge_cut_silently,
    "edge-half-cut": edge_half_cut,
    "lc-restarted-while-cut": lc_restarted_while_cut,
    "lc-killed": lc_killed,
    "edge-killed": edge_killed,
    "lc-stopped": lc_stopped,
    "lc-frozen": lc_frozen,
}

Process = GmProcess | ElectorPod | RelayProcess | LcProcess


def processes(system: System) -> dict[str, list[tuple[str, Process]]]:
    """By the resource that faults take: its processes by name."""
    found: dict[str, list[tuple[str, Process]]] = {}
    for pod in system.gms:
        found[pod.name] = [
            (f"gm of {pod.name}", pod.gm),
            (f"elector of {pod.name}", pod.elector),
            (f"relay of {pod.name}", pod.relay),
        ]
    for name, edge in system.edges.items():
        found[name] = [(f"lc of {name}", edge.lc)]
        if edge.relay is not None:
            found[name].append((f"relay of {name}", edge.relay))
    return found
