"""What the shell is to do for a job, and what is sent to GM once it is done.

Each task can be done again after a kill, with the same result: a file is written under another
name and takes its place when it is whole. Only after all tasks of an `Advance` are done, its event
is saved, and the report with it.
"""

from datetime import datetime

import msgspec

from lc.core.learning.job import FileLocation, Stage
from lc.core.learning.samples import Cursor, Segment
from lc.core.learning.state import Event

Body = dict[str, object]


class WriteSamples(msgspec.Struct, frozen=True):
    """Their header first, if they have one."""

    segments: tuple[Segment, ...]
    target: FileLocation


class WriteIndex(msgspec.Struct, frozen=True):
    """The files that samples name, one a line, after `prefix`, where these lie."""

    segments: tuple[Segment, ...]
    prefix: str
    target: FileLocation


class MakeFolder(msgspec.Struct, frozen=True):
    place: FileLocation


class CopyModel(msgspec.Struct, frozen=True):
    source: FileLocation
    target: FileLocation


class WriteHotUpdate(msgspec.Struct, frozen=True):
    """The file by which an inference worker learns of a new model: `model_path` as it sees it."""

    target: FileLocation
    model_path: str
    updated: str


Task = WriteSamples | WriteIndex | MakeFolder | CopyModel | WriteHotUpdate


class Idle(msgspec.Struct, frozen=True):
    """Nothing to do until something changes, or for `seconds`; `note` for people.

    `judged_round`: the train trigger of this round was judged just now, and did not fire.
    """

    note: str
    seconds: float | None = None
    judged_round: int = 0


class Gather(msgspec.Struct, frozen=True, kw_only=True):
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


class Advance(msgspec.Struct, frozen=True):
    """Do the tasks in order, if any, then save the event and the report together."""

    event: Event
    reason: str
    report: Body | None = None
    tasks: tuple[Task, ...] = ()


class Repeat(msgspec.Struct, frozen=True):
    """Tell GM again what it seems to have lost."""

    report: bytes


Command = Idle | Gather | Advance | Repeat


class LoopPace(msgspec.Struct, frozen=True):
    """When this process looked last: at the data, and at the train trigger of a round.

    `told`: when GM last got something, or this process began; `repeats`: how often since.
    """

    gathered: datetime | None = None
    judged: datetime | None = None
    judged_round: int = 0
    told: datetime | None = None
    repeats: int = 0


# Why a stage failed, in the word of its condition: something that is named is not the job's, or not
# LC's to touch.
FOREIGN_PATH = "ForeignPath"


def report_of(
    stage: Stage,
    number: int,
    status: str,
    *,
    message: str = "",
    given: Body | None = None,
    reason: str = "",
) -> Body:
    """An event of a stage, as GM reads it; `status` Ready|Completed|Failed, `given` the input."""
    body: Body = {"phase": stage.value, "status": status, "round": number}
    if reason:
        body["reason"] = reason
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
