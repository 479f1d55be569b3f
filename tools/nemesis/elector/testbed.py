"""Where a nemesis plays: three electors, two that wrap a program, perhaps two client-go
candidates, one Lease.

Owns the control plane's fault proxies, one per candidate, and all processes; leaves none behind.
"""

import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Protocol, Self

from tools.harness.controlplane.api_server import ApiServer
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.controlplane.reservation import Reservation
from tools.harness.peers.candidate import ClientGoCandidate
from tools.harness.pods.fleet import FAST_DURATION, Fleet, kubeconfig
from tools.harness.pods.main import MainServer
from tools.harness.pods.observers.observer import Observer, wait_for
from tools.harness.pods.wrapped.pod import DEAF, OBEDIENT, WrappedPod

ELECTORS = 3
# Of them so many have a main that can say that it has stopped.
MAINS = 2
WRAPPED = (OBEDIENT, DEAF)
# Seconds; shorter than an ordinary one, so that it often ends in vain.
DRAIN_TIMEOUT = 3.0
PEERS = 2
# Whoever steals the Lease in an administrator's name; nobody runs under it.
BOGUS = "bogus"
# Contract, section 7: a leader so long after healing at the latest.
HEALING = FAST_DURATION + 2.0


class Candidate(Protocol):
    """A process that contends; ours or client-go's."""

    name: str

    @property
    def is_running(self) -> bool: ...
    def start(self) -> object: ...
    def is_leader(self) -> bool: ...
    def freeze(self) -> None: ...
    def thaw(self) -> None: ...
    def kill(self) -> None: ...
    def terminate(self) -> None: ...
    def wait(self, timeout: float = ...) -> int: ...
    def log_text(self) -> str: ...


class Testbed(Protocol):
    """Where processes and their ways to the API server are struck."""

    @property
    def plane(self) -> ApiServer: ...
    @property
    def links(self) -> Mapping[str, FaultProxy]: ...
    @property
    def candidates(self) -> Sequence[Candidate]: ...


class ElectionTestbed:
    """Contending while it is entered; `client_go` names the version of the peers, if any."""

    def __init__(self, plane: ApiServer, namespace: str, *, client_go: str | None) -> None:
        self.plane = plane
        self.namespace = namespace
        self.fleet = Fleet(plane, namespace)
        self.peers: list[ClientGoCandidate] = []
        self.mains: list[MainServer] = []
        self.wrapped: list[WrappedPod] = []
        self.links: dict[str, FaultProxy] = {}
        self._client_go = client_go
        self._stack = ExitStack()
        collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self.collection = collection
        self.path = f"{collection}/{self.fleet.lease}"

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.fleet)
            self.fleet.create_empty_lease()
            for index in range(ELECTORS):
                # The last one leaves its Lease to expire when it is to end or to be held.
                flags: list[str] = []
                if index < MAINS:
                    self.mains.append(stack.enter_context(MainServer()))
                    flags = ["--release-on-term", "--drain-url", f"{self.mains[-1].url}/drain"]
                    flags += [f"--drain-timeout={DRAIN_TIMEOUT:g}s"]
                listen, environ = self._place(stack)
                flags += [f"--priority={index}", "--priority-settle=1s", listen]
                self.fleet.add(*flags, environ=environ)
            for mode in WRAPPED:
                listen, environ = self._place(stack)
                drain = f"--drain-timeout={DRAIN_TIMEOUT:g}s"
                pod = self.fleet.add_of(WrappedPod, "--restart", drain, listen, environ=environ)
                pod.wraps(mode)
                self.wrapped.append(pod.start())
            self.links.update(self.fleet.links)
            if self._client_go is not None:
                for index in range(PEERS):
                    self._add_peer(stack, self._client_go, index)
            self.observer = stack.enter_context(Observer(self.fleet.pods, interval=0.05))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        for link in self.links.values():
            link.heal()
        self._stack.close()

    def _place(self, stack: ExitStack) -> tuple[str, dict[str, str]]:
        """A port that stays the pod's, and the pod's uid: a process that starts may go on."""
        reserved = Reservation()
        stack.callback(reserved.release)
        environ = {"POD_UID": str(uuid.uuid4())}
        return f"--listen=127.0.0.1:{reserved.port}", environ

    def _add_peer(self, stack: ExitStack, version: str, index: int) -> None:
        name = f"peer-{index}"
        link = stack.enter_context(FaultProxy(self.plane.port, scheme=self.plane.scheme))
        config = kubeconfig(self.plane, self.namespace, server=link.url)
        peer = ClientGoCandidate(
            name,
            version=version,
            kubeconfig=config,
            namespace=self.namespace,
            lease=self.fleet.lease,
            # One of them releases when it ends, and so may blank what is not its own (H4).
            loops=True,
            releases=index == 0,
        )
        self.peers.append(stack.enter_context(peer))
        self.links[name] = link
        peer.start()

    @property
    def candidates(self) -> Sequence[Candidate]:
        return [*self.fleet.pods, *self.peers]

    def read(self) -> dict[str, Any] | None:
        """The Lease, None if it does not exist. Raises OSError without an answer."""
        status, body = self.plane.admin.get(self.path)
        return body if status == 200 else None

    def wait_for_leader(self) -> float:
        """Seconds until exactly one candidate leads by its own word; fails after HEALING."""
        return wait_for(
            lambda: sum(each.is_leader() for each in self.candidates) == 1,
            timeout=HEALING,
            what=f"a leader; the Lease: {self.read()}",
            interval=0.05,
        )
