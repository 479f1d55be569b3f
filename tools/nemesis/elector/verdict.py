"""What the contract allows, judged from outside: the audit log's history and an observer's 200s.

Pure. A finding is a broken promise, never a doubt: of each rule it checks what must hold whatever
the candidate happened to see and however long its requests were under way. Assumes one machine:
the API server's clock and the observer's differ by `wall_offset`, which does not jump.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from tools.harness.pods.observers.history import FOREIGN_FACTOR, VALIDITY_MARGIN, VALIDITY_RATIO
from tools.harness.pods.observers.observer import Ready, overlaps
from tools.nemesis.elector.history import Attempt, History, Version

# Seconds: an NTP client may slew the wall clock against CLOCK_BOOTTIME by 500 ppm (adjtimex(2)),
# over one lease and between two samples of their offset.
CLOCK_TOLERANCE = 0.02


@dataclass(frozen=True)
class Finding:
    """`at` in epoch seconds."""

    at: float
    what: str


@dataclass(frozen=True)
class Rules:
    """`lease_duration`: that of all electors, seconds. `known`: uids of empty Leases that were
    created in place of one whose holder every elector knew."""

    lease_duration: float
    known: frozenset[str] = frozenset()

    @property
    def validity(self) -> float:
        """Seconds from the sending of a write to the end of the 200s that it backs."""
        return self.lease_duration * VALIDITY_RATIO - VALIDITY_MARGIN


@dataclass(frozen=True)
class Verdict:
    """`unjudged`: writes over a version that the log does not show."""

    findings: list[Finding]
    takeovers: int
    unjudged: int


def judge(history: History, answers: Sequence[Ready], rules: Rules, *, offset: float) -> Verdict:
    """`offset`: what must be added to CLOCK_BOOTTIME to have epoch seconds."""
    electors = {attempt.writer for attempt in history.attempts}
    findings = _blind_writes(history.attempts)
    takeovers = unjudged = 0
    for version in history.in_order():
        if version.writer not in electors:
            continue
        before = history.before(version)
        if before is None and version.verb != "create":
            unjudged += 1
            continue
        takeovers += version.holder == version.writer and (
            before is None or before.holder != version.writer
        )
        why = _why_forbidden(history, version, before, rules)
        if why is not None:
            findings.append(Finding(version.received_at, f"{why}: {version} over {before}"))
    findings += _overlaps(answers, offset)
    findings += _untrue_answers(history, answers, rules.validity, offset)
    return Verdict(sorted(findings, key=lambda each: each.at), takeovers, unjudged)


def transitions(history: History, *, without: str) -> int:
    """Changes from one holder to another; whoever's name begins with `without` does not count."""
    count, last = 0, ""
    for version in history.in_order():
        if version.holder and not version.holder.startswith(without) and version.holder != last:
            count, last = count + 1, version.holder
    return count


def _blind_writes(attempts: Sequence[Attempt]) -> list[Finding]:
    """P4: every PUT names the very record that it replaces."""
    findings = []
    for attempt in attempts:
        metadata = (attempt.body or {}).get("metadata", {})
        is_blind = not metadata.get("uid") or not metadata.get("resourceVersion")
        if attempt.verb == "update" and attempt.body is not None and is_blind:
            what = f"a PUT without uid and resourceVersion by {attempt.writer}: {metadata}"
            findings.append(Finding(attempt.received_at, what))
    return findings


def _why_forbidden(
    history: History, version: Version, before: Version | None, rules: Rules
) -> str | None:
    if before is None:
        if version.holder == "":
            return None  # reserved, for nobody yet
        return _why_not_missing(history, version, rules, "a deleted Lease was created anew")
    if version.holder == "":
        return None if before.holder == version.writer else "a foreign holder was blanked"
    if version.holder != version.writer:
        return "an elector wrote another's name"
    if before.holder == version.writer:
        return None
    if before.holder == "":
        return _why_not_vacant(history, version, before, rules)
    since = history.first_alike(before).received_at
    wait = before.duration or rules.lease_duration
    if before.marked_holder == before.holder:
        # A duration that somebody shortened is not what an elector of ours goes by.
        wait = max(wait, rules.lease_duration)
    else:
        wait *= FOREIGN_FACTOR
    return _too_early(version, since, wait, "taken from a living holder")


def _why_not_vacant(
    history: History, version: Version, before: Version, rules: Rules
) -> str | None:
    """Section 4: an empty holder is free at once only if it was released in order."""
    first, held = history.vacated(before)
    if held is None and (before.marked_holder is not None or before.uid in rules.known):
        # Reserved by an elector that found none, or created anew: whoever held the last one counts.
        return _why_not_missing(history, version, rules, "a new Lease was taken for a released")
    if before.marked_holder is None or held is None:
        return None
    if version.writer == held.holder:
        return None  # it writes itself back
    if held.holder != before.marked_holder:
        return None  # a later holder than the marked one gave it up
    own = rules.lease_duration
    return _too_early(version, first.received_at, own, "a blanked Lease was taken for a released")


def _why_not_missing(history: History, version: Version, rules: Rules, what: str) -> str | None:
    """Section 4: a Lease that is missing is waited out, except by its living leader."""
    deletion, held = history.last_held(version.received_at)
    if deletion is None or (held is not None and held.holder == version.writer):
        return None
    return _too_early(version, deletion.received_at, rules.lease_duration, what)


def _too_early(version: Version, since: float, wait: float, what: str) -> str | None:
    waited = version.received_at - since
    if waited >= wait - CLOCK_TOLERANCE:
        return None
    return f"{what}, {waited:.3f}s after the last sign of life, {wait:g}s are due"


def _overlaps(answers: Sequence[Ready], offset: float) -> list[Finding]:
    """P1. Of a term only its first and its last 200 can tell."""
    first: dict[int, Ready] = {}
    last: dict[int, Ready] = {}
    for ready in answers:
        if ready.token not in first or ready.received < first[ready.token].received:
            first[ready.token] = ready
        if ready.token not in last or ready.sent > last[ready.token].sent:
            last[ready.token] = ready
    found = overlaps([*first.values(), *last.values()])
    return [
        Finding(each.stale.sent + offset, f"two holders for {each.seconds:.3f}s: {each}")
        for each in found
    ]


def _untrue_answers(
    history: History, answers: Sequence[Ready], validity: float, offset: float
) -> list[Finding]:
    """P2 and P3: a 200 lies between its acquiring write and the end of an applied write's time."""
    applied: dict[str, list[float]] = {}
    for attempt in sorted(history.attempts, key=lambda each: each.received_at):
        if attempt.status is None or attempt.status < 300 or attempt.status >= 500:
            applied.setdefault(attempt.writer, []).append(attempt.received_at)
    findings = []
    for ready in answers:
        why = None
        acquired = history.versions.get(ready.token)
        received_at = ready.received + offset
        writes = applied.get(ready.identity, [])
        count = bisect_right(writes, received_at + CLOCK_TOLERANCE)
        newest = writes[count - 1] if count else 0.0
        sent_at = ready.valid_until - validity + offset
        if ready.sent >= ready.valid_until:
            why = "a 200 after its own valid_until"
        elif acquired is not None and acquired.holder != ready.identity:
            why = f"a 200 in the term of {acquired.holder}"
        elif acquired is not None and received_at < acquired.received_at - CLOCK_TOLERANCE:
            why = "a 200 before the write that acquired the Lease"
        elif newest < sent_at - CLOCK_TOLERANCE:
            why = "a 200 for which no write of this elector stands"
        if why is not None:
            findings.append(Finding(received_at, f"{why}: {ready}"))
    return findings
