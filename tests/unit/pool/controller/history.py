"""Histories of two pools: what happens to Nodes, members, the network and the controller.

A step is one of a few kinds with small numbers, so that Hypothesis draws and shrinks it; `play`
returns what the observer of `world` has to say.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pool_sidecar.core.controller.pool_controller import LONGEST_REST
from pool_sidecar.core.controller.taints import MaxDead, TaintPolicy
from pool_sidecar.core.pool_member import PeerVerdict, Verdict
from tests.unit.pool.controller.world import World, pool_of

NODES = ("a1", "a2", "a3", "a4", "a5", "b1", "b2", "b3")
POOLS = {"a": NODES[:5], "b": NODES[5:]}
KINDS = (
    "ready", "lost", "all report", "report", "run", "freeze", "begin", "break", "mend", "fate",
    "move", "link", "remove", "add", "keep",
)  # fmt: skip
READY = ("True", "False", "Unknown")
FATES = ("ok", "ok", "conflict", "not sent", "lost")
VERDICTS = (
    (Verdict.SILENT, 40),
    (Verdict.SILENT, 200),
    (Verdict.SILENT, 12),
    (Verdict.DEGRADED, 300),
    (Verdict.DEGRADED, 50),
    (Verdict.NEVER_HEARD, 500),
)
SECONDS = (1, 2, 5, 9, 10, 11, 29, 31, 45)
EVERY = (10, 10, 60)
LIMITS = (MaxDead(), MaxDead(None, 2), MaxDead(None, 9))


@dataclass(frozen=True)
class Step:
    """`kind` of `KINDS`; `node` of `NODES`; `mask`: which other nodes; `pick`: which value."""

    kind: int
    node: int
    mask: int
    pick: int


def play(steps: Sequence[Step], *, limit: int = 0) -> list[str]:
    """The violations of the whole history and of its calm end."""
    world = World(policy=TaintPolicy(max_dead=LIMITS[limit % len(LIMITS)]))
    for pool, names in POOLS.items():
        pool_of(world, pool, *names)
    for step in steps:
        _take(world, step)
        if world.violations:
            return world.violations
    return world.violations + _at_rest(world)


def _take(world: World, step: Step) -> None:
    name = NODES[step.node % len(NODES)]
    others = [it for at, it in enumerate(NODES) if step.mask >> at & 1 and it != name]
    seconds = SECONDS[step.pick % len(SECONDS)]
    match KINDS[step.kind % len(KINDS)]:
        case "ready" if name in world.nodes:
            world.set_ready(name, READY[step.pick % len(READY)])
        case "lost" if name in world.nodes:
            world.set_ready(name, "Unknown")
        case "all report":
            for voter in others:
                world.report(voter, *_verdicts([name], step), every=EVERY[step.pick % 3])
        case "report":
            world.report(name, *_verdicts(others, step), every=EVERY[step.pick % 3])
        case "run":
            world.run(seconds)
        case "freeze":
            world.freeze(seconds)
        case "begin":
            world.begin()
        case "break":
            world.break_watch()
        case "mend":
            world.mend_watch()
        case "fate":
            world.fate = FATES[step.pick % len(FATES)]
        case "move" if name in world.nodes:
            world.move(name, ("a", "b", "", "No_Name")[step.pick % 4])
        case "link" if name in world.nodes:
            world.set_link(name, ("True", "False", "Unknown", "")[step.pick % 4])
        case "keep" if name in world.nodes:
            world.keep_pods(name, keeps=step.pick % 2 == 0)
        case "remove":
            world.remove_node(name)
        case "add" if name not in world.nodes:
            world.add_node(name, "ab"[step.pick % 2])


def _verdicts(nodes: Sequence[str], step: Step) -> list[PeerVerdict]:
    verdict, seconds = VERDICTS[step.pick % len(VERDICTS)]
    return [PeerVerdict(it, verdict, seconds) for it in nodes]


def _at_rest(world: World) -> list[str]:
    """When all works again for a while, the API says the same everywhere, whoever looks."""
    world.fate = "ok"
    world.mend_watch()
    # A write that failed often rests for a minute, and the next ones follow it.
    world.run(LONGEST_REST + 10)
    found = list(world.violations)
    for node in world.nodes.values():
        member = world.members.get(node.name)
        is_member = node.pool in POOLS
        may_have_taints = is_member and not node.keeps_pods
        if is_member != (member is not None and member.pool == node.pool):
            found.append(f"{node.name}: its PoolMember is not as its label says")
        if member is not None and member.is_lost != (node.is_lost and not node.keeps_pods):
            found.append(f"{node.name}: lost is not as the Node says")
        if member is not None and member.is_dead != node.is_dead:
            found.append(f"{node.name}: judged is not as the taint says")
        if node.is_dead and (node.ready != "Unknown" or not may_have_taints):
            found.append(f"{node.name}: dead is left behind")
        if node.is_cut != (node.cloud_link == "False" and may_have_taints) and (
            node.cloud_link != "Unknown" or not may_have_taints
        ):
            found.append(f"{node.name}: cut is not as its link says")
    marks = len(world.marks)
    world.begin()
    world.run(120)
    if len(world.marks) != marks:
        found.append("a controller that begins marks a node by reports that do not change")
    return found + [it for it in world.violations if it not in found]
