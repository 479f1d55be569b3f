"""The reports of one object that wait for GM, their numbers (G3), and when one is sent again.

Guarantees: `seq` only grows, over acknowledgements and restarts; what a report replaces, and what
not, is in `edge_sidecars.sedna_api.core.report`; the same words again from the same worker are the
same report, whether it still waits or not. What was acknowledged and came to nothing is sent again:
it was lost behind the GM that acknowledged it (a NodeReport was deleted, etcd restored), or that
one is away, so seldom, and ever more seldom.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, Self

import msgspec

from edge_sidecars.sedna_api.core.report import Report, replaced_by

# Workers of one object whose last words are remembered: more than any job has at a time.
MAX_WORKERS = 64
DIGEST_BYTES = 16
# Bytes that a waiting report costs besides its body.
REPORT_OVERHEAD = 600


class DedupKey(msgspec.Struct, frozen=True):
    """The last report of a worker."""

    seq: int
    digest: bytes


class Waiting(msgspec.Struct, frozen=True):
    """`queued_at` in seconds of the wall clock: for people."""

    report: Report
    queued_at: float

    @property
    def size(self) -> int:
        """Bytes that it costs."""
        return len(self.report.body) + REPORT_OVERHEAD


class Queue(msgspec.Struct, frozen=True):
    """Of one object: `last` is the highest number ever given; `waiting` in the order of numbers."""

    uid: str
    last: int = 0
    waiting: tuple[Waiting, ...] = ()
    heard: Mapping[str, DedupKey] = msgspec.field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(each.size for each in self.waiting)

    def with_waiting(self, waiting: tuple[Waiting, ...]) -> "Queue":
        return Queue(self.uid, self.last, waiting, self.heard)


class Enqueued(msgspec.Struct, frozen=True):
    """`superseded`: the report that the new one replaces. `forgotten`: workers not remembered any
    more. Without `is_new` nothing changed."""

    queue: Queue
    report: Report
    is_new: bool
    superseded: int | None = None
    forgotten: tuple[str, ...] = ()


def enqueue(
    queue: Queue, draft: Report, *, store_id: str, now: float, is_repeated: bool = False
) -> Enqueued:
    """`draft` has neither number nor store yet. `now`: seconds of the wall clock. `is_repeated`:
    sent on purpose once more, since what was acknowledged had no effect: only what waits still is
    the same report then."""
    digest = _digest(draft)
    last_word = queue.heard.get(draft.worker)
    is_said = last_word is not None and last_word.digest == digest
    if last_word is not None and is_said and not (is_repeated and _is_over(queue, last_word.seq)):
        report = replace(draft, store_id=store_id, seq=last_word.seq)
        return Enqueued(queue, report, is_new=False)
    seq = queue.last + 1
    report = replace(draft, store_id=store_id, seq=seq)
    index = replaced_by(report, [each.report for each in queue.waiting])
    superseded = None if index is None else queue.waiting[index].report.seq
    stays = tuple(each for each in queue.waiting if each.report.seq != superseded)
    heard = {**queue.heard, draft.worker: DedupKey(seq, digest)}
    by_age = sorted(heard, key=lambda worker: heard[worker].seq)
    forgotten = tuple(by_age[: max(0, len(heard) - MAX_WORKERS)])
    for worker in forgotten:
        del heard[worker]
    after = Queue(queue.uid, seq, (*stays, Waiting(report, now)), heard)
    return Enqueued(after, report, is_new=True, superseded=superseded, forgotten=forgotten)


def acknowledged(queue: Queue, seq: int) -> tuple[Queue, tuple[Waiting, ...]]:
    """Without this report and those before it; and which these are."""
    done = tuple(each for each in queue.waiting if each.report.seq <= seq)
    stays = tuple(each for each in queue.waiting if each.report.seq > seq)
    return queue.with_waiting(stays), done


def refused(queue: Queue, seq: int) -> tuple[Queue, tuple[Waiting, ...]]:
    """Without this report alone; none where it does not wait any more."""
    done = tuple(each for each in queue.waiting if each.report.seq == seq)
    stays = tuple(each for each in queue.waiting if each.report.seq != seq)
    return queue.with_waiting(stays), done


def restamped(queue: Queue, store_id: str) -> Queue:
    """The same reports of another store: the old one's are taken no more."""
    waiting = (
        Waiting(replace(each.report, store_id=store_id), each.queued_at) for each in queue.waiting
    )
    return queue.with_waiting(tuple(waiting))


def in_line(queue: Queue) -> Iterator[Report]:
    """What waits, in order; each names the one before it, so that none is taken out of turn."""
    previous = 0
    for waiting in queue.waiting:
        yield replace(waiting.report, previous=previous)
        previous = waiting.report.seq


def _is_over(queue: Queue, seq: int) -> bool:
    """It waits no more: it was acknowledged, or refused."""
    return all(each.report.seq != seq for each in queue.waiting)


def _digest(draft: Report) -> bytes:
    # An event and a cumulative report of the same words are two things.
    kind = b"event:" if draft.is_event else b"state:"
    return hashlib.sha256(kind + draft.body).digest()[:DIGEST_BYTES]


# Seconds: GM takes in what it receives within some, where it can.
FIRST_RESEND: Final = 300.0
LONGEST_RESEND: Final = 3600.0


class ResendSchedule(msgspec.Struct, frozen=True):
    """`pause`: seconds between the last telling and the next."""

    due_at: float
    pause: float = FIRST_RESEND

    @classmethod
    def begun(cls, now: float) -> Self:
        """Something new was sent."""
        return cls(now + FIRST_RESEND)

    def is_due(self, now: float) -> bool:
        return now >= self.due_at

    def repeated(self, now: float) -> "ResendSchedule":
        """It was sent once more."""
        pause = min(2 * self.pause, LONGEST_RESEND)
        return ResendSchedule(now + pause, pause)
