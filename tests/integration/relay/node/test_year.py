"""L3 and L5 for as long as a node runs: after the requests of a year its memory, its disk and its
descriptors are what they were, and what kubelet asks at a reboot is answered while cut.

A year has 525,600 runs of a CronJob a minute; the budget here is a sixteenth of the default, so
that a sixteenth of a year fills it as often. `make soak-limits` plays that; `make test-long` as
much as fills each share of the budget several times. Each run is what kubelet asks about a pod, and
others ask by ever new names and selectors; the pods' states are ten times as long as usual.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final

import pytest

from tests.integration.relay.node.node_place import NODE, NodePlace, allow_nodes
from tests.integration.relay.place import EVERYTHING
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.wire.caller import Caller
from tools.harness.relay_objects import Contents

pytestmark = pytest.mark.long

MIB: Final = 1024 * 1024
BUDGET: Final = 8 * MIB
RUNS: Final = int(os.environ.get("SOAK_RUNS", "180"))
# Seconds of a test: a run takes some 0.15, much more on a busy machine.
LONGEST: Final = 120 + 2 * RUNS
# Bytes of a pod's state, ten times as much as usual.
STATE: Final = 30_000
# What the process has beside what it keeps, and what allocators leave unused; the WAL.
ITSELF: Final = 110 * MIB
WAL: Final = 20 * MIB
NAME: Final = NODE.removeprefix("system:node:")
CLAIM: Final = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
}


@dataclass
class Node:
    """What kubelet, other callers and the cloud do on one node."""

    place: NodePlace
    contents: Contents
    kubelet: Caller
    other: Caller
    # CoreDNS of the node, with the token of its own account.
    dns: Caller
    questions: list[str] = field(default_factory=list)

    def boot(self) -> None:
        """What kubelet reads by name when it starts, and never again."""
        admin, namespace = self.place.plane.admin, self.contents.namespace
        expect(admin.post("/api/v1/nodes", {"metadata": {"name": NAME}}))
        csi = "/apis/storage.k8s.io/v1/csinodes"
        expect(admin.post(csi, {"metadata": {"name": NAME}, "spec": {"drivers": []}}))
        self.contents.create("persistentvolumeclaims", "data", spec=CLAIM)
        self.contents.configmap("settings", k="v")
        self.questions = [
            f"/api/v1/nodes/{NAME}",
            f"{csi}/{NAME}",
            f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/data",
            f"/api/v1/namespaces/{namespace}/configmaps/settings",
        ]
        self.contents.configmap("zones", k="v")
        for question in self.questions:
            assert self.kubelet.get(question).status == HTTPStatus.OK
        assert self.dns.get(self.contents.path("configmaps", "zones")).status == HTTPStatus.OK

    def run(self, number: int) -> None:
        """One pod of a CronJob, from its binding to its end."""
        name, pods = f"job-{number}", self.contents.path("pods")
        self.contents.pod(name, node=NAME, labels={"job": name})
        assert self.kubelet.get(f"{pods}/{name}").status == HTTPStatus.OK
        for phase in ("Running", "Succeeded"):
            state = {"status": {"phase": phase, "message": f"{phase} ".ljust(STATE, "x")}}
            assert self.kubelet.patch(f"{pods}/{name}/status", state).status == HTTPStatus.OK
        for reason in ("Pulled", "Started"):
            event = self._event(f"{name}.{reason}", name, reason)
            assert self.kubelet.post(self.contents.path("events"), event).status == 201
        if number % 10 == 0:
            query = {"labelSelector": f"job={name}"}
            assert self.other.get(pods, query).status == HTTPStatus.OK
        self.contents.configmap(name, k="x" * STATE)
        assert self.other.get(self.contents.path("configmaps", name)).status == HTTPStatus.OK
        self.contents.delete("configmaps", name)
        self.contents.delete("pods", name)

    def _event(self, name: str, pod: str, reason: str) -> dict[str, object]:
        namespace = self.contents.namespace
        return {
            "kind": "Event",
            "apiVersion": "v1",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {"kind": "Pod", "name": pod, "namespace": namespace},
            "reason": reason,
            "message": "m" * 500,
        }


@dataclass
class Most:
    """Of what a process took in some time: bytes, bytes, descriptors."""

    memory: int = 0
    disk: int = 0
    descriptors: int = 0


@contextmanager
def watched(node: NodePlace) -> Iterator[Most]:
    """Looks all the time."""
    most, is_over = Most(), threading.Event()

    def look() -> None:
        while not is_over.wait(0.2):
            most.memory = max(most.memory, node.relay.memory())
            most.disk = max(most.disk, size_of(node.relay.data_dir))
            most.descriptors = max(most.descriptors, len(os.listdir(f"/proc/{node.relay.pid}/fd")))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield most
    finally:
        is_over.set()
        thread.join()


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir() if file.exists())


@pytest.mark.slow
@pytest.mark.timeout(LONGEST)
def test_l5_after_a_year_a_node_has_what_kubelet_asks_at_a_reboot(
    control_plane: ControlPlane, contents: Contents, tmp_path: Path
) -> None:
    allow_nodes(control_plane)
    account = control_plane.service_account_dir(
        contents.namespace, "other", [], cluster_rules=EVERYTHING
    )
    component = control_plane.service_account_dir(
        "kube-system", "coredns-node", [], cluster_rules=EVERYTHING
    )
    flags = [f"--memory-budget={BUDGET}", "--idle-timeout=2s", "--max-streams=32"]
    place = NodePlace(control_plane, tmp_path, flags=flags)
    # Its own memory is measured.
    place.relay.may_fork = False
    with place, ExitStack() as stack:
        other, dns = (
            place.caller(token=(it.path / "token").read_text()) for it in (account, component)
        )
        node = Node(place, contents, place.caller(place.pair), other, dns)
        node.boot()
        mine = {"fieldSelector": f"spec.nodeName={NAME}", "resourceVersion": "0"}
        watching = stack.enter_context(node.kubelet.watch("/api/v1/pods", mine))
        began = time.monotonic()
        with watched(place) as most:
            for number in range(RUNS):
                node.run(number)
                if number == RUNS // 4:
                    early = Most(most.memory, most.disk, most.descriptors)
        print(f"{RUNS} runs in {time.monotonic() - began:.0f} s: {most}, {early} in a quarter")
        watching.wait_for(lambda it: ("DELETED", f"job-{RUNS - 1}") in it.told(), what="the end")
        said = place.relay.status()["memory"]
        assert said["usedBytes"] <= said["limitBytes"]
        assert said["evictedObjects"] > 0
        assert most.memory <= ITSELF
        assert most.memory <= early.memory + 2 * BUDGET
        assert most.disk <= 2 * BUDGET + 16 * MIB + WAL
        assert most.descriptors <= early.descriptors + 32
        stack.close()
        reboot(node)


def reboot(node: Node) -> None:
    """While the node is cut off; as kubelet that begins."""
    place = node.place
    place.cut()
    place.relay.kill()
    place.relay.start()
    for question in node.questions:
        reply = node.kubelet.get(question)
        assert reply.status == HTTPStatus.OK, (question, reply.body)
    assert node.dns.get(node.contents.path("configmaps", "zones")).status == HTTPStatus.OK
    mine = {"fieldSelector": f"spec.nodeName={NAME}", "resourceVersion": "0"}
    wait_for(
        lambda: node.kubelet.get("/api/v1/pods", mine).status == HTTPStatus.OK,
        timeout=20,
        what="the pods of the node",
        interval=0.1,
    )
