"""What can happen to a learning job that is worth remembering.

Owns the words only: `state` says what each changes.
"""

from dataclasses import dataclass
from typing import Any

from lc.core.learning.objects.stage import Stage
from lc.core.learning.samples import Cursor, Segment, Version


@dataclass(frozen=True, slots=True)
class Worker:
    """`stage`: the word of Stage."""

    name: str
    stage: str
    round: int


@dataclass(frozen=True, slots=True)
class Gathered:
    """`train`, `evaluation`: the segments that grew, as they are now; `samples`: how many came."""

    cursor: Cursor
    samples: int = 0
    train: Segment | None = None
    evaluation: Segment | None = None


@dataclass(frozen=True, slots=True)
class TrainBegun:
    round: int
    used: tuple[Segment, ...]
    left: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class EvalBegun:
    round: int
    versions: tuple[Version, ...]


@dataclass(frozen=True, slots=True)
class DeployBegun:
    """Or found needless, or impossible: in any case asked and answered."""

    round: int


@dataclass(frozen=True, slots=True)
class GivenUp:
    """The stage cannot be begun in this round; samples stay as they are."""

    stage: Stage
    round: int


@dataclass(frozen=True, slots=True)
class HotUpdated:
    round: int


@dataclass(frozen=True, slots=True)
class Returned:
    """The round's training failed: its samples wait again. Not tried again before `not_before`."""

    round: int
    not_before: float


@dataclass(frozen=True, slots=True)
class Reported:
    """A worker said what became of its stage; `results` None: it failed, or nothing is to keep."""

    worker: Worker
    results: tuple[dict[str, Any], ...] | None


@dataclass(frozen=True, slots=True)
class SegmentsLost:
    """Spool files that are not there any more, whoever removed them."""

    names: frozenset[str]


Event = (
    Gathered
    | TrainBegun
    | EvalBegun
    | DeployBegun
    | GivenUp
    | HotUpdated
    | Returned
    | Reported
    | SegmentsLost
)
