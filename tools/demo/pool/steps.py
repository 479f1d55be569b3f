"""What happens in the demo of a pool, one function per step, each with what it must show.

Guarantees: a step that cannot show anything now says so and does nothing; each one leaves what it
did for the next one, and `heal` takes all of it back. Raises `Failed` where its promise was not
kept.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial

from tools.demo.pool.cloud_state import DEAD_NODE, SITE_CUT, WELL
from tools.demo.pool.edge_site import OUTSIDE
from tools.demo.pool.node import SiteNode
from tools.demo.pool.pods import REPLICAS
from tools.demo.pool.state import WRITES, PoolState
from tools.demo.runner import Failed, Result

Step = Callable[[PoolState], None]

# Seconds.
QUIET = 10.0
# Of a site that is cut, after the pod without the component has gone.
CALM = 10.0
# After which that one goes.
CONTROL_STAYS = 5
# Heartbeats over a lent link, so that the second one shows that it goes on.
HEARTBEATS = 2


def gather(state: PoolState) -> None:
    """PoolMembers are made, members find each other, one leads; a pod of the shop on each node."""
    started = time.monotonic()
    state.runner.wait_for(lambda: _is_well(state) or None, "a pool of nodes that are well")
    state.pods.apply()
    state.runner.wait_for(lambda: _all_run(state) or None, "the shop's pods to run")
    leader = state.runner.wait_for(lambda: state.observer.leader() or None, "a leader of the pool")
    took = time.monotonic() - started
    names = ", ".join(state.site.nodes)
    detail = f"{leader} leads, {len(state.pods.running())} pods of the shop run"
    state.runner.note(Result(f"{names} are a pool", detail, took=took))


def quiet(state: PoolState) -> None:
    """All well, members write nothing."""
    since, before = time.time(), _wan(state)
    state.runner.sleep(QUIET)
    seconds, after = time.time() - since, _wan(state)
    written = [
        it
        for it in state.site.plane.audit(since=since)
        if it.resource in ("nodes", "poolmembers") and it.verb in WRITES
    ]
    if written:
        first = written[0]
        raise Failed(f"{len(written)} writes, the first: {first.user} {first.request_uri}")
    rates = sorted((after[it] - before[it]) / seconds for it in after)
    detail = f"nothing is written but Leases; {rates[0]:.0f} to {rates[-1]:.0f} B/s a link"
    state.runner.note(Result(f"quiet for {QUIET:g} s", detail))


def cut_one(state: PoolState) -> None:
    """It borrows a neighbour's link: its own heartbeat goes on, and the cloud says via whom."""
    if len(state.site.heard) < 2:
        state.runner.say("heal first: no other node has a link to lend")
        return
    leader = state.observer.leader()
    node = max(state.site.heard, key=lambda it: (it.name != leader, it.name))
    ready_since = state.observer.seen(node.name).ready_since
    cut_at, started = time.time(), time.monotonic()
    before = _heartbeats(state, node)
    node.cut()
    state.runner.say(f"{node.name}: link cut, without a word to anybody")
    lender = state.runner.wait_for(
        lambda: state.observer.via(node.name) or None, f"a lender for {node.name}"
    )
    took = time.monotonic() - started
    state.ready_since[node.name] = ready_since
    state.runner.say(f"{node.name} borrows the link of {lender}")
    state.runner.wait_for(
        lambda: _is_told(state, node.name) or None, "the cloud to know via whom it speaks"
    )
    state.runner.wait_for(
        lambda: _heartbeats(state, node) >= before + HEARTBEATS or None,
        f"{HEARTBEATS} heartbeats over the lent link",
    )
    _must_be_ready(state)
    gap = state.observer.longest_gap(node.name, cut_at)
    detail = f"{node.name} via {lender}; Ready all the time, its Lease at most {gap:.0f} s old"
    state.runner.note(Result("cut a node → it borrows a link", detail, took=took))


def kill_one(state: PoolState) -> None:
    """Power off, of a lender if there is one. Two results: it is judged dead, its pod is replaced;
    who borrowed from it goes on over the next one."""
    borrowers = {it.name: state.observer.via(it.name) for it in state.site.living if it.is_cut}
    node = _victim(state, borrowers)
    if node is None:
        state.runner.say("heal first: too few nodes are heard to bear witness")
        return
    pods = state.pods.running(node.name)
    killed_at, started = time.time(), time.monotonic()
    state.killed.add(node.name)
    node.kill()
    state.runner.say(f"{node.name}: power off; its pods: {', '.join(pods) or 'none'}")
    orphans = [name for name, lender in borrowers.items() if lender == node.name]
    for name in orphans:
        lender = state.runner.wait_for(partial(_lender, state, name), f"a lender for {name}")
        state.runner.say(f"{name} borrows the link of {lender} now")
    state.runner.wait_for(
        lambda: state.observer.state(node.name) == DEAD_NODE or None, f"{node.name} judged dead"
    )
    took = time.monotonic() - started
    detail = f"{node.name}, by its neighbours' witness"
    state.runner.note(Result("kill a node → judged dead", detail, took=took))
    state.runner.wait_for(lambda: _is_replaced(state, node.name) or None, "its pod replaced")
    took = time.monotonic() - started
    where = {name: state.pods.running(name) for name in state.site.nodes}
    others = ", ".join(f"{len(it)} on {name}" for name, it in where.items() if it)
    state.runner.note(Result("its pod is replaced", others, took=took))
    _must_be_ready(state)
    for name in orphans:
        gap = state.observer.longest_gap(name, killed_at)
        detail = f"{name} via {state.observer.via(name)}; its Lease at most {gap:.0f} s old"
        state.runner.note(Result("its borrower takes another lender", detail))


def cut_all(state: PoolState) -> None:
    """No link is left to lend: nothing moves, but for a pod that does not know of pools."""
    nodes = state.site.heard
    if not nodes:
        state.runner.say("heal first: no node has a link")
        return
    site = state.site.living
    before, control_before = len(state.pods.evicted(shop=True)), _control_evicted(state)
    state.pods.add_control(nodes[0].name, seconds=CONTROL_STAYS)
    started = time.monotonic()
    state.ready_since.clear()
    for node in nodes:
        node.cut()
    state.runner.say(f"{', '.join(it.name for it in site)}: the whole site is cut")
    state.runner.wait_for(
        lambda: all(state.observer.state(it.name) == SITE_CUT for it in site) or None,
        "the cloud to have lost all of them",
    )
    state.runner.wait_for(
        lambda: _control_evicted(state) > control_before or None,
        "a pod without the component to be evicted",
    )
    state.runner.say("a pod without keep-while-cut was evicted, as everywhere")
    state.runner.sleep(CALM)
    took = time.monotonic() - started
    moved = len(state.pods.evicted(shop=True)) - before
    if moved:
        raise Failed(f"{moved} pods of the shop were evicted")
    if not all(state.observer.state(it.name) == SITE_CUT for it in site):
        raise Failed("a node of a site that is cut was judged dead")
    detail = f"0 of {REPLICAS} pods of the shop evicted, nobody judged dead"
    state.runner.note(Result("cut all → nothing moves", detail, took=took))


def heal(state: PoolState) -> None:
    """Links and machines are back: all is as in the beginning, and nothing was lost."""
    started = time.monotonic()
    for node in state.site.nodes.values():
        node.heal()
    state.runner.say("all links and machines are back")
    state.runner.wait_for(lambda: _is_well(state) or None, "all nodes well")
    state.runner.wait_for(lambda: _all_run(state) or None, "the shop's pods to run")
    state.ready_since.clear()
    leader = state.runner.wait_for(lambda: state.observer.leader() or None, "a leader of the pool")
    took = time.monotonic() - started
    detail = f"{leader} leads, {len(state.pods.running())} pods of the shop run"
    state.runner.note(Result("heal → all well", detail, took=took))


SCRIPT: Sequence[Step] = (gather, quiet, cut_one, kill_one, cut_all, heal)
BY_HAND: dict[str, tuple[str, Step]] = {
    "c": ("cut a node", cut_one),
    "k": ("kill a node", kill_one),
    "s": ("cut the whole site", cut_all),
    "h": ("heal", heal),
}


def _is_well(state: PoolState) -> bool:
    """All nodes, in the eyes of the cloud and of each other."""
    names = [*state.site.nodes, *OUTSIDE]
    if any(state.observer.state(name) != WELL for name in names):
        return False
    if any(state.observer.seen(name).taints for name in names):
        return False
    members = state.observer.members()
    is_own = all(
        members.get(name, {}).get("status", {}).get("link") == "Own" for name in state.site.nodes
    )
    return is_own and _all_alive(state)


def _all_run(state: PoolState) -> bool:
    return len(state.pods.running()) == REPLICAS


def _all_alive(state: PoolState) -> bool:
    """In the eyes of each member, and by its last report, if it ever wrote one."""
    for name in state.site.nodes:
        said = state.observer.said(name)
        if said is None or len(said["peers"]) != len(state.site.nodes) - 1:
            return False
        if any(it["verdict"] != "Alive" for it in said["peers"]):
            return False
        report = state.observer.members().get(name, {}).get("status", {}).get("report") or {}
        if report.get("verdicts"):
            return False
    return True


def _is_replaced(state: PoolState, name: str) -> bool:
    """Whether all pods of the shop run elsewhere."""
    return _all_run(state) and not state.pods.running(name)


def _victim(state: PoolState, borrowers: dict[str, str]) -> SiteNode | None:
    """A lender, or who leads; None where those that are left could not bear witness."""
    heard = state.site.heard
    if len(heard) < 2 or len(state.site.living) < len(state.site.nodes):
        return None
    lenders, leader = set(borrowers.values()), state.observer.leader()
    return max(heard, key=lambda it: (it.name in lenders, it.name == leader, it.name))


def _lender(state: PoolState, name: str) -> str | None:
    """Of a node that borrows, one that lives."""
    via = state.observer.via(name)
    return via if via and not state.site.nodes[via].is_killed else None


def _is_told(state: PoolState, name: str) -> bool:
    via = state.observer.via(name)
    return bool(via) and state.observer.state(name) == f"cut, via {via}"


def _heartbeats(state: PoolState, node: SiteNode) -> int:
    said = state.observer.said(node.name)
    return 0 if said is None else int(said["heartbeats"])


def _must_be_ready(state: PoolState) -> None:
    """Nodes that borrow a link, without a moment in which they were not."""
    for name, since in state.ready_since.items():
        seen = state.observer.seen(name)
        if (seen.ready, seen.ready_since) != ("True", since):
            raise Failed(f"{name} was not Ready all the time, though a neighbour had a link")


def _control_evicted(state: PoolState) -> int:
    return len(state.pods.evicted(shop=False))


def _wan(state: PoolState) -> dict[str, int]:
    return {name: node.wan_bytes() for name, node in state.site.nodes.items()}
