"""What is new in a dataset's file goes into the spool: the first part to train, the rest to judge.

Runs in a thread. Guarantees: a line is taken whole, and ends in a line feed whatever it ended in;
one without an end is taken only once the file has stayed so from one look to the next. A file that
is not the one that was read before (truncated, rotated, another one) is read from its beginning;
what was taken before stays taken. Nothing is held but chunks, and one look takes a bounded part.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec.structs import replace

from lc.core.learning.commands import Gather
from lc.core.learning.samples import Cursor, Segment, for_training, opened
from lc.core.learning.state import Gathered
from lc.learning.spool import CHUNK, Halt, Spool, chunks_between

# Bytes taken in one step: what a kill makes us do again.
LIMIT = 64 * 1024 * 1024
# Bytes at both ends of what was read that tell a file from another.
PROOF = 4096
# Bytes; what does not end by then is no line: a file with a hole of terabytes has none, and the
# words of one line are in memory at a time. A line may be longer by the rest of a chunk.
LONGEST_LINE = 1024 * 1024


class Unreadable(Exception):
    """Not a file of samples; the message says why."""


class GatherResult(msgspec.Struct, frozen=True):
    """`is_all`: the file holds nothing more that could be taken now."""

    gathered: Gathered
    is_all: bool


class _Lines(msgspec.Struct, frozen=True):
    """`count` lines from `start` up to `end`; `marks`: how many had ended after each chunk."""

    start: int
    end: int
    count: int
    marks: tuple[int, ...]
    is_ragged: bool


def gather(path: Path, command: Gather, spool: Spool, halt: Halt) -> GatherResult:
    """Of a file of LC's own. Raises OSError, Unreadable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        return gather_from(file, command, spool, halt)


def gather_from(file: BinaryIO, command: Gather, spool: Spool, halt: Halt) -> GatherResult:
    """Raises OSError, Unreadable."""
    found = os.fstat(file.fileno())
    if not stat.S_ISREG(found.st_mode):
        raise Unreadable("it is no file")
    cursor = command.cursor
    if not _is_same(file, cursor, found.st_size):
        cursor = Cursor(cursor.url, cursor.format)
    header = _header(file) if cursor.format == "csv" else b""
    if header is None:
        return GatherResult(Gathered(replace(cursor, ragged=found.st_size)), is_all=True)
    start = max(cursor.offset, len(header))
    lines = _lines(file, _after_end(file, start), found.st_size, halt)
    settled = lines.is_ragged and cursor.ragged == found.st_size
    if settled:
        lines = replace(lines, end=found.st_size, count=lines.count + 1, is_ragged=False)
    gathered = _take(file, lines, header.decode(errors="replace"), command, spool, halt)
    cursor = replace(
        cursor,
        offset=lines.end,
        head=_digest(file, 0, min(PROOF, lines.end)),
        tail=_digest(file, max(0, lines.end - PROOF), lines.end),
        ragged=found.st_size if lines.is_ragged else 0,
    )
    is_all = lines.is_ragged or lines.end >= found.st_size
    return GatherResult(replace(gathered, cursor=cursor), is_all)


def _take(
    file: BinaryIO, lines: _Lines, header: str, command: Gather, spool: Spool, halt: Halt
) -> Gathered:
    count = lines.count
    if not count:
        return Gathered(command.cursor)
    header = header.rstrip("\r\n")
    training = for_training(count, before=command.gathered, probability=command.train_probability)
    border = _end_of_line(file, lines, training)

    def taken(segments: tuple[Segment, ...], use: str, start: int, end: int, n: int) -> Segment:
        target = opened(segments, header, name=f"{command.named}.{use}.samples")
        return spool.append(target, _plain(chunks_between(file, start, end, halt)), n)

    train = evaluation = None
    if training:
        train = taken(command.train, "train", lines.start, border, training)
    if count > training:
        evaluation = taken(command.evaluation, "eval", border, lines.end, count - training)
    return Gathered(command.cursor, count, train, evaluation)


def _is_same(file: BinaryIO, cursor: Cursor, size: int) -> bool:
    if size < cursor.offset:
        return False
    if not cursor.offset:
        return True
    head = _digest(file, 0, min(PROOF, cursor.offset))
    return (head, _digest(file, max(0, cursor.offset - PROOF), cursor.offset)) == (
        cursor.head,
        cursor.tail,
    )


def _digest(file: BinaryIO, start: int, end: int) -> str:
    file.seek(start)
    return hashlib.sha256(file.read(end - start)).hexdigest()[:32]


def _header(file: BinaryIO) -> bytes | None:
    """The first line with its end; None: it is not whole yet."""
    file.seek(0)
    line = file.readline(LONGEST_LINE)
    if line.endswith(b"\n"):
        return line
    if len(line) == LONGEST_LINE:
        raise Unreadable(f"its first line does not end within {LONGEST_LINE} bytes")
    return None


def _after_end(file: BinaryIO, offset: int) -> int:
    """Where the next line begins: the end of one that was taken without it may have come since."""
    if not offset:
        return 0
    file.seek(offset - 1)
    around = file.read(3)
    if around.startswith(b"\n"):
        return offset
    ends = (2 if around.endswith(b"\r\n") else 0) or (1 if around[1:2] == b"\n" else 0)
    return offset + ends


def _lines(file: BinaryIO, start: int, size: int, halt: Halt) -> _Lines:
    """Goes past the limit only to end the line that it is in. Raises Unreadable where that does
    not end, and nothing before it is new."""
    end, count, marks, at = start, 0, [], start
    for chunk in chunks_between(file, start, size, halt):
        count += chunk.count(b"\n")
        marks.append(count)
        last = chunk.rfind(b"\n")
        if last >= 0:
            end = at + last + 1
        at += len(chunk)
        is_long = at - end > LONGEST_LINE
        if end > start and (is_long or at - start >= LIMIT):
            return _Lines(start, end, count, tuple(marks), is_ragged=False)
        if is_long:
            raise Unreadable(f"a line from byte {end} on does not end within {LONGEST_LINE} bytes")
    return _Lines(start, end, count, tuple(marks), is_ragged=at > end)


def _end_of_line(file: BinaryIO, lines: _Lines, number: int) -> int:
    """Where the line of this number ends, counted from 1."""
    if not number:
        return lines.start
    if number >= lines.count:
        return lines.end
    place = next(index for index, ended in enumerate(lines.marks) if ended >= number)
    before = lines.marks[place - 1] if place else 0
    at = lines.start + place * CHUNK
    file.seek(at)
    chunk = file.read(CHUNK)
    end = -1
    for _ in range(number - before):
        end = chunk.index(b"\n", end + 1)
    return at + end + 1


def _plain(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Lines that all end, in \\n (as Sedna writes them)."""
    held, last = b"", b"\n"
    for chunk in chunks:
        chunk = held + chunk
        held = b"\r" if chunk.endswith(b"\r") else b""
        plain = (chunk[:-1] if held else chunk).replace(b"\r\n", b"\n")
        last = plain[-1:] or last
        yield plain
    if held or last != b"\n":
        yield b"\n"
