"""Where the nemesis of shards plays: electors with --shards, an observer, an administrator's hand.

Guarantee: whatever is done to members and links, it leaves no process behind.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Self

from tools.harness.controlplane.api_server import ApiServer
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.peers.shard_observer import ShardObserver
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import FAST, FAST_DURATION
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.shards.sharded import ShardedFleet, owned

# /owns is asked for so many shards; the documents tell of all.
ASKED = 16
# What was edited is waited out by at most 1.2 lease durations, then fenced and taken; a member
# settles, watches are found silent. A busy machine needs some seconds more.
HEALING = 4 * FAST_DURATION + 15.0
# How long nothing may move once all is well.
CALM = 5.0


class ShardTestbed:
    def __init__(self, plane: ApiServer, namespace: str, *, members: int, shards: int) -> None:
        self.plane = plane
        self.fleet = ShardedFleet(plane, namespace, shards=shards)
        self._members = members
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.fleet)
            self.fleet.create_empty_lease()
            for index in range(self._members):
                # The last one leaves its Lease to expire when it is told to end.
                flags = ["--release-on-term"] if index < self._members - 1 else []
                self.fleet.join(*flags, timing=FAST)
            step = max(self.fleet.shards // ASKED, 1)
            asked = range(0, self.fleet.shards, step)
            self.observer = stack.enter_context(ShardObserver(self.fleet.pods, asked=asked))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        for link in self.links.values():
            link.heal()
        self._stack.close()

    @property
    def links(self) -> Mapping[str, FaultProxy]:
        return self.fleet.links

    @property
    def candidates(self) -> Sequence[ElectorPod]:
        return self.fleet.pods

    @property
    def collection(self) -> str:
        namespace = self.fleet.namespace
        return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"

    def leases(self) -> list[dict[str, Any]]:
        """All of the namespace; the table is the one with the name of the election."""
        status, body = self.plane.admin.get(self.collection)
        assert status == 200, body
        found: list[dict[str, Any]] = body["items"]
        return found

    def shares(self) -> dict[str, list[int]]:
        return {pod.name: owned(pod) for pod in self.fleet.pods}

    def wait_even(self) -> float:
        """Seconds until every shard is owned and shares differ by at most one."""

        def is_even() -> bool:
            counts = [len(shards) for shards in self.shares().values()]
            return sum(counts) == self.fleet.shards and max(counts) - min(counts) <= 1

        return wait_for(is_even, timeout=HEALING, what="even shares", interval=0.1)
