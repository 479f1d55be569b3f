"""One Lease with its pods, of ours or of client-go, and what is done to them.

Owns: the pods, their mains, their cuttable links and the namespace. Guarantee: every process is
under the control plane's guardian, so none outlives the benchmark, however that ends.
"""

import random
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tools.bench.elector.install import Sidecar
from tools.bench.elector.main_process import MainProcess
from tools.bench.elector.poller import Contender, Poller, Target, boottime
from tools.bench.elector.timeline import Reply, first_200
from tools.bench.pace import sleep, wait_for
from tools.bench.process import AS_IN_IMAGES
from tools.bench.samples import OURS
from tools.harness.controlplane.audit import AuditEvent
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.fault import Fault
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.peers.candidate import CandidatePod
from tools.harness.pods.elector import ELECTOR_RULES, ElectorPod
from tools.harness.pods.fleet import LEASE, Fleet, kubeconfig

# The same of both: client-go's defaults, as kube-controller-manager and controller-runtime use.
CLIENT_GO_TIMING = ("--lease-duration", "15s", "--renew-deadline", "10s", "--retry-period", "2s")
LEASE_DURATION = 15.0
STEADY_TIMEOUT = 90.0
# Two renewals and a random phase, so that faults hit any moment between two renewals.
SETTLE = (4.5, 6.5)
# An expired lease, a retry with jitter, and as much again for a busy machine.
TAKEOVER_TIMEOUT = 45.0


@dataclass(frozen=True)
class World:
    """What all sides share."""

    plane: ControlPlane
    poller: Poller
    sidecar: Sidecar
    candidate: Path
    # The audit log and the guardian's pipe serve one thread at a time.
    lock: threading.Lock

    def guard(self, pid: int) -> None:
        """The process dies with the benchmark."""
        with self.lock:
            self.plane.guardian.watch(pid)


@dataclass(frozen=True)
class Setup:
    """How one side's pods are started. `has_main`: each sidecar has a main and its health gate;
    `has_drain`: it asks its main before a release."""

    kind: str
    flags: tuple[str, ...] = ()
    is_proxied: bool = False
    has_main: bool = False
    has_drain: bool = False
    replicas: int = 3


class Side:
    """Starts its pods on entering, one after the other."""

    def __init__(self, world: World, setup: Setup, *, sidecar: Sidecar | None = None) -> None:
        self.world = world
        self.kind = setup.kind
        self._setup = setup
        self._sidecar = sidecar or world.sidecar
        self.namespace = world.plane.create_namespace("bench")
        self.lease = Fleet(world.plane, self.namespace)
        self.targets: list[Target] = []
        self._links: dict[str, FaultProxy] = {}
        self._mains: dict[str, MainProcess] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._stack = stack
            self.lease.create_empty_lease()
            for index in range(self._setup.replicas):
                self._add(f"pod-{index}")
            # Not to be undone here: nothing went wrong.
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        for link in self._links.values():
            link.heal()
        self._stack.close()

    @property
    def pods(self) -> list[Contender]:
        return [target.pod for target in self.targets]

    def link(self, pod: Contender) -> FaultProxy:
        return self._links[pod.name]

    def main(self, pod: Contender) -> MainProcess:
        return self._mains[pod.name]

    # ── pods ──

    def _add(self, name: str) -> None:
        plane = self.world.plane
        server = plane.server
        if self._setup.is_proxied:
            self._links[name] = self._stack.enter_context(FaultProxy(plane.port))
            server = self._links[name].url
        pod = self._ours(name, server) if self.kind == OURS else self._theirs(name, server)
        self._stack.callback(pod.stop)
        self.start(pod)
        self.targets.append(self.world.poller.watch(pod))

    def _ours(self, name: str, server: str) -> Contender:
        account = self.world.plane.service_account_dir(self.namespace, "elector", ELECTOR_RULES)
        flags = ["--server", server, "--service-account-dir", str(account.path)]
        if self._setup.has_main:
            main = self._mains[name] = MainProcess()
            self._stack.callback(main.stop)
            flags += ["--health-url", main.url]
            if self._setup.has_drain:
                flags += ["--drain-url", main.url]
        return ElectorPod(
            name,
            LEASE,
            [*flags, "--namespace", self.namespace, *self._setup.flags],
            interpreter=self._sidecar.interpreter,
            environ=AS_IN_IMAGES,
        )

    def _theirs(self, name: str, server: str) -> Contender:
        config = kubeconfig(self.world.plane, self.namespace, server=server)
        flags = ["--kubeconfig", str(config), "--namespace", self.namespace, "--lease", LEASE]
        flags += ["--listen", "127.0.0.1:0", *CLIENT_GO_TIMING, *self._setup.flags]
        return CandidatePod(self.world.candidate, name, flags)

    def start(self, pod: Contender) -> None:
        """A new process (and main) of a pod that does not run; returns when it listens."""
        main = self._mains.get(pod.name)
        if main is not None and not main.is_running:
            self.world.guard(main.start())
        pod.start(wait=False)
        self.world.guard(pod.pid)
        pod.wait_listening()

    def kill(self, pod: Contender) -> None:
        """The whole pod: the sidecar and its main."""
        if pod.name in self._mains:
            self._mains[pod.name].kill()
        pod.kill()

    # ── leadership, as the replies tell it ──

    def steady(self) -> Contender:
        """The leader, after everything runs, nothing is cut, and some renewals have passed."""
        for link in self._links.values():
            link.heal()
        for pod in self.pods:
            main = self._mains.get(pod.name)
            if main is not None and not main.is_running:
                self.world.guard(main.start())
            if not pod.is_running:
                self.start(pod)
        wait_for(self._has_one_leader, timeout=STEADY_TIMEOUT, what=f"{self.kind}: one leader")
        sleep(random.uniform(*SETTLE))
        wait_for(self._has_one_leader, timeout=STEADY_TIMEOUT, what=f"{self.kind}: one leader")
        return self.leaders()[0]

    def leaders(self) -> list[Contender]:
        return [target.pod for target in self.targets if target.says_leader()]

    def _has_one_leader(self) -> bool:
        return len(self.leaders()) == 1

    def others(self, pod: Contender) -> list[Contender]:
        return [other for other in self.pods if other is not pod]

    def replies(self, *, since: float, pods: Sequence[Contender] | None = None) -> list[Reply]:
        """Of these pods (all), that were sent at or after `since`."""
        asked = self.pods if pods is None else pods
        found: list[Reply] = []
        for target in self.targets:
            if target.pod in asked:
                found += [reply for reply in list(target.replies) if reply.sent >= since]
        return found

    def forget(self) -> None:
        """Drops the replies of earlier runs."""
        for target in self.targets:
            target.replies.clear()

    def await_200(
        self, pods: Sequence[Contender], *, since: float, timeout: float = TAKEOVER_TIMEOUT
    ) -> Reply:
        found: list[Reply] = []

        def is_found() -> bool:
            reply = first_200(self.replies(since=since, pods=pods), since=since)
            found[:] = [reply] if reply else []
            return reply is not None

        names = ", ".join(pod.name for pod in pods)
        wait_for(is_found, timeout=timeout, what=f"{self.kind}: a 200 of {names}", interval=0.02)
        return found[0]

    # ── the audit log ──

    def writes(self, identity: str, *, since: float) -> list[AuditEvent]:
        """Successful PUTs of the Lease by that candidate; `since` on CLOCK_BOOTTIME."""
        with self.world.lock:
            events = self.world.plane.audit(
                namespace=self.namespace, verb="update", resource="leases", since=realtime(since)
            )
        return [event for event in events if identity in event.user_agent and event.status == 200]

    def last_renewal(self, identity: str, *, before: float) -> float:
        """When the last write that named it holder arrived at the API server (CLOCK_BOOTTIME)."""
        writes = self.writes(identity, since=before - 3 * LEASE_DURATION)
        own = [event.received_at for event in writes if holder(event) == identity]
        return max((at for at in own if at <= realtime(before)), default=realtime(before)) - (
            realtime(0.0)
        )


def holder(event: AuditEvent) -> str:
    """Who is the holder after that write."""
    body = event.request_object or {}
    return str((body.get("spec") or {}).get("holderIdentity") or "")


def realtime(at: float) -> float:
    """A moment of CLOCK_BOOTTIME as seconds since the epoch."""
    return at + time.time() - boottime()


def apply_to_all(side: Side, fault: Fault) -> None:
    for pod in side.pods:
        side.link(pod).apply(fault)
