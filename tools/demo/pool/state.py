"""The state of the pool's demo: the site, its pods, who looks, and what must not have happened.

Owns what was shown of the nodes that are cut. Nothing here knows how it is shown.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tools.demo.pool.edge_site import Site
from tools.demo.pool.observer import Observer
from tools.demo.pool.pods import Pods
from tools.demo.runner import Runner

LEASE_NAMESPACE = "kube-node-lease"
WRITES = ("create", "update", "patch")


@dataclass
class PoolState:
    """`killed`: names of nodes that ever were; `ready_since`: of nodes that are cut and borrow a
    link, since when they are Ready."""

    site: Site
    pods: Pods
    observer: Observer
    runner: Runner
    killed: set[str] = field(default_factory=set)
    ready_since: dict[str, str] = field(default_factory=dict)

    def renewals(self) -> tuple[int, int]:
        """Writes of the pool's Leases that the API server took, and those of them by another one
        than the node."""
        written = [
            it
            for it in self.site.plane.audit(resource="leases", namespace=LEASE_NAMESPACE)
            if it.verb in WRITES and it.status in (200, 201) and it.name in self.site.nodes
        ]
        return len(written), sum(it.user != f"system:node:{it.name}" for it in written)

    def broken(self) -> Iterator[str]:
        """In words, what must not have happened, whatever was done."""
        for name in sorted(self.observer.ever_dead - self.killed):
            yield f"{name} was judged dead, and lived"
        for it in self.pods.evicted(shop=True):
            if it.node not in self.killed:
                yield f"{it.name} was evicted from {it.node}, which lived"
        _, foreign = self.renewals()
        if foreign:
            yield f"{foreign} renewals of Leases by another one than the node"
