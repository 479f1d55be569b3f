"""A site of nodes with their members, and the controller of pools in the cloud, in virtual time.

The product's cores on both sides: what members see of each other and report, and what the
controller makes of it. Owns what no core decides: which packets arrive, what power, disks and
kubelets do, and how kube-controller-manager loses a node. `violations` is what an outside observer
has to say, by what really was and by no process's memory:

    dead      a node was judged dead, though no majority of the Ready others can have missed its
              host for 40 s, or its member for 300 s, and have said so since the API lost it; those
              that were lost beside it count once they have been back for 30 s
    in time   a node without power was not dead 75 s after the API had lost it and its neighbours
              were well, each of which had heard it since it was Ready: a neighbour that has started
              again since, for as long as its disk takes to know of that
    endpoints a member takes a host that lives, and that it reaches, for silent
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import cast

from pool_sidecar.core.announcements import Announcements
from pool_sidecar.core.hearing import Hearing
from pool_sidecar.core.lan_state import LanState
from pool_sidecar.core.members import Directory, Peer
from pool_sidecar.core.peers import ROUND, STANDSTILL, Sign
from pool_sidecar.core.pool import Pool
from pool_sidecar.core.pool_member import Link, Verdict
from pool_sidecar.member.hearing_file import REFRESH
from pool_sidecar.member.member import Member
from tests.unit.pool.controller import world as cloud

POOL = "factory-7"
NAMES = ("n1", "n2", "n3", "n4", "n5")
STEP = ROUND
# Seconds: a heartbeat, kube-controller-manager's grace, and the relay's notice of a cut.
RENEW, GRACE, NOTICED = 10.0, 50.0, 3.0
# Until the kernel has found no host at an address, at most.
ARP = 50.0
# The contract's: how long a host, and a member, was missed; the oldest vote; from loss to dead.
GONE, ILL, VOTE, IN_TIME = 40.0, 300.0, 30.0, 75.0
# A round or two: until what is mended is seen.
SEEN = 3 * STEP
# From when a node is Ready until its neighbours' disks know that they have heard it since: they
# write with each round only once it has said that it has a link.
KEPT = SEEN


@dataclass
class Node:
    """`is_alone`: in the LAN; `is_walled`: what comes to its members' port is dropped."""

    name: str
    arp: float
    has_power: bool = True
    has_link: bool = True
    is_kubelet_well: bool = True
    is_alone: bool = False
    is_walled: bool = False
    is_frozen: bool = False
    link_since: float = -math.inf
    off_since: float = 0.0
    renewed_at: float = 0.0
    process: Process | None = None
    disk: dict[str, Hearing] = field(default_factory=dict)

    @property
    def runs(self) -> bool:
        """Its member."""
        return self.has_power and self.process is not None and not self.is_frozen

    @property
    def speaks(self) -> bool:
        """Its kubelet."""
        return self.has_power and self.is_kubelet_well


class Process:
    """One life of a member."""

    def __init__(self, node: Node, directory: Directory, now: float) -> None:
        self.pool = Pool(node.name)
        self.pool.peers.restore(node.disk)
        self.pool.follow(directory)
        self.announcements = Announcements()
        self.is_found = False
        # Of whom the directory was made.
        self.follows: object = None
        self.ran_at = now
        self.saved_at, self.saved_news = now, 0
        # What `Member.situation` reads of its process.
        self.config = SimpleNamespace(node=node.name, lan_addresses=(f"10.0.7.{node.name[1:]}",))
        self.own = SimpleNamespace(certificate=f"-----BEGIN CERTIFICATE-----\n{node.name}\n")

    @property
    def directory(self) -> Directory:
        return self.pool.directory


class Site:
    """`more`: of the cloud; `arp`: seconds, one for each node."""

    def __init__(self, arp: tuple[float, ...] = (ARP,) * len(NAMES), **more: object) -> None:
        self.cloud = cloud.World(**more)  # type: ignore[arg-type]
        self.nodes = {name: Node(name, at) for name, at in zip(NAMES, arp, strict=True)}
        self.parted: set[frozenset[str]] = set()
        self.violations: list[str] = []
        self.controller_away_until = 0.0
        self._marks = 0
        self._states: dict[str, LanState] = {}
        # Of a pair: which process of the first one heard the other one since that was Ready, and
        # for how long that had been.
        self._heard: dict[tuple[str, str], tuple[Process, float]] = {}
        self._lost_at: dict[str, float] = {}
        self._contact_at: dict[str, float] = {}
        # Of a pair: since when the first one has missed the host, and the member, of the other.
        self._gone: dict[tuple[str, str], float] = {}
        self._ill: dict[tuple[str, str], float] = {}
        # What of it the first one could tell the cloud last.
        self._told: dict[tuple[str, str], tuple[float, float]] = {}
        self._reached: dict[tuple[str, str], float] = {}
        self._due: dict[str, float] = {}
        self._pairs = tuple(
            (one, other, (one.name, other.name))
            for one in self.nodes.values()
            for other in self.nodes.values()
            if one is not other
        )
        for name, node in self.nodes.items():
            self.cloud.add_node(name, POOL, may_lead=True)
            node.renewed_at = self.now
        self.cloud.run(2)
        for node in self.nodes.values():
            self.start(node.name)

    @property
    def now(self) -> float:
        return self.cloud.now

    # ── what befalls it ──

    def start(self, name: str) -> None:
        node = self.nodes[name]
        node.process = Process(node, self._directory(name), self.now)

    def kill(self, name: str) -> None:
        self.nodes[name].process = None

    def off(self, name: str) -> None:
        node = self.nodes[name]
        if node.has_power:
            node.has_power, node.process, node.off_since = False, None, self.now

    def on(self, name: str) -> None:
        node = self.nodes[name]
        if node.has_power:
            return
        # What was heard is as old as the node has run since.
        gap = self.now - node.off_since
        node.disk = {it: Hearing(of.identity, of.at + gap) for it, of in node.disk.items()}
        node.has_power, node.is_frozen = True, False
        self.start(name)

    def freeze(self, name: str) -> None:
        self.nodes[name].is_frozen = True

    def thaw(self, name: str) -> None:
        self.nodes[name].is_frozen = False

    def cut(self, name: str) -> None:
        self._set_link(name, False)

    def mend(self, name: str) -> None:
        self._set_link(name, True)

    def wall(self, name: str) -> None:
        self.nodes[name].is_walled = True

    def unwall(self, name: str) -> None:
        self.nodes[name].is_walled = False

    def leave_lan(self, name: str) -> None:
        self.nodes[name].is_alone = True

    def join_lan(self, name: str) -> None:
        self.nodes[name].is_alone = False

    def sicken(self, name: str) -> None:
        self.nodes[name].is_kubelet_well = False

    def cure(self, name: str) -> None:
        self.nodes[name].is_kubelet_well = True

    def part(self, one: str, other: str) -> None:
        self.parted.add(frozenset((one, other)))
        # Where most peers turn silent at once, members hold what they showed.
        self._due.clear()

    def unite(self, one: str, other: str) -> None:
        self.parted.discard(frozenset((one, other)))

    def restart_controller(self) -> None:
        self.cloud.begin()

    def stop_controller(self, seconds: float) -> None:
        self.controller_away_until = max(self.controller_away_until, self.now + seconds)

    def _set_link(self, name: str, has_link: bool) -> None:
        node = self.nodes[name]
        if node.has_link is not has_link:
            node.has_link, node.link_since = has_link, self.now

    # ── time ──

    def step(self) -> None:
        self._states.clear()
        for node in self.nodes.values():
            self._kubelet(node)
        for node in self.nodes.values():
            if node.runs:
                self._turn(node)
        self._lose()
        before = self.now
        if before >= self.controller_away_until:
            self.cloud.run(STEP)
        else:
            # It stands still: what it finds then is of any age.
            self.cloud.now += STEP
            if self.now >= self.controller_away_until:
                self.cloud.look()
        self._observe()

    def _kubelet(self, node: Node) -> None:
        if not (node.speaks and node.has_link) or self.now - node.renewed_at < RENEW:
            return
        node.renewed_at = self.now
        if not self.cloud.nodes[node.name].is_ready:
            self.cloud.set_ready(node.name, "True")
            self._lost_at.pop(node.name, None)
            for it in NAMES:
                self._heard.pop((it, node.name), None)

    def _lose(self) -> None:
        for node in self.nodes.values():
            is_silent = self.now - node.renewed_at > GRACE
            if is_silent and self.cloud.nodes[node.name].is_ready:
                self.cloud.set_ready(node.name, "Unknown")
                self._lost_at[node.name] = self.now

    def _turn(self, node: Node) -> None:
        now, process = self.now, cast(Process, node.process)
        pool, gap = process.pool, now - process.ran_at
        process.ran_at = now
        if gap > STANDSTILL:
            pool.stood_still()
        pool.own.observed(
            is_up=node.has_link or now - node.link_since < NOTICED,
            now=now,
        )
        for other in self.nodes.values():
            if other is not node:
                self._ask(node, process, other)
        pool.advance(now)
        self._save(node)
        if self._has_way(node):
            self._contact_at[node.name] = now
            self._speak(node, process)

    def _ask(self, node: Node, process: Process, other: Node) -> None:
        peers, now, pair = process.pool.peers, self.now, (node.name, other.name)
        if not self._reaches(node, other):
            is_proven = now - self._gone.setdefault(pair, now) >= other.arp
            peers.failed(other.name, Sign.NONE if is_proven else Sign.UNPROVEN, now)
        elif other.is_walled or other.process is None:
            peers.failed(other.name, Sign.HOST_LIVES, now)
        elif other.is_frozen:
            # It may be slow, once.
            is_new = pair not in self._ill
            peers.failed(other.name, Sign.NONE if is_new else Sign.HOST_LIVES, now)
        else:
            peers.answered(other.name, self._state(other), now)
            if other.is_kubelet_well:
                self._heard[pair] = process, now - self.cloud.turned_at[other.name]

    def _state(self, node: Node) -> LanState:
        """What it tells its peers in this step."""
        if node.name not in self._states:
            of, now = cast(Process, node.process).pool, self.now
            verdicts = {name: it.verdict for name, it in of.peers.verdicts(now).items()}
            self._states[node.name] = LanState(
                node.name, "1", of.link(now), node.is_kubelet_well, verdicts=verdicts
            )
        return self._states[node.name]

    def _reaches(self, node: Node, other: Node) -> bool:
        """Its host."""
        if not other.has_power or node.is_alone or other.is_alone:
            return False
        return not self.parted or frozenset((node.name, other.name)) not in self.parted

    def _has_way(self, node: Node) -> bool:
        """To the API server."""
        pool = cast(Process, node.process).pool
        link, lender = pool.link(self.now), pool.via(self.now)
        if link is Link.OWN:
            return node.has_link
        if not lender:
            return False
        other = self.nodes[lender]
        is_there = other.runs and other.has_link and not other.is_walled
        return is_there and self._reaches(node, other)

    def _speak(self, node: Node, process: Process) -> None:
        """With a way to the API server."""
        now, name = self.now, node.name
        if node.speaks and now - node.renewed_at >= RENEW and not node.has_link:
            # A lent link revives nothing that is Unknown already.
            node.renewed_at = now
        members = self.cloud.members
        standings = [(it, of.is_dead, of.is_lost) for it, of in members.items()]
        if standings != process.follows:
            process.follows = standings
            process.pool.follow(self._directory(name))
        member = members.get(name)
        if member is None:
            return
        if not process.is_found:
            process.announcements.found(member.status)
            process.is_found = True
        situation = Member.situation(cast(Member, process), now)
        status = process.announcements.status(situation, now)
        if status is not None:
            self.cloud.put_member(replace(member, status=status))
            process.announcements.written(status, now)
        condition = process.announcements.condition(situation, now)
        if condition is not None:
            self.cloud.set_link(name, str(condition.is_up))
            process.announcements.condition_written(condition)

    def _directory(self, name: str) -> Directory:
        members = self.cloud.members
        peers = {
            it: Peer(it, ("address",), (it.encode(),), True, of.is_dead, of.is_lost)
            for it, of in members.items()
            if it != name
        }
        return Directory(name, POOL, True, peers)

    def _save(self, node: Node) -> None:
        process = node.process
        if process is None:
            return
        peers, now = process.pool.peers, process.ran_at
        if peers.news != process.saved_news or now - process.saved_at >= REFRESH:
            process.saved_at, process.saved_news = now, peers.news
            node.disk = peers.hearing(now)

    # ── what an observer says ──

    def _observe(self) -> None:
        self._look_at_pairs()
        for at, _, name in self.cloud.marks[self._marks :]:
            self._judge_mark(name, at)
        self._marks = len(self.cloud.marks)
        for node in self.nodes.values():
            self._judge_death(node)
        self.violations += self.cloud.violations
        self.cloud.violations.clear()

    def _look_at_pairs(self) -> None:
        now = self.now
        for node, other, pair in self._pairs:
            if node.has_power and self._reaches(node, other):
                self._gone.pop(pair, None)
                reached = self._reached.setdefault(pair, now)
                is_ill = other.is_walled or not (other.runs and other.speaks)
            else:
                self._gone.setdefault(pair, now)
                self._reached.pop(pair, None)
                reached, is_ill = now, True
            if is_ill:
                self._ill.setdefault(pair, now)
            else:
                self._ill.pop(pair, None)
            if self._contact_at.get(node.name) == now - STEP:
                gone, ill = self._gone.get(pair, now), self._ill.get(pair, now)
                self._told[pair] = now - gone, now - ill
            if now - reached > SEEN and node.runs:
                self._judge_view(node, other, now - reached)

    def _judge_view(self, node: Node, other: Node, reached: float) -> None:
        shown = cast(Process, node.process).pool.peers.standing(other.name, self.now)
        if shown is not None and shown.verdict is Verdict.SILENT:
            self.violations.append(
                f"endpoints: {node.name} takes {other.name} for silent, whose host it has reached "
                f"for {reached:g}s"
            )

    def _judge_mark(self, name: str, at: float) -> None:
        ready = [it for it, of in self.cloud.nodes.items() if of.is_ready and it != name]
        lost_at = self._lost_at.get(name, math.inf)
        votes = []
        for it in ready:
            contact = self._contact_at.get(it, -math.inf)
            gone, ill = self._told.get((it, name), (0.0, 0.0))
            is_about_it = contact >= lost_at and at - contact <= VOTE + STEP
            back_at = self.cloud.turned_at[it]
            is_about_it &= back_at < lost_at or at - back_at >= cloud.BACK_FOR
            if is_about_it and (gone >= GONE - SEEN or ill >= ILL - SEEN):
                votes.append(it)
        if 2 * len(votes) <= len(ready):
            self.violations.append(
                f"dead: {name} at {at:g}, though {len(votes)} of {len(ready)} can say so"
            )

    def _judge_death(self, node: Node) -> None:
        """Since when it has to be judged, and whether it was."""
        name = node.name
        others = [it for it in self.nodes.values() if it is not node]
        is_so = (
            not node.has_power
            and self.cloud.nodes[name].is_lost
            and self.now >= self.controller_away_until
            and all(self._is_well(it) for it in others)
            and all(self._has_heard(it, name) for it in others)
            and not any(self.cloud.nodes[it.name].is_dead for it in others)
        )
        if not is_so or self.cloud.nodes[name].is_dead:
            self._due.pop(name, None)
            return
        since = self._due.setdefault(name, self.now)
        if self.now - since > IN_TIME:
            self.violations.append(f"in time: {name} is not dead {self.now - since:g}s after")

    def _has_heard(self, node: Node, name: str) -> bool:
        """Since that one was Ready, so that its present process knows."""
        process, after = self._heard.get((node.name, name), (None, 0.0))
        return process is not None and (process is node.process or after >= KEPT)

    def _is_well(self, node: Node) -> bool:
        is_heard = node.runs and node.speaks and node.has_link and not node.is_alone
        return is_heard and self.cloud.nodes[node.name].is_ready
