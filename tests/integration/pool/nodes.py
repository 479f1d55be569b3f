"""A site of nodes as the API server hears them: kubelets that write Leases and statuses, members
that report, and what a cut or a death takes from both.

Owns: a thread that speaks for all nodes, each by its own certificate. Guarantees: a node that is
cut or dead writes nothing; the report of a member names who is silent and for how long, in seconds
that pass `PACE` times as fast, since a test does not wait 40 s for a vote.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Self

from pool_sidecar.core.controller.node_state import CLOUD_LINK, DEFAULT_POOL_LABEL
from pool_sidecar.core.pool_member import (
    PATH,
    Link,
    MemberStatus,
    PeerVerdict,
    Report,
    Verdict,
)
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.clients.admin import AdminClient, Json
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.pools.accounts import node_client

ZONE = "topology.kubernetes.io/zone"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
# Seconds between two rounds of all nodes: below the grace period of the controller manager.
ROUND = 1.0
# Rounds between two reports of a member.
REPORT_EVERY = 2
PACE = 10.0


@dataclass
class Node:
    """`link`: its own to the cloud; `lender`: who lends it one; `lan`: whether peers hear it."""

    name: str
    pool: str
    client: AdminClient
    is_alive: bool = True
    link: bool = True
    lender: str = ""
    lan: bool = True
    sequence: int = 0
    # Ready's lastTransitionTime.
    ready_since: str = ""
    silent_since: dict[str, float] = field(default_factory=dict)
    never_heard: set[str] = field(default_factory=set)

    @property
    def is_heard(self) -> bool:
        """By the cloud."""
        return self.is_alive and (self.link or bool(self.lender))


class Site:
    """`nodes`: their names, all of `pool`; a context manager that speaks for them."""

    def __init__(
        self, plane: ControlPlane, nodes: Sequence[str], *, pool: str, zone: str = "edge"
    ) -> None:
        self.plane = plane
        self.nodes = {it: Node(it, pool, node_client(plane, it)) for it in nodes}
        self._zone = zone
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._rounds = 0
        self._thread = threading.Thread(target=self._speak_on, daemon=True)
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        for node in self.nodes.values():
            labels = {ZONE: self._zone, "kubernetes.io/hostname": node.name}
            if node.pool:
                labels[DEFAULT_POOL_LABEL] = node.pool
            body = {"metadata": {"name": node.name, "labels": labels}}
            expect(self.plane.admin.post("/api/v1/nodes", body))
            lease = {"metadata": {"name": node.name}, "spec": _lease_spec(node.name)}
            expect(node.client.post(LEASES, lease))
            self._write_status(node)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for name in self.nodes:
            self.plane.admin.delete(f"/api/v1/nodes/{name}")
            self.plane.admin.delete(f"{LEASES}/{name}")
            # Garbage collection comes to them later, maybe in the next test.
            self.plane.admin.delete(f"{PATH}/{name}")

    # ── what befalls them ──

    def kill(self, *names: str) -> None:
        with self._lock:
            for name in names:
                self.nodes[name].is_alive = False

    def revive(self, *names: str) -> None:
        with self._lock:
            for name in names:
                self.nodes[name].is_alive = True

    def cut(self, *names: str) -> None:
        """Of all at once: then none is left who would lend."""
        with self._lock:
            for name in names:
                self.nodes[name].link = False
            for node in self.nodes.values():
                lenders = (it.name for it in self.nodes.values() if it.is_alive and it.link)
                node.lender = "" if node.link else next(lenders, "")

    def heal(self, *names: str) -> None:
        with self._lock:
            for name in names:
                self.nodes[name].link, self.nodes[name].lender = True, ""

    def never_heard(self, name: str, *, by: Iterable[str]) -> None:
        """As where its port is closed from the start."""
        with self._lock:
            for voter in by:
                self.nodes[voter].never_heard.add(name)

    # ── what the API says ──

    def state(self, name: str) -> tuple[str, set[str]]:
        """Ready's status, and the keys of the taints."""
        node = expect(self.plane.admin.get(f"/api/v1/nodes/{name}"))
        conditions = {it["type"]: it["status"] for it in node["status"].get("conditions", ())}
        return conditions.get("Ready", ""), {it["key"] for it in node["spec"].get("taints", ())}

    # ── what they say ──

    def _speak_on(self) -> None:
        while not self._stop.wait(ROUND):
            with self._lock:
                self._rounds += 1
                for node in self.nodes.values():
                    self._look_around(node)
                    if node.is_heard:
                        self._speak(node)

    def _speak(self, node: Node) -> None:
        try:
            now = {"spec": {"renewTime": _micro(datetime.now(UTC))}}
            expect(node.client.patch(f"{LEASES}/{node.name}", now))
            if self._rounds % 2 == 0:
                self._write_status(node)
            if node.pool and self._rounds % REPORT_EVERY == 0:
                self._report(node)
        except (OSError, RuntimeError) as error:
            self.failures.append(f"{node.name}: {error}")

    def _write_status(self, node: Node) -> None:
        # As kubelet: lastTransitionTime moves only where the cloud has said otherwise meanwhile.
        if self.state(node.name)[0] != "True":
            node.ready_since = _now()
        ready = _condition("Ready", "True", "KubeletReady")
        conditions = [{**ready, "lastTransitionTime": node.ready_since}]
        if not node.link:
            conditions.append(_condition(CLOUD_LINK, "False", "ViaPeer"))
        elif node.pool:
            conditions.append(_condition(CLOUD_LINK, "True", "Own"))
        status = {"status": {"conditions": conditions}}
        expect(node.client.patch(f"/api/v1/nodes/{node.name}/status", status))

    def _look_around(self, node: Node) -> None:
        now = time.monotonic()
        for peer in self.nodes.values():
            if peer is node or (peer.is_alive and peer.lan and node.lan):
                node.silent_since.pop(peer.name, None)
            else:
                node.silent_since.setdefault(peer.name, now)

    def _report(self, node: Node) -> None:
        path = f"{PATH}/{node.name}"
        if node.client.get(path)[0] == HTTPStatus.NOT_FOUND:
            # Not made yet.
            return
        node.sequence += 1
        now = time.monotonic()
        verdicts = [
            PeerVerdict(
                name,
                Verdict.NEVER_HEARD if name in node.never_heard else Verdict.SILENT,
                int((now - since) * PACE),
            )
            for name, since in node.silent_since.items()
        ]
        others = node.never_heard - node.silent_since.keys()
        verdicts += [PeerVerdict(it, Verdict.NEVER_HEARD, 60) for it in others]
        status = MemberStatus(
            link=Link.OWN if node.link else Link.LENT,
            via=node.lender,
            report=Report(node.sequence, int(ROUND * REPORT_EVERY), tuple(verdicts)),
        )
        expect(node.client.patch(f"{path}/status", {"status": status.document()}))


def members(plane: ControlPlane) -> dict[str, Json]:
    """All PoolMembers by name."""
    found = expect(plane.admin.get(PATH))["items"]
    return {it["metadata"]["name"]: it for it in found}


def _condition(kind: str, status: str, reason: str) -> Json:
    times = dict.fromkeys(("lastHeartbeatTime", "lastTransitionTime"), _now())
    return {"type": kind, "status": status, "reason": reason, "message": reason, **times}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _lease_spec(name: str) -> Json:
    return {
        "holderIdentity": name,
        "leaseDurationSeconds": 40,
        "renewTime": _micro(datetime.now(UTC)),
    }


def _micro(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
