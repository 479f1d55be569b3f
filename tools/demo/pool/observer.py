"""What an outside observer sees: the cloud's objects, and what each member says of itself.

Owns one thread for the cloud, and one for each node. Guarantees: every renewal of a Lease that is
seconds after the one before is noted, and every node that ever had the taint `dead`; what a node
that was killed said is not shown any more.
"""

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tools.demo.pool.cloud_state import NodeSeen, states
from tools.demo.pool.edge_site import OUTSIDE, Site
from tools.demo.pool.node import SiteNode
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.clients.answer import ask
from tools.harness.pods.observers.polling import Polling
from tools.harness.pods.pools.member import LEASES

Json = dict[str, Any]

MEMBERS = "/apis/pool.edge-sidecars.io/v1alpha1/poolmembers"
INTERVAL = 1.0
# Looks over which a rate is taken.
RATE_OVER = 6
ABSENT = NodeSeen("", "", False, "", frozenset(), 0.0)


class Observer(Polling):
    """Looks while it is entered; `say` is told of each change of a node's state."""

    def __init__(self, site: Site, say: Callable[[str], None]) -> None:
        asks = [("cloud", self._look)]
        asks += [(name, partial(self._ask, node)) for name, node in site.nodes.items()]
        super().__init__(asks, interval=INTERVAL)
        self._site, self._say = site, say
        self._lock = threading.Lock()
        self._seen: dict[str, NodeSeen] = {}
        self._states: Mapping[str, str] = {}
        self._members: dict[str, Json] = {}
        self._said: dict[str, Json | None] = {}
        self._renewals: dict[str, list[float]] = {name: [] for name in site.nodes}
        self._wan: dict[str, deque[tuple[float, int]]] = {
            name: deque(maxlen=RATE_OVER) for name in site.nodes
        }
        self.ever_dead: set[str] = set()

    # ── the cloud ──

    def seen(self, name: str) -> NodeSeen:
        with self._lock:
            return self._seen.get(name, ABSENT)

    def state(self, name: str) -> str:
        """In the words of `cloud_state`; of nodes outside of the pool, too."""
        with self._lock:
            return self._states.get(name, "")

    def members(self) -> Mapping[str, Json]:
        """PoolMembers by name."""
        with self._lock:
            return self._members

    def longest_gap(self, name: str, since: float) -> float:
        """Seconds between two renewals of the node's Lease, of which the later is `since` or after
        it; and since the last one."""
        with self._lock:
            renewals = list(self._renewals[name])
        pairs = itertools.pairwise([*renewals, time.time()])
        return max((later - it for it, later in pairs if later >= since), default=0.0)

    # ── the site ──

    def said(self, name: str) -> Json | None:
        """A member's /status; None while it does not answer."""
        with self._lock:
            return self._said.get(name)

    def leader(self) -> str:
        """The member that says so; "" for none."""
        with self._lock:
            leading = [name for name, it in self._said.items() if it and it["role"] == "Leader"]
        return leading[0] if len(leading) == 1 else ""

    def via(self, name: str) -> str:
        """Whose link a node borrows, by its own word."""
        said = self.said(name)
        return "" if said is None else str(said["via"])

    def wan(self, name: str) -> tuple[int, float]:
        """Bytes over a node's link so far, and a second in the last seconds."""
        with self._lock:
            counted = list(self._wan[name])
        if not counted:
            return 0, 0.0
        (first_at, first), (last_at, last) = counted[0], counted[-1]
        return last, (last - first) / (last_at - first_at) if last_at > first_at else 0.0

    # ── in threads of their own ──

    def _look(self) -> None:
        admin = self._site.plane.admin
        try:
            found = [
                {it["metadata"]["name"]: it for it in expect(admin.get(path))["items"]}
                for path in ("/api/v1/nodes", MEMBERS, LEASES)
            ]
        except OSError:
            return
        nodes, members, leases = found
        seen = {
            name: NodeSeen.of(node, members.get(name, {}), leases.get(name, {}))
            for name, node in nodes.items()
        }
        pool = {name: it for name, it in seen.items() if name in self._site.nodes}
        outside = {name: it for name, it in seen.items() if name in OUTSIDE}
        now_states = {**states(pool), **states(outside)}
        with self._lock:
            before, self._states = self._states, now_states
            self._seen, self._members = seen, members
            self.ever_dead |= {name for name, it in pool.items() if it.is_dead}
            for name, it in pool.items():
                if it.renewed and it.renewed not in self._renewals[name][-1:]:
                    self._renewals[name].append(it.renewed)
        for name, node in self._site.nodes.items():
            counted = (time.monotonic(), node.wan_bytes())
            with self._lock:
                self._wan[name].append(counted)
        for name in pool:
            was, state = before.get(name, ""), now_states[name]
            if was and was != state:
                self._say(f"{name}: {was} → {state}")

    def _ask(self, node: SiteNode) -> None:
        answer = None if node.is_killed else ask(node.pool_node.member.port, "/status")
        said = answer.json() if answer is not None and answer.status == 200 else None
        with self._lock:
            self._said[node.name] = said
