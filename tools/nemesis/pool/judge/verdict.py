"""Whether the cloud's decisions about nodes were right, beside what was done to them. Pure.

The invariants of the pool's contract, each by a name that is printed:
    N1      a node that reaches the cloud, or a neighbour with a link, never turns Unknown
    N2      a dead node's Lease is renewed for 5 s more at the most
    N3      `dead` comes by witnesses alone: more than half of the Ready others can have missed the
            node for 40 s, and a third of the pool is Ready; it never comes to a site that is cut
    evicted a pod that tolerates it leaves a node only after its seconds of `dead`
    in time a dead node's pods are gone, and replaced, where witnesses, controller and API are well;
            and it is dead within 75 s of its loss, or of when its neighbours were back
    Unknown `dead` is never longer than 2 s on a node that is not Unknown
    control a pod without the toleration leaves a node that is lost: nothing else keeps them all
Guarantees: nothing is a finding of which the truth is not known, because faults overlapped too
much; a busy machine gets some seconds more, never a decision that is wrong.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tools.nemesis.pool.judge.history import History, Pod, running
from tools.nemesis.pool.judge.timeline import Span, What, merged

# Seconds, all of pool.md but for `GRACE` (of the kube-controller-manager here) and `SLACK`.
GRACE = 30.0
HEARTBEAT_GAP = 20.0
RENEWED_AFTER_DEATH = 5.0
SILENT_FOR = 40.0
FRESH = 30.0
DEAD_WITHIN = 75.0
DEAD_STAYS = 2.0
SLACK = 10.0
# A part that came back, or a link, until it is used again; the controller leads again.
SETTLE = 15.0
# A site in which this much is well decides in time; and before a node died.
WELL_BEFORE = 60.0
_NODE = frozenset({What.OFF, What.MEMBER, What.RELAY, What.KUBELET, What.MOVED, What.LIAR})


@dataclass(frozen=True)
class Renewal:
    """Of a node's Lease, as the API server received it."""

    node: str
    at: float


@dataclass(frozen=True)
class Rules:
    """`pool`: its nodes; `kept`: workloads that stay, and their seconds for `dead`; `replicas`: of
    those of them that are replaced without their node's word; `controls`: workloads that do not
    stay, and their seconds."""

    pool: Sequence[str]
    kept: Mapping[str, float]
    replicas: Mapping[str, int]
    controls: Mapping[str, float]


class Truth:
    """The spans of faults, asked for what they mean."""

    def __init__(self, spans: Iterable[Span], pool: Sequence[str]) -> None:
        # A disk is no excuse for any of them.
        self._spans = tuple(it for it in spans if it.what is not What.DISK)
        self._pool = tuple(pool)

    def of(self, what: What, node: str = "") -> list[Span]:
        return [it for it in self._spans if it.what is what and it.node == node]

    def all(self, what: What) -> list[Span]:
        return [it for it in self._spans if it.what is what]

    def is_cloud_well(self, since: float, until: float, *, settle: float = SETTLE) -> bool:
        cloud = (What.SERVER, What.CONTROLLER)
        found = (it for it in self._spans if it.what in cloud)
        return not any(it.touches(since, until, settle=settle) for it in found)

    def is_server_well(self, since: float, until: float) -> bool:
        found = self.of(What.SERVER)
        return not any(it.touches(since, until, settle=GRACE) for it in found)

    def is_untouched(
        self, node: str, since: float, until: float, *, but: Iterable[What] = ()
    ) -> bool:
        """Nothing was done to the node, its link and its LAN."""
        excepted = frozenset(but)
        return not any(
            node in (it.node, it.peer)
            and it.what not in excepted
            and it.touches(since, until, settle=SETTLE)
            for it in self._spans
        )

    def calm_since(self, node: str, since: float, within: float) -> float:
        """When, from `since` on, cloud and other nodes had come back from what was done to them,
        and nothing was done to them for `within` seconds more."""
        others = sorted((it for it in self._spans if it.node != node), key=lambda it: it.begin)
        for it in others:
            settle = SETTLE if it.node else GRACE
            if it.touches(since, since + within, settle=settle):
                since = it.end + settle
        return since

    def is_sound(self, node: str, since: float, until: float) -> bool:
        """It and its kubelet run, and it reached the cloud, or a neighbour with a link: one that
        was well all the time, while at most one of the others changed."""
        if not self.is_server_well(since, until):
            return False
        if any(
            it.node == node and it.what in _NODE and it.touches(since, until, settle=SETTLE)
            for it in self._spans
        ):
            return False
        if not any(it.touches(since, until, settle=SETTLE) for it in self.of(What.WAN, node)):
            return True
        others = [it for it in self._spans if self._concerns_lenders(it, node)]
        held = [it for it in others if it.touches(since, until, settle=SETTLE)]
        lenders = set(self._pool) - {node} - {it.node for it in held} - {it.peer for it in held}
        changes = [it for it in held if it.begin >= since or it.end <= until]
        is_shaky = any(it.is_shaky for it in held)
        return bool(lenders) and len({it.node for it in changes}) <= 1 and not is_shaky

    def _concerns_lenders(self, span: Span, node: str) -> bool:
        if span.what is What.LAN:
            return node in (span.node, span.peer)
        return span.node not in ("", node)

    def witnesses(self, node: str, at: float) -> set[str]:
        """Of whom a report that counts then can say that the node is gone, and those that lie."""
        return {
            it
            for it in self._pool
            if it != node and (self._missed(node, it, at) or self._lied(it, at))
        }

    def _missed(self, node: str, witness: str, at: float) -> bool:
        pair = {node, witness}
        gone = [it for it in self._spans if it.what is What.OFF and it.node == node]
        gone += [it for it in self._spans if it.what is What.LAN and {it.node, it.peer} == pair]
        return any(
            min(end, at) - begin >= SILENT_FOR and end >= at - FRESH - SLACK
            for begin, end in merged(gone)
            if begin <= at
        )

    def _lied(self, witness: str, at: float) -> bool:
        since = at - FRESH - SLACK
        return any(it.touches(since, at) for it in self.of(What.LIAR, witness))

    def is_site_cut(self, since: float, until: float) -> bool:
        """All nodes, those without power among them, all the time."""
        for name in self._pool:
            cut = merged(
                it for what in (What.OFF, What.WAN) for it in self.of(what, name) if not it.is_shaky
            )
            if not any(begin <= since and end >= until for begin, end in cut):
                return False
        return True


def deaths_to_judge(history: History, spans: Iterable[Span], rules: Rules, *, now: float) -> int:
    """How many nodes died, and stayed so for long enough, while all else was well."""
    truth = Truth(spans, rules.pool)
    within = DEAD_WITHIN + max(rules.kept.values()) + SLACK
    return sum(
        span.begin + within <= min(span.end, now)
        and _must_be_judged(name, span.begin, history, truth, rules)
        for name in rules.pool
        for span in truth.of(What.OFF, name)
    )


def judge(
    history: History,
    spans: Iterable[Span],
    renewals: Iterable[Renewal],
    rules: Rules,
    *,
    now: float,
) -> list[str]:
    """What was broken up to now."""
    truth = Truth(spans, rules.pool)
    found = [*_renewed(tuple(renewals), truth)]
    for name in rules.pool:
        found += _lost(name, history, truth)
        found += _judged_dead(name, history, truth, rules)
        found += _dead_though_heard(name, history, truth, now=now)
        found += _in_time(name, history, truth, rules, now=now)
        found += _dead_in_time(name, history, truth, rules, now=now)
        found += _controls(name, history, truth, rules, now=now)
    found += (it for pod in history.pods.values() for it in _evicted(pod, history, rules))
    return found


def _lost(name: str, history: History, truth: Truth) -> Iterator[str]:
    before = ""
    for seen, _ in history.periods(name):
        since = seen.at - GRACE - SLACK
        if (before, seen.ready) == ("True", "Unknown") and truth.is_sound(name, since, seen.at):
            yield f"N1: {name} turned Unknown at {seen.at:.3f} though it had a way to the cloud"
        before = seen.ready


def _renewed(renewals: Sequence[Renewal], truth: Truth) -> Iterator[str]:
    """One late renewal is excused: the lender has no moment in which a freeze would catch more than
    that, and this one is too short to be hit twice."""
    excuses = 1
    for span in truth.all(What.OFF):
        allowed = span.begin + RENEWED_AFTER_DEATH
        for it in renewals:
            if it.node != span.node or not allowed < it.at < span.end:
                continue
            if excuses and _is_held_by_a_lender(span, it, truth):
                excuses -= 1
                continue
            after = it.at - span.begin
            yield f"N2: the Lease of {it.node} was renewed {after:.3f} s after its last packet"


def _is_held_by_a_lender(span: Span, late: Renewal, truth: Truth) -> bool:
    """What a freeze catches between `recv` and `send` goes on its way when the lender wakes."""
    frozen = [it for it in truth.all(What.FROZEN) if it.begin <= span.begin <= it.end]
    return any(late.at >= it.end - SLACK for it in frozen)


def _judged_dead(name: str, history: History, truth: Truth, rules: Rules) -> Iterator[str]:
    for begin, _ in history.dead_spans(name):
        # By the observer's watch, which may be a moment late.
        ready = [_ready(history, rules, at) - {name} for at in (begin - DEAD_STAYS, begin)]
        voters = min(len(it) for it in ready)
        witnesses = truth.witnesses(name, begin) & (ready[0] | ready[1])
        if len(witnesses) * 2 <= voters:
            yield (
                f"N3: {name} was judged dead at {begin:.3f} though {len(witnesses)} of {voters} "
                f"Ready others can have missed it: {', '.join(sorted(witnesses)) or 'none'}"
            )
        if max(len(it) for it in ready) * 3 < len(rules.pool):
            yield (
                f"N3: {name} was judged dead at {begin:.3f} while fewer than a third of its pool "
                "were Ready"
            )
        if truth.is_site_cut(begin - FRESH - SLACK, begin):
            yield f"N3: {name} was judged dead at {begin:.3f} while its whole site was cut"


def _ready(history: History, rules: Rules, at: float) -> set[str]:
    return {it for it in rules.pool if history.at(it, at).ready == "True"}


def _dead_though_heard(name: str, history: History, truth: Truth, *, now: float) -> Iterator[str]:
    for seen, end in history.periods(name):
        until = min(end, now)
        if not seen.is_dead or seen.ready == "Unknown" or until - seen.at <= DEAD_STAYS:
            continue
        if truth.is_cloud_well(seen.at - SETTLE, seen.at + DEAD_STAYS):
            yield (
                f"Unknown: {name} was dead for {until - seen.at:.3f} s from {seen.at:.3f} on while "
                f"Ready was {seen.ready}"
            )


def _evicted(pod: Pod, history: History, rules: Rules) -> Iterator[str]:
    if pod.app not in rules.kept or pod.deleting_at == math.inf or not pod.node:
        return
    # To the second, as the API's times are.
    since = pod.deleting_at - rules.kept[pod.app] + 1.0
    spans = history.dead_spans(pod.node)
    if not any(begin <= since and end >= pod.deleting_at - DEAD_STAYS for begin, end in spans):
        yield (
            f"evicted: {pod.name} left {pod.node} at {pod.deleting_at:.3f}, which had not been "
            f"dead for its {rules.kept[pod.app]:g} s"
        )


def _in_time(
    name: str, history: History, truth: Truth, rules: Rules, *, now: float
) -> Iterator[str]:
    for span in truth.of(What.OFF, name):
        if not _must_be_judged(name, span.begin, history, truth, rules):
            continue
        for app, seconds in rules.kept.items():
            until = span.begin + DEAD_WITHIN + seconds + SLACK
            if until > min(span.end, now):
                continue
            for pod in history.pods.values():
                if (pod.app, pod.node) == (app, name) and pod.runs(span.begin) and pod.runs(until):
                    late = until - span.begin
                    yield f"in time: {pod.name} was still on {name} {late:g} s after its death"
            here = rules.replicas.get(app, 0)
            until += SLACK
            if here and until <= min(span.end, now):
                others = running(history.pods, app, until, but_on=name)
                if others < here:
                    yield f"in time: {others} of {here} pods of {app} run without {name}"


def _dead_in_time(
    name: str, history: History, truth: Truth, rules: Rules, *, now: float
) -> Iterator[str]:
    """Whatever befell its neighbours before: they were without power with it, or started again."""
    others = [it for it in rules.pool if it != name]
    within = DEAD_WITHIN + SLACK
    for span in truth.of(What.OFF, name):
        was_well = history.at(name, span.begin).ready == "True" and truth.is_untouched(
            name, span.begin - WELL_BEFORE, span.begin - SLACK
        )
        forgot = [it for other in others for it in truth.of(What.FORGOTTEN, other)]
        if not was_well or any(it.end >= span.begin - WELL_BEFORE for it in forgot):
            continue
        for lost, back in history.lost_spans(name):
            since = truth.calm_since(name, lost, within)
            until = since + within
            if not span.begin <= lost or until > min(span.end, back, now):
                continue
            dead = [it for other in others for it in history.dead_spans(other)]
            if any(begin <= until and end >= lost for begin, end in dead):
                continue  # No more may be, maybe.
            is_known = any(begin <= until for begin, end in history.dead_spans(name) if end >= lost)
            if len(_ready(history, rules, until)) * 2 > len(rules.pool) and not is_known:
                late = until - lost
                yield f"in time: {name} was lost at {lost:.3f}, and not dead {late:g} s after"


def _controls(
    name: str, history: History, truth: Truth, rules: Rules, *, now: float
) -> Iterator[str]:
    for begin, end in history.lost_spans(name):
        for app, seconds in rules.controls.items():
            until = begin + seconds + 2 * SLACK
            if until > min(end, now) or not truth.is_server_well(begin - SLACK, until):
                continue
            for pod in history.pods.values():
                if (pod.app, pod.node) == (app, name) and pod.runs(begin) and pod.runs(until):
                    yield f"control: {pod.name} was still on {name} {until - begin:g} s after"


def _must_be_judged(name: str, died: float, history: History, truth: Truth, rules: Rules) -> bool:
    """All else was well before and after, so that its pool bears witness in time."""
    since, until = died - WELL_BEFORE, died + DEAD_WITHIN + SLACK
    others = [it for it in rules.pool if it != name]
    return (
        history.at(name, died).ready == "True"
        and truth.is_cloud_well(since, until, settle=GRACE)
        and truth.is_untouched(name, since, died - SLACK)
        and all(truth.is_untouched(it, since, until, but=(What.ELECTOR,)) for it in others)
        and not any(
            begin <= until and end >= died for it in others for begin, end in history.dead_spans(it)
        )
    )
