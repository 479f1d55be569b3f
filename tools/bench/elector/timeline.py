"""What replies of /readyz say about leadership. Pure; times in seconds on CLOCK_BOOTTIME.

A 200 of pod A is stale where it was asked for after pod B's first 200 had been received, and
before B's term ended (P1's definition). A term is a run of 200s of one pod without another
answer between them; silence (a frozen process) does not end it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# In place of a status: refused, reset, or closed without an answer.
NO_ANSWER = 0


@dataclass(frozen=True, slots=True)
class Reply:
    pod: str
    status: int
    sent: float
    received: float


@dataclass(frozen=True, slots=True)
class Term:
    """At least one 200, in the order in which they were sent."""

    replies: tuple[Reply, ...]

    @property
    def pod(self) -> str:
        return self.replies[0].pod

    @property
    def seen_at(self) -> float:
        return min(reply.received for reply in self.replies)

    @property
    def ended_at(self) -> float:
        return max(reply.sent for reply in self.replies)


@dataclass(frozen=True, slots=True)
class Overlap:
    """`seconds` from the first to the last stale 200, `count` of them."""

    seconds: float = 0.0
    count: int = 0


def terms(replies: Iterable[Reply]) -> list[Term]:
    """Of one side's pods, in the order in which they were first seen."""
    by_pod: dict[str, list[Reply]] = {}
    for reply in sorted(replies, key=lambda each: each.sent):
        by_pod.setdefault(reply.pod, []).append(reply)
    found = []
    for own in by_pod.values():
        run: list[Reply] = []
        for reply in own:
            if reply.status == 200:
                run.append(reply)
            elif run:
                found.append(Term(tuple(run)))
                run = []
        if run:
            found.append(Term(tuple(run)))
    return sorted(found, key=lambda term: term.seen_at)


def overlap(replies: Iterable[Reply]) -> Overlap:
    """The sum over all pairs of terms of different pods."""
    ordered = terms(replies)
    seconds, count = 0.0, 0
    for index, older in enumerate(ordered):
        for newer in ordered[index + 1 :]:
            if newer.pod == older.pod:
                continue
            stale = [
                reply for reply in older.replies if newer.seen_at < reply.sent <= newer.ended_at
            ]
            if stale:
                answered = [reply.received for reply in stale]
                seconds += max(answered) - min(answered)
                count += len(stale)
    return Overlap(seconds, count)


def gap(replies: Sequence[Reply], *, since: float) -> float:
    """The longest time without a 200 in which the pod of the last 200 gave another answer.

    Counts from `since`; a gap that is still open counts up to the last reply. 0 without any.
    """
    ordered = sorted((each for each in replies if each.sent >= since), key=lambda each: each.sent)
    longest, last, leader, was_denied = 0.0, since, "", False
    for reply in ordered:
        if reply.status == 200:
            if was_denied:
                longest = max(longest, reply.received - last)
            last, leader, was_denied = reply.sent, reply.pod, False
        elif reply.pod == leader:
            was_denied = True
    return max(longest, ordered[-1].sent - last) if was_denied else longest


def first_200(replies: Iterable[Reply], *, since: float) -> Reply | None:
    """The 200 that was received first, of those that were sent at or after `since`."""
    found = [each for each in replies if each.status == 200 and each.sent >= since]
    return min(found, key=lambda each: each.received, default=None)
