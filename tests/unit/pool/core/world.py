"""Nodes of one pool, their LAN and links, and the cloud's Leases, in virtual time.

Owns what the cores do not decide: which bytes arrive. A PUT over a lender waits in it for one step,
so that a freeze catches it there, as in a process between reading and writing. `violations` is what
an outside observer has to say, by the Leases and by what really lived, not by any member's memory.
Mutants change one rule each; the tests show that the observer notices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from pool_sidecar.core.heartbeat import MICRO, Heartbeat, LeaseSeen
from pool_sidecar.core.lan_state import LanState
from pool_sidecar.core.members import Directory, Peer
from pool_sidecar.core.peers import ROUND, STANDSTILL, Sign
from pool_sidecar.core.pool import Pool, Role
from pool_sidecar.core.pool_member import Link
from pool_sidecar.member.cloud import TIMEOUT

STEP = 0.5
KUBELET_EVERY = 10.0
# Seconds in which the relay notices that its link is down (pool.md 2).
NOTICED = 3.0
# pool.md 1: N1, and N2 with the step in which a write arrives.
MAX_AGE = 20.0
MAX_LATE = 5.0 + 2 * STEP
# Seconds for which a neighbour has to be there before it must have been used: its first round, a
# verdict on it and two looks at a lender that went before.
SETTLED = 30.0
TUNNEL_STANDSTILL = 5.0
EPOCH = 1_700_000_000


@dataclass(frozen=True)
class Mutant:
    """The rules as they are; each field breaks one."""

    renews_for_peers: bool = False
    lends_after_a_freeze: bool = False
    ignores_kubelet: bool = False
    believes_after_a_freeze: bool = False
    keeps_a_silent_lender: bool = False


@dataclass
class Lease:
    version: int = 1
    renewed: int = 0
    grew_at: float = 0.0


@dataclass(frozen=True)
class Put:
    """On its way since `at`: `lease` is whose, `author` who made it."""

    lease: str
    author: str
    version: int
    renewed: int
    at: float


class Node:
    def __init__(self, name: str, peers: Sequence[str], mutant: Mutant, start: float) -> None:
        self.name = name
        self.pool = Pool(name)
        if mutant.keeps_a_silent_lender:
            self.pool.borrowing._is_usable = lambda peer, now: True
        self.pool.follow(
            Directory(
                name, "pool", True, {it: Peer(it, ("10.0.0.1",), (it.encode(),)) for it in peers}
            )
        )
        self.heartbeat = Heartbeat()
        self.is_alive = True
        self.is_kubelet_well = True
        self.frozen_until = 0.0
        self.link = True
        self.link_since = -math.inf
        self.wall = 0.0
        self.died_at = math.inf
        self.ran_at = start
        # Bytes of others that are in this process.
        self.buffer: list[Put] = []
        # Writes of its own that have no answer yet, and who took them.
        self.unanswered: dict[Put, str] = {}
        # When a look that has no answer ends, and over whom it goes.
        self.waits: tuple[float, str] | None = None
        # It takes connections of others, and passes nothing on.
        self.is_mute = False
        self.helped_since: dict[str, float] = {}

    def runs(self, now: float) -> bool:
        return self.is_alive and now >= self.frozen_until

    def speaks(self, now: float) -> bool:
        """Whether its kubelet and its member do."""
        return self.runs(now) and self.is_kubelet_well

    def sees_link(self, now: float) -> bool:
        """As its relay says: late, where it went down."""
        return self.link or now - self.link_since < NOTICED


@dataclass
class World:
    count: int = 4
    mutant: Mutant = field(default_factory=Mutant)
    now: float = 1000.0
    violations: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        names = [f"n{number}" for number in range(self.count)]
        self.nodes = {
            it: Node(it, [other for other in names if other != it], self.mutant, self.now)
            for it in names
        }
        self.cuts: set[frozenset[str]] = set()
        self.leases = {it: Lease(renewed=self._wall(it), grew_at=self.now) for it in names}
        self._kubelet_at = {it: self.now + n for n, it in enumerate(names)}

    # ── what befalls them ──

    def cut_link(self, name: str) -> None:
        self._set_link(name, False)

    def mend_link(self, name: str) -> None:
        self._set_link(name, True)

    def cut_lan(self, one: str, two: str) -> None:
        self.cuts.add(frozenset((one, two)))

    def mend_lan(self, one: str, two: str) -> None:
        self.cuts.discard(frozenset((one, two)))

    def freeze(self, name: str, seconds: float) -> None:
        node = self.nodes[name]
        node.frozen_until = self.now + seconds
        node.died_at = min(node.died_at, self.now)

    def kill(self, name: str) -> None:
        self.nodes[name].is_alive = False
        self.nodes[name].died_at = min(self.nodes[name].died_at, self.now)

    def set_kubelet(self, name: str, is_well: bool) -> None:
        node = self.nodes[name]
        node.is_kubelet_well = is_well
        node.died_at = min(node.died_at, self.now) if not is_well else math.inf

    def mute(self, name: str) -> None:
        self.nodes[name].is_mute = True

    def set_clock(self, name: str, offset: float) -> None:
        self.nodes[name].wall = offset

    def _set_link(self, name: str, is_up: bool) -> None:
        node = self.nodes[name]
        if node.link is not is_up:
            node.link, node.link_since = is_up, self.now

    # ── time ──

    def run(self, seconds: float) -> None:
        for _ in range(int(seconds / STEP)):
            self.now += STEP
            for node in self.nodes.values():
                if node.runs(self.now):
                    self._turn(node)
            self._observe()

    def _turn(self, node: Node) -> None:
        now = self.now
        gap = now - node.ran_at
        node.ran_at = now
        if gap > STANDSTILL:
            self._wake(node, gap)
        held = [it for it in node.buffer if it.at < now]
        node.buffer = [it for it in node.buffer if it.at == now]
        if node.link and (gap <= TUNNEL_STANDSTILL or self.mutant.lends_after_a_freeze):
            for put in held:
                self._apply(put)
                self.nodes[put.author].unanswered.pop(put, None)
        self._time_out(node)
        if node.speaks(now):
            node.died_at = math.inf
        sees = node.sees_link(now)
        node.pool.own.observed(is_up=sees, now=now)
        node.heartbeat.link_observed(is_up=node.pool.own.is_up(now), now=now)
        self._kubelet(node)
        if now % ROUND < STEP:
            self._round(node)
        node.pool.advance(now)
        is_busy = node.waits is not None or bool(node.unanswered)
        if not is_busy and node.heartbeat.is_due(now) and node.pool.link(now) is not Link.NONE:
            node.heartbeat.began(now)
            self._look(node)

    def _wake(self, node: Node, gap: float) -> None:
        """The shell voids what is known, before anything is read (N8)."""
        if not self.mutant.believes_after_a_freeze:
            node.pool.stood_still()
        told = node.pool.link(self.now), node.pool.role(self.now)
        verdicts = node.pool.peers.verdicts(self.now)
        if gap > STANDSTILL and (told != (Link.NONE, Role.PENDING) or verdicts):
            self.violations.append(f"N8: {node.name} woke after {gap:g}s and said {told}")

    def _time_out(self, node: Node) -> None:
        """Writes that a lender took and did not pass on have no answer."""
        for put, lender in [it for it in node.unanswered.items() if it[0].at + TIMEOUT <= self.now]:
            del node.unanswered[put]
            self._was_silent(node, lender)
        if node.waits is not None and node.waits[0] <= self.now:
            (_, lender), node.waits = node.waits, None
            self._was_silent(node, lender)

    def _was_silent(self, node: Node, lender: str) -> None:
        """As the shell has it (member/heartbeats.py)."""
        now = self.now
        node.heartbeat.failed(now, is_refused=False)
        node.pool.borrowing.was_silent(lender, now)
        node.pool.advance(now)
        if node.pool.via(now) not in ("", lender):
            node.heartbeat.lender_changed(now)

    def _kubelet(self, node: Node) -> None:
        if self.now < self._kubelet_at[node.name] or not node.speaks(self.now):
            return
        self._kubelet_at[node.name] = self.now + KUBELET_EVERY
        if node.link:
            lease = self.leases[node.name]
            renewed = max(self._wall(node.name), lease.renewed + 1)
            self._apply(Put(node.name, node.name, lease.version, renewed, self.now))

    def _round(self, node: Node) -> None:
        for name, peer in self.nodes.items():
            if peer is node:
                continue
            if not (peer.is_alive and self._hears(node.name, name)):
                node.pool.peers.failed(name, Sign.NONE, self.now)
            elif not peer.runs(self.now):
                node.pool.peers.failed(name, Sign.HOST_LIVES, self.now)
            else:
                link = peer.pool.link(self.now)
                state = LanState(name, "1", link, peer.is_kubelet_well)
                node.pool.peers.answered(name, state, self.now)

    def _look(self, node: Node) -> None:
        now = self.now
        lender = node.pool.via(now)
        carrier = self.nodes[lender] if lender else node
        reaches = self._hears(node.name, lender) if lender else True
        is_lent = not lender or carrier.pool.lends(now)
        is_mute = carrier.is_mute and carrier is not node
        if not (reaches and carrier.runs(now) and carrier.link) or is_mute:
            node.waits = now + TIMEOUT, lender
            return
        if not is_lent:
            self._was_silent(node, lender)
            return
        node.pool.borrowing.looked(lender, is_answered=True, now=now)
        lease = self.leases[node.name]
        healthy = now if node.is_kubelet_well or self.mutant.ignores_kubelet else None
        renewed = node.heartbeat.renewal(
            LeaseSeen(str(lease.version), lease.renewed),
            wall=self._wall(node.name),
            now=now,
            healthy_at=healthy,
        )
        if renewed is not None:
            put = Put(node.name, node.name, lease.version, renewed, now)
            if lender:
                carrier.buffer.append(put)
                node.unanswered[put] = lender
            else:
                self._apply(put)
        if self.mutant.renews_for_peers:
            for name in node.pool.peers.verdicts(now):
                other = self.leases[name]
                self._apply(Put(name, node.name, other.version, other.renewed + 1, now))

    # ── the cloud, and who looks on ──

    def _apply(self, put: Put) -> None:
        lease = self.leases[put.lease]
        if put.version != lease.version:
            return
        if put.author != put.lease:
            self.violations.append(f"N2: {put.author} wrote the Lease of {put.lease}")
        if put.renewed <= lease.renewed:
            self.violations.append(f"renewTime of {put.lease} went back")
        lease.version += 1
        lease.renewed, lease.grew_at = put.renewed, self.now
        late = self.now - self.nodes[put.lease].died_at
        if late > MAX_LATE:
            self.violations.append(f"N2: {put.lease} was renewed {late:g}s after its last byte")

    def _observe(self) -> None:
        for name, node in self.nodes.items():
            if not node.speaks(self.now):
                node.helped_since.clear()
                continue
            helpers = {it for it in self.nodes if self._helps(it, name)}
            node.helped_since = {it: node.helped_since.get(it, self.now) for it in helpers}
            since = min(node.helped_since.values(), default=self.now)
            age = self.now - self.leases[name].grew_at
            if self.now - since > SETTLED and age > MAX_AGE:
                self.violations.append(
                    f"N1: the Lease of {name} is {age:g}s old, helped by {helpers}"
                )

    def _helps(self, helper: str, name: str) -> bool:
        """Whether it reaches the cloud and the node."""
        it = self.nodes[helper]
        has_link = it.link and self.now - it.link_since > NOTICED
        if it.is_mute and helper != name:
            return False
        return it.runs(self.now) and has_link and (helper == name or self._hears(helper, name))

    def _hears(self, one: str, two: str) -> bool:
        return frozenset((one, two)) not in self.cuts

    def _wall(self, name: str) -> int:
        offset = self.nodes[name].wall if name in self.nodes else 0.0
        return int((EPOCH + self.now + offset) * MICRO)
