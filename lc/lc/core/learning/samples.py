"""Which new samples are for training and which for evaluation, and where they wait for their round.

Owns the split and the bookkeeping of spool files: segments. A segment's file may be longer than the
segment says, after a kill between writing and saving: what is beyond is not there, and the next
write goes over it. So a sample is in exactly one segment however often a step is repeated, and a
dataset that is truncated or rotated loses none that was taken.
"""

import math
from collections.abc import Sequence

import msgspec

# Sedna's capacity of evaluation samples: this round's version and the four before.
VERSIONS_KEPT = 5

# Binary fractions: 0.7 * 10 is 7.000000000000001, 0.29 * 100 is 28.999999999999996.
_ROUNDING = 1e-9


class Cursor(msgspec.Struct, frozen=True):
    """How far a dataset's file was read; `head` and `tail` prove that it is the same file still.

    They are digests of its first bytes and of those before `offset`. `ragged`: the length at the
    last look, if the last line had no end; it counts once it stays so. `validator` of a remote
    one: it has not changed.
    """

    url: str
    format: str
    offset: int = 0
    head: str = ""
    tail: str = ""
    ragged: int = 0
    validator: str = ""


class Segment(msgspec.Struct, frozen=True):
    """The first `size` bytes of a spool file, whole lines; `header` of the csv they came from."""

    name: str
    samples: int = 0
    size: int = 0
    header: str = ""


class Version(msgspec.Struct, frozen=True):
    """What came for evaluation before one round, and not before the one before it."""

    round: int
    segments: tuple[Segment, ...]


def for_training(new: int, *, before: int, probability: float) -> int:
    """How many of the `new` samples train: the first ones; the rest evaluates.

    Counted over all samples so far, so that those which come one by one are split as well; Sedna
    rounds each batch down, and a file that grows by a line at a time never trains there.
    """
    return _share(before + new, probability) - _share(before, probability)


def counted(segments: Sequence[Segment]) -> int:
    return sum(each.samples for each in segments)


def of_one_header(segments: Sequence[Segment]) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
    """The oldest ones that have the same columns, which can lie in one file; and the others."""
    same = 0
    while same < len(segments) and segments[same].header == segments[0].header:
        same += 1
    return tuple(segments[:same]), tuple(segments[same:])


def appended(segments: Sequence[Segment], grown: Segment) -> tuple[Segment, ...]:
    """`grown` continues the last segment or is a new one; an empty one is none."""
    if segments and segments[-1].name == grown.name:
        return (*segments[:-1], grown)
    return (*segments, grown) if grown.samples else tuple(segments)


def opened(segments: Sequence[Segment], header: str, *, name: str) -> Segment:
    """Where the next samples go: the last segment, unless its columns are others."""
    if segments and segments[-1].header == header:
        return segments[-1]
    return Segment(name, header=header)


def _share(samples: int, probability: float) -> int:
    return math.floor(samples * probability + _ROUNDING)
