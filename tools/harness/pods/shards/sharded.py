"""A fleet of electors with --shards, each asked over its HTTP port."""

import json
from collections.abc import Mapping
from typing import Any

from tools.harness.controlplane.api_server import ApiServer
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import STEADY, Fleet
from tools.harness.pods.observers.observer import wait_for

SHARDS = 16
# Starts are slow on a busy machine; then all settle.
SPREAD_TIMEOUT = 40.0
# What an elector with shards needs: RBAC can limit none of it to names (S7).
SHARD_RULES: list[dict[str, list[str]]] = [
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "list", "watch", "create", "update"],
    }
]


class ShardedFleet(Fleet):
    def __init__(
        self, plane: ApiServer, namespace: str, *, lease: str = "ring", shards: int = SHARDS
    ) -> None:
        super().__init__(plane, namespace, lease=lease)
        self.shards = shards
        self.account = plane.service_account_dir(namespace, "sharded", SHARD_RULES)

    def join(
        self,
        *flags: str,
        timing: tuple[str, ...] = STEADY,
        start: bool = True,
        environ: Mapping[str, str] | None = None,
    ) -> ElectorPod:
        shards = [] if "--shards" in flags else ["--shards", str(self.shards)]
        settle = [] if "--shard-settle" in flags else ["--shard-settle", "1s"]
        return self.add(
            *(*shards, *settle, *flags),
            timing=timing,
            start=start,
            credentials=self.account,
            environ=environ,
        )

    def spread(self, count: int, *flags: str, timing: tuple[str, ...] = STEADY) -> list[ElectorPod]:
        """So many members that share the shards evenly."""
        pods = [self.join(*flags, timing=timing, start=False) for _ in range(count)]
        for pod in pods:
            pod.start(wait=False)
        for pod in pods:
            pod.wait_listening()
        self.wait_even(pods)
        return pods

    def wait_even(self, pods: list[ElectorPod], *, timeout: float = SPREAD_TIMEOUT) -> None:
        def is_even() -> bool:
            counts = [len(owned(pod)) for pod in pods]
            return sum(counts) == self.shards and max(counts) - min(counts) <= 1

        wait_for(is_even, timeout=timeout, what=f"even shares of {[p.name for p in pods]}")

    def named(self, name: str) -> dict[str, Any]:
        """Any Lease of the namespace."""
        status, body = self.plane.admin.get(f"{self._collection}/{name}")
        assert status == 200, body
        lease: dict[str, Any] = body
        return lease

    def create(self, name: str) -> None:
        """A Lease without our label, as somebody else makes it."""
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": self.namespace},
        }
        status, answer = self.plane.admin.post(self._collection, body)
        assert status == 201, answer

    def is_whole(self) -> bool:
        """Whether the table is stored, with an owner for each shard."""
        lease = self.get_lease()
        text = (lease or {"metadata": {}})["metadata"].get("annotations", {})
        try:
            return None not in json.loads(text["edge-sidecars.io/shards"])["owners"]
        except (KeyError, ValueError):
            return False

    def table(self) -> dict[str, Any]:
        lease = self.get_lease()
        assert lease is not None, "there is no table"
        table: dict[str, Any] = json.loads(
            lease["metadata"]["annotations"]["edge-sidecars.io/shards"]
        )
        return table


def shards(pod: ElectorPod, *, promise: bool = False) -> dict[str, Any]:
    """The /shards document; without a promise it tells the main nothing."""
    answer = pod.ask("/shards" if promise else "/shards?promise=false", timeout=10)
    assert answer is not None, f"{pod.name} does not answer"
    return answer.json()


def owned(pod: ElectorPod) -> list[int]:
    return [it["shard"] for it in shards(pod)["owned"]]


def release(pod: ElectorPod, shard: int, token: int) -> int:
    """The status of the main's word that it has stopped."""
    answer = pod.ask(f"/shards/{shard}/released?token={token}", method="POST")
    assert answer is not None
    return answer.status
