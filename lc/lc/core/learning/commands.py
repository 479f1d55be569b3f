"""What the shell is to do for a job, and what is told to GM once it is done.

Each task can be done again after a kill, with the same result: a file is written under another
name and takes its place when it is whole. Only after all tasks of a `Begin` are done, its event is
saved, and the report with it.
"""

from dataclasses import dataclass
from datetime import datetime

import msgspec

from lc.core.learning.events import Event
from lc.core.learning.objects.stage import Stage
from lc.core.learning.samples import Cursor, Segment

Body = dict[str, object]


@dataclass(frozen=True, slots=True)
class FileLocation:
    """A path below the node's root, or an address; `credential`: the Secret that opens it."""

    url: str
    credential: str = ""


@dataclass(frozen=True, slots=True)
class WriteSamples:
    """Their header first, if they have one."""

    segments: tuple[Segment, ...]
    target: FileLocation


@dataclass(frozen=True, slots=True)
class WriteIndex:
    """The files that samples name, one a line, after `prefix`, where these lie."""

    segments: tuple[Segment, ...]
    prefix: str
    target: FileLocation


@dataclass(frozen=True, slots=True)
class MakeFolder:
    place: FileLocation


@dataclass(frozen=True, slots=True)
class CopyModel:
    source: FileLocation
    target: FileLocation


@dataclass(frozen=True, slots=True)
class WriteHotUpdate:
    """The file by which an inference worker learns of a new model: `model_path` as it sees it."""

    target: FileLocation
    model_path: str
    updated: str


Task = WriteSamples | WriteIndex | MakeFolder | CopyModel | WriteHotUpdate


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing to do until something changes, or for `seconds`; `note` for people.

    `judged_round`: the train trigger of this round was judged just now, and did not fire.
    """

    note: str
    seconds: float | None = None
    judged_round: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather:
    """Take what is new in the dataset into the spool.

    `train`, `evaluation`: what waits already; `named`: how new spool files begin.
    """

    source: FileLocation
    cursor: Cursor
    train: tuple[Segment, ...]
    evaluation: tuple[Segment, ...]
    named: str
    gathered: int
    train_probability: float


@dataclass(frozen=True, slots=True)
class Note:
    """Something to remember, and perhaps to tell."""

    event: Event
    reason: str
    report: Body | None = None


@dataclass(frozen=True, slots=True)
class Begin:
    """Do the tasks in order, then save the event and the report together."""

    tasks: tuple[Task, ...]
    event: Event
    reason: str
    report: Body | None = None


@dataclass(frozen=True, slots=True)
class Repeat:
    """Tell GM again what it seems to have lost."""

    report: bytes


Command = Idle | Gather | Note | Begin | Repeat


@dataclass(frozen=True, slots=True)
class LoopPace:
    """When this process looked last: at the data, and at the train trigger of a round.

    `told`: when GM was told something last, or this process began; `repeats`: how often since.
    """

    gathered: datetime | None = None
    judged: datetime | None = None
    judged_round: int = 0
    told: datetime | None = None
    repeats: int = 0


def report_of(
    stage: Stage, number: int, status: str, *, message: str = "", given: Body | None = None
) -> Body:
    """An event of a stage, as GM reads it; `status` Ready|Completed|Failed, `given` the input."""
    body: Body = {"phase": stage.value, "status": status, "round": number}
    if given is not None:
        body["input"] = given
    if message:
        body["message"] = message
    return body


def problem_report(stage: Stage, number: int, problem: str) -> Body:
    """Something that LC goes on trying; an empty text ends it."""
    return {"phase": stage.value, "round": number, "problem": problem}


def encoded(body: Body) -> bytes:
    """One fact, one text: a repeated report is known by its bytes."""
    return msgspec.json.encode(body, order="deterministic")
