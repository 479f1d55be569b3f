"""What LC remembers of one job, for as long as the job lives and a day longer.

Owns the facts, what can happen that is worth remembering, and how each event changes the facts, all
at once; the shell saves the result together with the report that follows from it. Conditions say
where a job is; the state says which samples went where, what was asked of GM already, and what
workers said, so that a restart, also while cut off, repeats nothing and loses nothing.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from lc.core.learning.job import Stage
from lc.core.learning.samples import VERSIONS_KEPT, Cursor, Segment, Version, appended


class Worker(msgspec.Struct, frozen=True):
    """`stage`: the word of Stage."""

    name: str
    stage: str
    round: int


class Gathered(msgspec.Struct, frozen=True):
    """`train`, `evaluation`: the segments that grew, as they are now; `samples`: how many came."""

    cursor: Cursor
    samples: int = 0
    train: Segment | None = None
    evaluation: Segment | None = None


class TrainBegun(msgspec.Struct, frozen=True):
    round: int
    used: tuple[Segment, ...]
    left: tuple[Segment, ...]


class EvalBegun(msgspec.Struct, frozen=True):
    round: int
    versions: tuple[Version, ...]


class StageAnswered(msgspec.Struct, frozen=True):
    """It is deployed; or found needless, or impossible in this round: samples stay as they are."""

    stage: Stage
    round: int


class HotUpdated(msgspec.Struct, frozen=True):
    round: int


class Returned(msgspec.Struct, frozen=True):
    """The round's training failed: its samples wait again. Not tried again before `not_before`."""

    round: int
    not_before: float


class Reported(msgspec.Struct, frozen=True):
    """A worker reported what became of its stage; `results` None: it failed, or nothing is to
    keep."""

    worker: Worker
    results: tuple[dict[str, Any], ...] | None


class SegmentsLost(msgspec.Struct, frozen=True):
    """Spool files that are not there any more."""

    names: frozenset[str]


Event = (
    Gathered
    | TrainBegun
    | EvalBegun
    | StageAnswered
    | HotUpdated
    | Returned
    | Reported
    | SegmentsLost
)


# Names of workers whose round is known: more than the pods of a round that are restarted.
WORKERS_KEPT = 16


class StageOutcome(msgspec.Struct, frozen=True):
    """A worker's success: what it left, in its own words."""

    round: int
    results: tuple[dict[str, Any], ...]


class LastReport(msgspec.Struct, frozen=True):
    """The last report of LC about a stage, word for word."""

    stage: str
    round: int
    report: bytes


class Lent(msgspec.Struct, frozen=True):
    """Samples that a training has, which succeeds or gives them back."""

    round: int
    segments: tuple[Segment, ...]


class State(msgspec.Struct, frozen=True, kw_only=True):
    """`gathered` counts samples, `named` spool files ever named; `*_asked`: rounds, 0 none.

    `failed`: the newest round of each stage of which a worker reported so.
    """

    cursor: Cursor | None = None
    gathered: int = 0
    named: int = 0
    train: tuple[Segment, ...] = ()
    lent: Lent | None = None
    fresh: tuple[Segment, ...] = ()
    versions: tuple[Version, ...] = ()
    train_asked: int = 0
    eval_asked: int = 0
    deploy_asked: int = 0
    hot_updated: int = 0
    trained: StageOutcome | None = None
    evaluated: StageOutcome | None = None
    failed: dict[str, int] = msgspec.field(default_factory=dict)
    workers: tuple[Worker, ...] = ()
    said: LastReport | None = None
    failures: int = 0
    not_before: float = 0

    @classmethod
    def decode(cls, saved: bytes | None) -> "State":
        """Raises ValueError for what no LC of ours saved."""
        return cls() if saved is None else msgspec.json.decode(saved, type=cls)

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    @property
    def spool_files(self) -> frozenset[str]:
        """The others in the job's spool are left over."""
        return frozenset(each.name for each in self.segments)

    def saying(self, stage: str, number: int, report: bytes) -> "State":
        return replace(self, said=LastReport(stage, number, report))

    def after(self, event: Event) -> "State":
        """The only way in which anything here changes."""
        match event:
            case Gathered():
                return self._after_gathering(event)
            case TrainBegun(number, used, left):
                lent = Lent(number, used)
                return replace(self, train_asked=number, lent=lent, train=left)
            case EvalBegun(number, versions):
                kept = versions[-VERSIONS_KEPT:]
                return replace(self, eval_asked=number, versions=kept, fresh=())
            case StageAnswered(Stage.TRAIN, number):
                return replace(self, train_asked=number)
            case StageAnswered(Stage.EVAL, number):
                return replace(self, eval_asked=number)
            case StageAnswered(_, number):
                return replace(self, deploy_asked=number)
            case HotUpdated(number):
                return replace(self, hot_updated=number)
            case Returned(number, not_before):
                back = self.lent.segments if self.lent and self.lent.round == number else ()
                failures = self.failures + 1
                return replace(
                    self,
                    train=(*back, *self.train),
                    lent=None,
                    failures=failures,
                    not_before=not_before,
                )
            case Reported(worker, results):
                return self._after_report(worker, results)
            case SegmentsLost(names):
                return self._without(names)

    def _after_gathering(self, event: Gathered) -> "State":
        train, fresh = self.train, self.fresh
        if event.train is not None:
            train = appended(train, event.train)
        if event.evaluation is not None:
            fresh = appended(fresh, event.evaluation)
        return replace(
            self,
            cursor=event.cursor,
            gathered=self.gathered + event.samples,
            named=self.named + (event.samples > 0),
            train=train,
            fresh=fresh,
        )

    def _after_report(self, worker: Worker, results: tuple[dict[str, Any], ...] | None) -> "State":
        others = tuple(each for each in self.workers if each.name != worker.name)
        changed = replace(self, workers=(*others, worker)[-WORKERS_KEPT:])
        if results is None:
            return replace(changed, failed={**self.failed, worker.stage: worker.round})
        outcome = StageOutcome(worker.round, results)
        if worker.stage == Stage.TRAIN.value:
            is_lent = self.lent is not None and self.lent.round == worker.round
            lent = None if is_lent else self.lent
            return replace(changed, trained=outcome, lent=lent, failures=0, not_before=0)
        if worker.stage == Stage.EVAL.value:
            return replace(changed, evaluated=outcome)
        return changed

    def _without(self, names: frozenset[str]) -> "State":
        def kept(segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
            return tuple(each for each in segments if each.name not in names)

        lent = self.lent and Lent(self.lent.round, kept(self.lent.segments))
        versions = (Version(each.round, kept(each.segments)) for each in self.versions)
        return replace(
            self,
            train=kept(self.train),
            lent=lent,
            fresh=kept(self.fresh),
            versions=tuple(each for each in versions if each.segments),
        )

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All that are kept, wherever they belong."""
        lent = self.lent.segments if self.lent else ()
        versions = (each.segments for each in self.versions)
        return (*self.train, *lent, *self.fresh, *(each for some in versions for each in some))
