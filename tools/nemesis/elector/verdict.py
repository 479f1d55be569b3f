"""What the contract allows, judged from outside: the audit log's history, an observer's 200s and
the work of wrapped programs.

Pure. A finding is a broken promise, never a doubt: of each rule it checks what must hold whatever
the candidate happened to see and however long its requests were under way. Assumes one machine:
the API server's clock and the observer's differ by `wall_offset`, which does not jump.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC

from edge_sidecars.runtime.formats import rfc3339
from tools.harness.pods.observers.history import FOREIGN_FACTOR, VALIDITY_MARGIN, VALIDITY_RATIO
from tools.harness.pods.observers.observer import Ready
from tools.nemesis.elector.history import (
    HOLD,
    RESUMED,
    SWITCHOVER,
    Attempt,
    History,
    Version,
)

# Seconds: an NTP client may slew the wall clock against CLOCK_BOOTTIME by 500 ppm (adjtimex(2)),
# over one lease and between two samples of their offset.
CLOCK_TOLERANCE = 0.02
# Seconds: a release that names a successor is that pod's for so long; a priority asks for the lead
# no sooner after the last change of holder, whose stamp may be ahead by whole seconds.
SUCCESSION = 3.0
MOVE_INTERVAL, AHEAD = 60.0, 3.0


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
class Worked:
    """A line of work of a program that the elector of `pod` wraps; `at` on CLOCK_BOOTTIME."""

    pod: str
    token: int
    at: float


@dataclass(frozen=True)
class Verdict:
    """`unjudged`: writes over a version that the log does not show; `asked`: switchovers that a
    priority asked for; `resumed`: takeovers of a process for another one of its pod."""

    findings: list[Finding]
    takeovers: int
    unjudged: int
    asked: int = 0
    resumed: int = 0


def judge(
    history: History,
    answers: Sequence[Ready],
    rules: Rules,
    *,
    offset: float,
    work: Sequence[Worked] = (),
) -> Verdict:
    """`offset`: what must be added to CLOCK_BOOTTIME to have epoch seconds."""
    electors = {attempt.writer for attempt in history.attempts}
    findings = _blind_writes(history.attempts)
    takeovers = unjudged = asked = resumed = 0
    for version in history.in_order():
        if version.writer not in electors:
            continue
        before = history.before(version)
        if before is None and version.verb != "create":
            unjudged += 1
            continue
        is_takeover = version.holder == version.writer and (
            before is None or before.holder != version.writer
        )
        takeovers += is_takeover
        asked += before is not None and _is_ask(version, before)
        resumed += is_takeover and before is not None and _is_resumed(version, before)
        why = _why_forbidden(history, version, before, rules)
        if why is not None:
            findings.append(Finding(version.received_at, f"{why}: {version} over {before}"))
    findings += _overlaps(answers, work, offset)
    findings += _untrue_answers(history, answers, rules.validity, offset)
    findings += _led_in_spite_of_holds(history, answers, rules.validity, offset)
    findings.sort(key=lambda each: each.at)
    return Verdict(findings, takeovers, unjudged, asked, resumed)


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
    if _is_ask(version, before):
        return _why_not_asked(version, before)
    if version.holder != version.writer:
        return "an elector wrote another's name"
    if before.holder == version.writer:
        return None
    _, held = history.vacated(before) if before.holder == "" else (before, before)
    is_written_back = held is not None and held.holder == version.writer
    if before.held_until > version.received_at and not is_written_back:
        return "a Lease was taken that is held"
    if before.holder == "":
        return _why_not_vacant(history, version, before, rules)
    since = history.first_alike(before).received_at
    if _is_resumed(version, before):
        # That the process before is dead only its port can say, and the version that is replaced
        # that no other has led since, however late the write arrived.
        return None
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
    if before.successor not in ("", _pod(version.writer)):
        what = f"a Lease was taken that was released for {before.successor}"
        if why := _too_early(version, first.received_at, SUCCESSION, what):
            return why
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


def _pod(identity: str) -> str:
    return identity.rpartition("_")[0]


def _is_ask(version: Version, before: Version) -> bool:
    """Nothing but an annotation differs: a priority asks for the lead."""
    is_foreign = version.holder not in ("", version.writer)
    return is_foreign and (version.uid, version.spec) == (before.uid, before.spec)


def _why_not_asked(version: Version, before: Version) -> str | None:
    changed = {
        name
        for name in {*version.annotations, *before.annotations}
        if version.annotations.get(name) != before.annotations.get(name)
    }
    if changed != {SWITCHOVER}:
        return f"a standby has changed {', '.join(sorted(changed)) or 'nothing'}"
    acquired = rfc3339.parse(before.spec.get("acquireTime") or "", zone=UTC)
    since = version.received_at - (0.0 if acquired is None else acquired.timestamp())
    if since < MOVE_INTERVAL - AHEAD:
        return f"a priority asks for the lead {since:.1f}s after the last change of holder"
    return None


def _is_resumed(version: Version, before: Version) -> bool:
    """By its own word: the process goes on for another one of its pod."""
    said = version.annotations.get(RESUMED)
    is_news = said is not None and said != before.annotations.get(RESUMED)
    return is_news and _pod(version.holder) == _pod(before.holder) != ""


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


@dataclass(frozen=True)
class _Sign:
    """A 200, or (without an answer) a line of work: what shows that a term lasts."""

    pod: str
    token: int
    sent: float
    received: float
    answer: Ready | None = None


def _overlaps(answers: Sequence[Ready], work: Sequence[Worked], offset: float) -> list[Finding]:
    """P1. Of a term only its first and its last sign can tell."""
    first: dict[tuple[int, bool], _Sign] = {}
    last: dict[tuple[int, bool], _Sign] = {}
    signs = [_Sign(it.pod, it.token, it.sent, it.received, it) for it in answers]
    signs += [_Sign(it.pod, it.token, it.at, it.at) for it in work]
    for sign in signs:
        key = (sign.token, sign.answer is None)
        if key not in first or sign.received < first[key].received:
            first[key] = sign
        if key not in last or sign.sent > last[key].sent:
            last[key] = sign
    return [
        Finding(
            stale.sent + offset,
            f"two holders for {stale.sent - newer.received:.3f}s: {stale}, {newer}",
        )
        for stale in last.values()
        for newer in first.values()
        if newer.token > stale.token
        and newer.received < stale.sent
        # The program of an earlier term of the pod ends beside the 200s of its next one.
        and (newer.pod != stale.pod or (newer.answer is None) == (stale.answer is None))
    ]


def _led_in_spite_of_holds(
    history: History, answers: Sequence[Ready], validity: float, offset: float
) -> list[Finding]:
    """What proves a lead is renewed by none that knows of the hold, and each renewal shows it."""
    findings = []
    for since, until in _holds(history):
        from_ = since + validity + CLOCK_TOLERANCE
        late = [it for it in answers if from_ < it.sent + offset and it.received + offset < until]
        findings += [
            Finding(it.sent + offset, f"a 200 {it.sent + offset - since:.3f}s after a hold: {it}")
            for it in late[:1]
        ]
    return findings


def _holds(history: History) -> list[tuple[float, float]]:
    """From when until when the Lease was held, in epoch seconds; each with one text."""
    found: list[tuple[float, float]] = []
    ends = sorted(it.received_at for it in history.deletions)
    versions = history.in_order()
    for place, version in enumerate(versions):
        text = version.annotations.get(HOLD)
        if version.held_until <= version.received_at:
            continue
        if place and versions[place - 1].annotations.get(HOLD) == text:
            continue
        over = next(
            (it.received_at for it in versions[place:] if it.annotations.get(HOLD) != text),
            version.held_until,
        )
        deleted = next((it for it in ends if it > version.received_at), over)
        found.append((version.received_at, min(over, deleted, version.held_until)))
    return found


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
