"""Five nodes that share their streams of Services and EndpointSlices, beside a relay in no pool.
Those that may lead have one more relay, with the endpoint view, as nodes have on which kube-proxy
goes by it.

Guarantees: bytes are those that passed the nodes' links; a hub's followers count as live only where
their own relays say so of both streams; requests come from the API server's audit log.
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from pool_sidecar.core.controller.node_state import DEFAULT_POOL_LABEL, MAY_LEAD_NODE_LABEL
from tools.bench.pace import sleep, wait_for
from tools.bench.pool.three_nodes import SteadyKubelet
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.audit import AuditEvent
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.reservation import LOOPBACK, Reservation
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.pools.candidate import nodes_as_proxies, pool_candidate
from tools.harness.pods.pools.member import PoolNode
from tools.harness.pods.relay import RelayProcess
from tools.harness.pods.wire.caller import Caller

SERVICES: Final = "/api/v1/namespaces/default/services"
SLICES: Final = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
WATCHED: Final = {
    "services.v1.": "/api/v1/services",
    "endpointslices.v1.discovery.k8s.io": "/apis/discovery.k8s.io/v1/endpointslices",
}
NAMES: Final = ("w1", "w2", "w3", "w4", "w5")
MAY_LEAD: Final = NAMES[:2]
# In no pool.
ALONE: Final = "w6"
# Changes a second, of 20 slices with 10 endpoints each and, one in five, of a Service.
RATE: Final = 5.0
OBJECTS: Final = 20
ENDPOINTS: Final = 10
# Seconds.
TIMEOUT: Final = 240.0
POLL: Final = 0.05
_FIRST_PAGE: Final = "limit=1000"


@dataclass(frozen=True)
class Lost:
    """Seconds until all followers were live again without the hub, and until another one led; lists
    that their relays made for that."""

    live: float
    led: float
    lists: int


@dataclass(frozen=True)
class HandedOver:
    """Seconds until the next hub fed all; requests of the others to the API server meanwhile."""

    fed: float
    requests: int


class SharingSite:
    """While it is entered, two clients of each node watch, and Services and slices change."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._lan = Reservation()
        self._ports = {name: Reservation() for name in MAY_LEAD}
        self.nodes = {name: self._node(number, name) for number, name in enumerate(NAMES, 1)}
        self._alone = self._node(len(NAMES) + 1, ALONE)
        self._candidates: dict[str, ElectorPod] = {}
        self._views = {name: Reservation() for name in MAY_LEAD}

    def _node(self, number: int, name: str) -> PoolNode:
        labels, flags = {}, []
        if name != ALONE:
            labels[DEFAULT_POOL_LABEL] = "wan"
        if name in MAY_LEAD:
            labels[MAY_LEAD_NODE_LABEL] = "true"
            elector = f"http://{LOOPBACK}:{self._ports[name].port}"
            flags = [f"--lease-file={self._lease_file(name)}", f"--elector={elector}"]
        return PoolNode(
            self._plane,
            name,
            address=f"127.0.82.{number}",
            lan_port=self._lan.port,
            folder=self._plane.folder,
            labels=labels,
            flags=flags,
            kubelet=SteadyKubelet,
            is_followed=name != ALONE,
            is_shared=name != ALONE,
        )

    def _lease_file(self, name: str) -> Any:
        return self._plane.folder / f"lease-{name}"

    def __enter__(self) -> "SharingSite":
        with ExitStack() as stack:
            for reserved in (self._lan, *self._ports.values(), *self._views.values()):
                stack.callback(reserved.release)
            stack.enter_context(nodes_as_proxies(self._plane))
            _make_objects(self._plane)
            for node in (*self.nodes.values(), self._alone):
                stack.enter_context(node)
            for name in MAY_LEAD:
                self._candidates[name] = self._candidate(name, stack)
                relay = self._viewing(name)
                stack.callback(relay.stop)
                relay.start()
                view = f"http://{LOOPBACK}:{self._views[name].port}"
                for url, path in zip((relay.url, view), WATCHED.values(), strict=True):
                    stack.enter_context(Caller(url).watch(path, {}))
            for node, path in itertools.product(
                (*self.nodes.values(), self._alone), WATCHED.values()
            ):
                stack.enter_context(Caller(node.relay.url).watch(path, {}))
            with changes(self._plane):
                self.wait_shared()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _viewing(self, name: str) -> RelayProcess:
        node = self.nodes[name]
        view = f"--endpoint-view={LOOPBACK}:{self._views[name].port}"
        flags = [f"--kubeconfig={node.kubeconfig}", *node.pool_flags, view]
        return RelayProcess(flags, name=f"view-{name}", guardian=self._plane.guardian)

    def _candidate(self, name: str, stack: ExitStack) -> ElectorPod:
        port = self._ports[name].port
        pod = pool_candidate(
            self._plane, self.nodes[name], self._lease_file(name), port, self._plane.folder
        )
        stack.enter_context(pod).start(wait=False)
        return pod

    # ── what is so ──

    def hub(self) -> str:
        """The one that leads; "" for none."""
        running = (it for it in self.nodes.values() if it.member.is_running)
        return next((it.name for it in running if it.member.status()["role"] == "Leader"), "")

    def is_fed(self, name: str, by: Callable[[str], bool]) -> bool:
        """Both streams are live, and come from there ("cloud" or a node)."""
        told = self._streams(name)
        return len(told) == len(WATCHED) and all(
            it["state"] == "live" and by(it["source"]) for it in told
        )

    def _streams(self, name: str) -> list[dict[str, Any]]:
        streams = self.nodes[name].relay.status()["streams"]
        return [it for it in streams if it["resource"] in WATCHED]

    def wait_shared(self) -> str:
        """Until a hub leads and feeds all others; its name."""

        def is_so() -> bool:
            hub = self.hub()
            others = [it for it in NAMES if it != hub]
            return bool(hub) and all(self.is_fed(it, hub.__eq__) for it in others)

        wait_for(is_so, timeout=TIMEOUT, what="a hub feeds all others", interval=POLL)
        return self.hub()

    # ── what is measured ──

    def ratio(self, *, window: float) -> float:
        """Bytes on all links of the pool that changes cost, by those on the link of the relay that
        is in none."""
        sleep(1.0)
        pool_at_rest, alone_at_rest = self._bytes(window)
        with changes(self._plane):
            sleep(1.0)
            pool, alone = self._bytes(window)
        return (pool - pool_at_rest) / (alone - alone_at_rest)

    def _bytes(self, window: float) -> tuple[int, int]:
        """Of the pool, and of the other one."""
        links = [it.link for it in self.nodes.values()]
        before = [_passed(it) for it in (*links, self._alone.link)]
        sleep(window)
        spent = [
            _passed(it) - was for it, was in zip((*links, self._alone.link), before, strict=True)
        ]
        return sum(spent[:-1]), spent[-1]

    def hand_over(self) -> HandedOver:
        """The hub's candidate is stopped in order."""
        hub = self.wait_shared()
        since, began = time.time(), time.monotonic()
        self._candidates[hub].terminate()
        (successor,) = set(MAY_LEAD) - {hub}
        others = [it for it in NAMES if it != successor]
        self._wait(lambda: all(self.is_fed(it, successor.__eq__) for it in others), "the next hub")
        fed = time.monotonic() - began
        requests = sum(self._requests(it, since) for it in others)
        self._candidates[hub].start(wait=False)
        return HandedOver(fed, requests)

    def lose_hub(self) -> Lost:
        """All processes of the hub's node are killed in one moment."""
        hub = self.wait_shared()
        followers = [it for it in NAMES if it != hub]
        (successor,) = set(MAY_LEAD) - {hub}
        # A candidate that was just started waits out the Lease from its first look at it on.
        candidate = self._candidates[successor]
        candidate.wait_listening()
        self._wait(lambda: bool(candidate.leader()["holder"]), "the successor knows the Lease")
        node, since, began = self.nodes[hub], time.time(), time.monotonic()
        for process in (self._candidates[hub], node.member, node.relay):
            process.kill()
        self._wait(lambda: all(self.is_fed(it, hub.__ne__) for it in followers), "live again")
        live = time.monotonic() - began
        self._wait(lambda: self.hub() == successor, "another one leads")
        led = time.monotonic() - began
        lost = Lost(live, led, sum(self._lists(it, since) for it in followers))
        node.relay.start()
        node.member.start()
        self._candidates[hub].start(wait=False)
        return lost

    def _lists(self, name: str, since: float) -> int:
        """Of streams; what a relay asks beside a watch has a smaller limit."""
        return len(
            {it.audit_id for it in self._asked(name, since) if _FIRST_PAGE in it.request_uri}
        )

    def _requests(self, name: str, since: float) -> int:
        return len({it.audit_id for it in self._asked(name, since)})

    def _asked(self, name: str, since: float) -> list[AuditEvent]:
        return [
            it
            for resource in ("services", "endpointslices")
            for it in self._plane.audit(
                stage=None, user=f"system:node:{name}", resource=resource, since=since
            )
            if it.received_at >= since
        ]

    def _wait(self, is_so: Callable[[], bool], what: str) -> None:
        wait_for(is_so, timeout=TIMEOUT, what=what, interval=POLL)


def _passed(link: Any) -> int:
    traffic = link.traffic()
    return int(traffic.request_bytes + traffic.response_bytes)


def _slice(number: int, turn: int) -> dict[str, Any]:
    """Another endpoint is not ready at each of its turns."""
    endpoints = [
        {
            "addresses": [f"198.18.{number}.{each}"],
            "conditions": {"ready": (turn // OBJECTS + each) % ENDPOINTS != 0},
            "nodeName": NAMES[each % len(NAMES)],
        }
        for each in range(1, ENDPOINTS + 1)
    ]
    return {
        "metadata": {"name": f"shop-{number}", "labels": {"kubernetes.io/service-name": "shop"}},
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": "http", "port": 80}],
    }


def _make_objects(plane: ControlPlane) -> None:
    for number in range(OBJECTS):
        service = {"metadata": {"name": f"shop-{number}"}, "spec": {"ports": [{"port": 80}]}}
        expect(plane.admin.post(SERVICES, service))
        expect(plane.admin.post(SLICES, _slice(number, 0)))


@contextmanager
def changes(plane: ControlPlane) -> Iterator[None]:
    """`RATE` a second meanwhile."""
    stop = threading.Event()

    def change() -> None:
        for turn in itertools.count(1):
            if stop.wait(1 / RATE):
                return
            number = turn % OBJECTS
            if turn % 5:
                body = {"endpoints": _slice(number, turn)["endpoints"]}
                expect(plane.admin.patch(f"{SLICES}/shop-{number}", body))
            else:
                annotated = {"metadata": {"annotations": {"turn": str(turn)}}}
                expect(plane.admin.patch(f"{SERVICES}/shop-{number}", annotated))

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def measured(
    plane: ControlPlane, *, runs: int, window: float
) -> tuple[Sequence[float], Sequence[HandedOver], Sequence[Lost]]:
    """Ratios of bytes, hubs that handed over, and lost ones, of each run."""
    with SharingSite(plane) as site:
        ratios, orderly, lost = [], [], []
        for _ in range(runs):
            ratios.append(site.ratio(window=window))
            with changes(plane):
                orderly.append(site.hand_over())
                lost.append(site.lose_hub())
                site.wait_shared()
    return ratios, orderly, lost
