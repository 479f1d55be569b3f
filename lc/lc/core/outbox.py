"""The reports of one object that wait for GM, and how they are numbered (G3).

Guarantees: `seq` only grows, over acknowledgements and restarts; what a report replaces, and what
not, is said in `edge_sidecars.sedna_api.core.report`; the same words again from the same worker are
the same report, whether it still waits or not.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from edge_sidecars.sedna_api.core.report import Report, replaced_by

# Workers of one object whose last words are remembered: more than any job has at a time.
MAX_WORKERS = 64
DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class DedupKey:
    """What a worker said last."""

    seq: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class ReportBody:
    """What is to be told of one object."""

    kind: str
    namespace: str
    name: str
    is_event: bool
    worker: str
    body: bytes

    @property
    def digest(self) -> bytes:
        # An event and a cumulative report of the same words are two things.
        kind = b"event:" if self.is_event else b"state:"
        return hashlib.sha256(kind + self.body).digest()[:DIGEST_BYTES]


@dataclass(frozen=True, slots=True)
class Waiting:
    """`queued_at` in seconds of the wall clock: for people."""

    report: Report
    queued_at: float


@dataclass(frozen=True, slots=True)
class Queue:
    """Of one object: `last` is the highest number ever given; `waiting` in the order of numbers."""

    uid: str
    last: int = 0
    waiting: tuple[Waiting, ...] = ()
    heard: Mapping[str, DedupKey] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Enqueued:
    """`superseded`: the report that the new one replaces. `forgotten`: workers not remembered any
    more. Without `is_new` nothing changed."""

    queue: Queue
    report: Report
    is_new: bool
    superseded: int | None = None
    forgotten: tuple[str, ...] = ()


def enqueue(
    queue: Queue, said: ReportBody, *, store_id: str, now: float, is_repeated: bool = False
) -> Enqueued:
    """`now`: seconds of the wall clock. `is_repeated`: said on purpose once more, since what was
    acknowledged had no effect: only what waits still is the same report then."""
    digest = said.digest
    last_word = queue.heard.get(said.worker)
    is_said = last_word is not None and last_word.digest == digest
    if last_word is not None and is_said and not (is_repeated and _is_over(queue, last_word.seq)):
        return Enqueued(queue, _report(queue, said, store_id, last_word.seq), is_new=False)
    seq = queue.last + 1
    report = _report(queue, said, store_id, seq)
    index = replaced_by(report, [each.report for each in queue.waiting])
    superseded = None if index is None else queue.waiting[index].report.seq
    stays = tuple(each for each in queue.waiting if each.report.seq != superseded)
    heard = {**queue.heard, said.worker: DedupKey(seq, digest)}
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
    return replace(queue, waiting=stays), done


def refused(queue: Queue, seq: int) -> tuple[Queue, tuple[Waiting, ...]]:
    """Without this report alone; none where it does not wait any more."""
    done = tuple(each for each in queue.waiting if each.report.seq == seq)
    stays = tuple(each for each in queue.waiting if each.report.seq != seq)
    return replace(queue, waiting=stays), done


def restamped(queue: Queue, store_id: str) -> Queue:
    """The same reports of another store: the old one's are taken no more."""
    waiting = tuple(
        replace(each, report=replace(each.report, store_id=store_id)) for each in queue.waiting
    )
    return replace(queue, waiting=waiting)


def in_line(queue: Queue) -> Iterator[Report]:
    """What waits, in order; each names the one before it, so that none is taken out of turn."""
    previous = 0
    for waiting in queue.waiting:
        yield replace(waiting.report, previous=previous)
        previous = waiting.report.seq


def _is_over(queue: Queue, seq: int) -> bool:
    """It waits no more: it was acknowledged, or refused."""
    return all(each.report.seq != seq for each in queue.waiting)


def _report(queue: Queue, said: ReportBody, store_id: str, seq: int) -> Report:
    return Report(
        store_id=store_id,
        seq=seq,
        uid=queue.uid,
        kind=said.kind,
        namespace=said.namespace,
        name=said.name,
        is_event=said.is_event,
        worker=said.worker,
        body=said.body,
    )
