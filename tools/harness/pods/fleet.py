"""Several pods that contend for one Lease, each behind its own cuttable link to the API server.

Owns the pods and links it made and stops them. Edits of the Lease are an administrator's, as
`kubectl edit` would make them.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, TypeVar

from tools.harness.controlplane.access.service_account import ServiceAccountDirectory
from tools.harness.controlplane.api_server import ApiServer
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.pods.elector import ELECTOR_RULES, ElectorPod
from tools.harness.pods.observers.observer import wait_for, wait_for_leader

# The shortest lease with room for faults between two renewals; renewal each second.
FAST = ("--lease-duration", "4s", "--renew-interval", "1s", "--request-timeout", "2s")
FAST_DURATION = 4.0
# Renews as often, and no term and no request ends because the machine stood still for seconds: for
# what must not happen, such as the end of a term.
STEADY = ("--lease-duration", "20s", "--renew-interval", "1s", "--request-timeout", "8s")
STEADY_DURATION = 20.0
LEASE = "controller"
# An empty Lease is taken at once; a busy machine starts processes slowly.
ELECTION_TIMEOUT = 6.0
Pod = TypeVar("Pod", bound=ElectorPod)


class Fleet:
    def __init__(self, plane: ApiServer, namespace: str, *, lease: str = LEASE) -> None:
        self.plane = plane
        self.namespace = namespace
        self.lease = lease
        self.pods: list[ElectorPod] = []
        self.links: dict[str, FaultProxy] = {}
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._collection}/{lease}"
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Frozen pods and cut links must not keep the test run.
        for link in self.links.values():
            link.heal()
        self._stack.close()

    def add(
        self,
        *flags: str,
        timing: tuple[str, ...] = FAST,
        start: bool = True,
        credentials: ServiceAccountDirectory | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> ElectorPod:
        """Another pod, named pod-0, pod-1, …; `links[pod.name]` is its way to the API server."""
        pod = self.add_of(
            ElectorPod, *flags, timing=timing, credentials=credentials, environ=environ
        )
        return pod.start() if start else pod

    def add_of(
        self,
        kind: type[Pod],
        *flags: str,
        timing: tuple[str, ...] = FAST,
        credentials: ServiceAccountDirectory | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Pod:
        """Another one of this kind, which is not started."""
        name = f"pod-{len(self.pods)}"
        link = self._stack.enter_context(FaultProxy(self.plane.port, scheme=self.plane.scheme))
        account = credentials or self.plane.service_account_dir(
            self.namespace, "elector", ELECTOR_RULES
        )
        server = ["--server", link.url]
        identity = ["--service-account-dir", str(account.path)]
        pod = kind(name, self.lease, [*server, *identity, *timing, *flags], environ or {})
        self._stack.enter_context(pod)
        self.pods.append(pod)
        self.links[name] = link
        return pod

    def elect(self, count: int) -> tuple[ElectorPod, list[ElectorPod]]:
        """An empty Lease and so many pods on it: the leader, and the others, which know it."""
        self.create_empty_lease()
        pods = [self.add(start=False).start(wait=False) for _ in range(count)]
        for pod in pods:
            pod.wait_listening()
        leader = wait_for_leader(pods, timeout=ELECTION_TIMEOUT)
        others = [pod for pod in pods if pod is not leader]
        wait_for(
            lambda: all(pod.leader()["holder"] == leader.identity for pod in others),
            timeout=ELECTION_TIMEOUT,
            what="standbys that know the leader",
        )
        return leader, others

    def link(self, pod: ElectorPod) -> FaultProxy:
        return self.links[pod.name]

    # ── the Lease, as an administrator ──

    def get_lease(self) -> dict[str, Any] | None:
        status, body = self.plane.admin.get(self._path)
        return body if status == 200 else None

    def spec(self) -> dict[str, Any]:
        lease = self.get_lease()
        assert lease is not None, "the Lease does not exist"
        spec: dict[str, Any] = lease.get("spec") or {}
        return spec

    def create_empty_lease(self) -> None:
        """As the manifests ship it: free at once."""
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.lease, "namespace": self.namespace},
        }
        status, answer = self.plane.admin.post(self._collection, body)
        assert status == 201, answer

    def edit(self, *, spec: dict[str, Any] | None = None, metadata: Any = None) -> None:
        """A merge patch of the Lease."""
        patch: dict[str, Any] = {}
        if spec is not None:
            patch["spec"] = spec
        if metadata is not None:
            patch["metadata"] = metadata
        status, answer = self.plane.admin.patch(self._path, patch)
        assert status == 200, answer

    def blank(self) -> None:
        """What client-go's release does to a Lease that is not its own any more (hazard H4)."""
        self.edit(spec={"holderIdentity": "", "leaseDurationSeconds": 1})

    def delete_lease(self) -> None:
        status, answer = self.plane.admin.delete(self._path)
        assert status == 200, answer


def kubeconfig(plane: ApiServer, namespace: str, *, server: str | None = None) -> Path:
    """With an elector's rights, for whoever takes a kubeconfig (client-go candidates)."""
    return plane.kubeconfig_for(namespace, "elector", ELECTOR_RULES, server=server)
