"""An API server, some pools and one controller after another, in virtual time.

Owns the documents, which grow a version with each write, and what a controller has been sent of
them: changes come at once, but while the watch is broken none do, and the list after that brings
all. Writes are compared and swapped as the API server does; `judge` is what an outside observer
makes of each mark, from the documents and not from the controller's memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pool_sidecar.core.controller.membership import CreateMember
from pool_sidecar.core.controller.node_state import STATUS_UNKNOWN, NodeState
from pool_sidecar.core.controller.pool_controller import Command, PoolController
from pool_sidecar.core.controller.taints import TaintNode, TaintPolicy
from pool_sidecar.core.pool_member import MemberStatus, PeerVerdict, PoolMember, Report, Verdict

FRESH_PERIODS = 3
# Seconds: the oldest vote (pool.md 14.1).
MAX_AGE = 30
SILENT_FOR, DEGRADED_FOR = 40, 300
# Seconds for which who was lost beside a node has to be back.
BACK_FOR = 30


@dataclass
class World:
    """`make` makes a controller at a moment. `violations` is what an observer has to say."""

    make: Callable[[TaintPolicy, float], PoolController] = PoolController
    policy: TaintPolicy = field(default_factory=TaintPolicy)
    now: float = 1000.0
    nodes: dict[str, NodeState] = field(default_factory=dict)
    members: dict[str, PoolMember] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    # Of commands: ok, not sent, lost (applied, no answer), conflict.
    fate: str = "ok"
    is_watching: bool = True
    marks: list[tuple[float, str, str]] = field(default_factory=list)
    # When `dead` began to be on a node that is not Unknown.
    wrong_since: dict[str, float] = field(default_factory=dict)
    # Of each PoolMember, the last report that this controller saw change, and when.
    told: dict[str, tuple[float, Report]] = field(default_factory=dict)
    # The votes that came since a Node was lost: nodes with those who said something of them.
    since_loss: dict[str, set[str]] = field(default_factory=dict)
    # When each Node became Ready, or not Ready, last.
    turned_at: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._version = 0
        self.begin()

    # ── controllers ──

    def begin(self) -> None:
        """Another process takes over: with no memory, after a list."""
        self.controller = self.make(self.policy, self.now)
        self.begun_at = self.now
        self.told = {}
        self.is_watching = True
        self.relist()

    def relist(self) -> None:
        self.controller.nodes_listed(self.nodes.values(), self.now)
        self.controller.members_listed(self.members.values(), self.now)
        self.told = {
            name: (at, report)
            for name, (at, report) in self.told.items()
            if name in self.members and self.members[name].status.report == report
        }

    def break_watch(self) -> None:
        self.is_watching = False

    def mend_watch(self) -> None:
        self.is_watching = True
        self.relist()

    # ── writes of others ──

    def put_node(self, node: NodeState) -> None:
        self._version += 1
        node = replace(node, resource_version=self._version, uid=node.uid or f"uid-{node.name}")
        before = self.nodes.get(node.name)
        if before is None or before.ready_since != node.ready_since:
            self.since_loss[node.name] = set()
        if before is None or before.is_ready is not node.is_ready:
            self.turned_at[node.name] = self.now
        self.nodes[node.name] = node
        if self.is_watching:
            self.controller.node_observed(node, self.now)

    def add_node(self, name: str, pool: str, *, may_lead: bool = False) -> None:
        self.put_node(NodeState(name, pool=pool, ready="True", may_lead=may_lead))

    def remove_node(self, name: str) -> None:
        """And garbage collection its PoolMember."""
        self.nodes.pop(name, None)
        self.members.pop(name, None)
        if self.is_watching:
            self.controller.node_deleted(name)
            self.controller.member_deleted(name)

    def set_ready(self, name: str, ready: str) -> None:
        reason = STATUS_UNKNOWN if ready == "Unknown" else "Kubelet"
        since = f"{self.now}"
        self.put_node(
            replace(self.nodes[name], ready=ready, ready_reason=reason, ready_since=since)
        )

    def set_link(self, name: str, link: str) -> None:
        self.put_node(replace(self.nodes[name], cloud_link=link))

    def keep_pods(self, name: str, *, keeps: bool) -> None:
        """By its annotation."""
        self.put_node(replace(self.nodes[name], keeps_pods=keeps))

    def move(self, name: str, pool: str) -> None:
        self.put_node(replace(self.nodes[name], pool=pool))

    def put_member(self, member: PoolMember) -> None:
        self._version += 1
        member = replace(member, resource_version=self._version)
        before = self.members.get(member.name)
        self.members[member.name] = member
        if not self.is_watching:
            return
        if (
            before is not None
            and before.uid == member.uid
            and _sequence(before) != _sequence(member)
        ):
            self.told.pop(member.name, None)
            if member.status.report is not None:
                self.told[member.name] = self.now, member.status.report
                for voters in self.since_loss.values():
                    voters.add(member.name)
        self.controller.member_observed(member, self.now)

    def report(self, name: str, *verdicts: PeerVerdict, every: int = 10) -> None:
        """The member says this, by a new report."""
        member = self.members.get(name)
        if member is None:
            return
        told = Report((_sequence(member) or 0) + 1, every, verdicts)
        self.put_member(replace(member, status=MemberStatus(report=told)))

    # ── time ──

    def run(self, seconds: float, *, step: float = 1.0) -> None:
        """The controller looks each second."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + step, end)
            self.look()

    def freeze(self, seconds: float) -> None:
        """The controller does nothing for so long, and then all at once."""
        self.now += seconds
        if seconds > 5:
            # What came meanwhile is of any age.
            self.told = {}
        self.look()

    def look(self) -> None:
        if self.controller.looked(self.now):
            self.told = {}
        for command in self.controller.plan(self.now).commands:
            self._perform(command)
        self._watch_taints()

    # ── writes of the controller ──

    def _perform(self, command: Command) -> None:
        if self.fate == "not sent":
            self.controller.failed(command, self.now, is_conflict=False, is_lost=False)
            return
        is_right = self._is_confirmed(command)
        if self.fate == "conflict" or not is_right or not self._apply(command):
            self.controller.failed(command, self.now, is_conflict=True, is_lost=False)
        elif self.fate == "lost":
            self.controller.failed(command, self.now, is_conflict=False, is_lost=True)
        else:
            self.controller.performed(command)

    def _is_confirmed(self, command: Any) -> bool:
        if _kind(command) != "TaintNode" or not command.marks_dead:
            return True
        pool = [it for it in self.nodes.values() if it.pool == command.node.pool]
        return self.controller.is_confirmed(command, pool, self.now)

    def _apply(self, command: Any) -> bool:
        """Whether the API server takes it."""
        kind, member = _kind(command), self.members.get(command.name)
        if kind == "TaintNode":
            return self._apply_taints(command)
        if kind == "CreateMember":
            return member is None and self._create(command)
        if member is None or member.uid != command.uid:
            return False
        if kind == "DeleteMember":
            del self.members[command.name]
            if self.is_watching:
                self.controller.member_deleted(command.name)
        elif kind == "LabelMember":
            self.put_member(replace(member, pool=command.pool, may_lead=command.may_lead))
        elif kind == "JudgeMember":
            self.put_member(replace(member, is_dead=command.is_dead, is_lost=command.is_lost))
        else:
            self.put_member(replace(member, conditions=command.conditions))
        return True

    def _create(self, command: CreateMember) -> bool:
        node = self.nodes.get(command.name)
        self._version += 1
        # Garbage collection takes what has no owner.
        if node is not None and node.uid == command.owner:
            self.put_member(
                PoolMember(
                    command.name,
                    uid=f"member-{self._version}",
                    pool=command.pool,
                    may_lead=command.may_lead,
                    owner=command.owner,
                )
            )
        return True

    def _apply_taints(self, command: TaintNode) -> bool:
        node = self.nodes.get(command.name)
        if node is None or node.resource_version != command.node.resource_version:
            return False
        after = replace(node, taints=command.taints)
        if after.is_dead and not node.is_dead:
            self._judge(node)
        foreign = [[it for it in each.taints if "pool." not in it["key"]] for each in (node, after)]
        if foreign[0] != foreign[1]:
            self.violations.append(f"{node.name}: taints of others changed")
        self.put_node(after)
        return True

    # ── what an observer says ──

    def _judge(self, node: NodeState) -> None:
        """N3 and the limits, of a mark that is being made."""
        others = self._present(node.pool) - {node.name}
        ready = {it for it in others if self.nodes[it].is_ready}
        votes = {it for it in ready if self._votes(it, node.name)}
        size = len(others) + 1
        dead = sum(self.nodes[it].is_dead for it in others)
        rules = {
            "without the annotation": not node.keeps_pods,
            "is Unknown": node.ready == "Unknown" and node.ready_reason == STATUS_UNKNOWN,
            f"more than half: {len(votes)} of {len(ready)}": 2 * len(votes) > len(ready),
            f"a third is Ready: {len(ready)} of {size}": 3 * len(ready) >= size,
            f"max-dead: {dead} already of {size}": dead < self.policy.max_dead.of(size),
            "10 s after another": all(
                self.now - at >= 10
                for at, pool, name in self.marks
                if pool == node.pool and name != node.name
            ),
        }
        self.violations += [
            f"{node.name}: not {rule}" for rule, holds in rules.items() if not holds
        ]
        self.marks.append((self.now, node.pool, node.name))

    def _present(self, pool: str) -> set[str]:
        return {
            it.name
            for it in self.members.values()
            if it.pool == pool and it.name in self.nodes and self.nodes[it.name].pool == pool
        }

    def _votes(self, voter: str, node: str) -> bool:
        if voter not in self.told:
            return False
        changed_at, report = self.told[voter]
        told = next((it for it in report.verdicts if it.node == node), None)
        if told is None or self.now - changed_at > min(FRESH_PERIODS * report.every, MAX_AGE):
            return False
        if voter not in self.since_loss[node]:
            return False
        back_at = self.turned_at[voter]
        if back_at > self.turned_at[node] and self.now - back_at < BACK_FOR:
            return False
        longest = {Verdict.SILENT: SILENT_FOR, Verdict.DEGRADED: DEGRADED_FOR}
        return told.verdict in longest and told.seconds >= longest[told.verdict]

    def _watch_taints(self) -> None:
        """(8), while writes get through and the watch brings changes."""
        wrong = {it.name for it in self.nodes.values() if it.is_dead and it.ready != "Unknown"}
        self.wrong_since = {name: self.wrong_since.get(name, self.now) for name in wrong}
        if self.fate != "ok" or not self.is_watching:
            self.wrong_since = dict.fromkeys(wrong, self.now)
        for name, since in self.wrong_since.items():
            if self.now - since > 2:
                self.violations.append(f"{name}: dead for {self.now - since:g}s, and not Unknown")


def _kind(command: object) -> str:
    return type(command).__name__


def _sequence(member: PoolMember) -> int | None:
    return None if member.status.report is None else member.status.report.sequence


def pool_of(world: World, pool: str, *names: str) -> None:
    """A pool with these nodes, all well, whose reports were seen to change."""
    for name in names:
        world.add_node(name, pool)
    world.run(2)
