"""Files of LC's own: written whole or not at all; and samples that wait for their round.

These lie in files that only LC touches, `<data dir>/samples/<uid>/`. A segment is the beginning of
such a file; what follows it there is of a step that was not saved, and is written over. Guarantees:
After a kill at any moment a target is what it was or what it was to become. What `append` returned
is on disk. Nothing that the state names is removed here. One chunk is in memory. A process that
ends is not held up by a long copy.
"""

import errno
import os
import stat
import threading
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from msgspec.structs import replace

from lc.core.learning.samples import Segment
from lc.files.file_thread import Progress

CHUNK = 256 * 1024
# The mode of the spool's folders.
PRIVATE = 0o700


class Halted(Exception):
    """The process ends; what was begun is done again by the next one."""


class Halt:
    """Asked between two chunks, in whatever thread. `process`: that of the whole process, which
    halts this one too; `progress`: of the thread that asks, which is halted once it is left."""

    def __init__(self, process: "Halt | None" = None, progress: Progress | None = None) -> None:
        self._event = threading.Event()
        self._process = process
        self._progress = progress

    def set(self) -> None:
        self._event.set()

    @property
    def is_set(self) -> bool:
        is_process_halted = self._process is not None and self._process.is_set
        is_left = self._progress is not None and self._progress.is_left
        return self._event.is_set() or is_process_halted or is_left

    def check(self) -> None:
        """Raises Halted."""
        if self._progress is not None:
            self._progress.steps += 1
        if self.is_set:
            raise Halted


def write_whole(target: Path, chunks: Iterable[bytes]) -> None:
    """Makes the folders above it. Raises OSError."""
    make_folder(target.parent)
    partial = target.with_name(f".{target.name}.partial")
    try:
        with partial.open("wb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(target.parent)


def make_folder(folder: Path) -> None:
    """Durable, with those above that were not there. For this user alone: what is copied into it
    may come from files that others cannot read."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    if stat.S_IMODE(folder.stat().st_mode) != PRIVATE:  # of an earlier release
        folder.chmod(PRIVATE)
    for each in missing:
        sync_folder(each.parent)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def chunks_of(file: BinaryIO, halt: Halt) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        halt.check()
        yield chunk


def chunks_between(file: BinaryIO, start: int, end: int, halt: Halt) -> Iterator[bytes]:
    """What is there from `start` up to `end`; less where the file ends before."""
    file.seek(start)
    left = end - start
    while left > 0 and (chunk := file.read(min(CHUNK, left))):
        halt.check()
        left -= len(chunk)
        yield chunk


# Where the place of a job's hot updates is written down, for what tidies up after it.
HOT_UPDATE = "hot-update"


class Spool:
    """Of one job."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def append(self, segment: Segment, chunks: Iterable[bytes], samples: int) -> Segment:
        """The segment as it is then. Raises OSError."""
        make_folder(self.folder)
        path = self.folder / segment.name
        is_new = not path.exists()
        size = segment.size
        with path.open("wb" if is_new or not segment.size else "r+b") as file:
            _check(file, segment)
            file.seek(segment.size)
            file.truncate()
            for chunk in chunks:
                file.write(chunk)
                size += len(chunk)
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            sync_folder(self.folder)
        return replace(segment, samples=segment.samples + samples, size=size)

    def read(self, segments: Iterable[Segment], halt: Halt) -> Iterator[bytes]:
        for segment in segments:
            with (self.folder / segment.name).open("rb") as file:
                _check(file, segment)
                yield from chunks_between(file, 0, segment.size, halt)

    def lines(self, segments: Iterable[Segment], halt: Halt) -> Iterator[bytes]:
        """Without their ends."""
        for segment in segments:
            left = segment.size
            with (self.folder / segment.name).open("rb") as file:
                _check(file, segment)
                while left > 0 and (line := file.readline(left)):
                    halt.check()
                    left -= len(line)
                    yield line.rstrip(b"\n")

    def keep(self, names: Collection[str]) -> None:
        """Removes the other spool files."""
        for path in self._files():
            if path.name not in names:
                path.unlink(missing_ok=True)

    def lost(self, segments: Iterable[Segment]) -> frozenset[str]:
        """Names of those of which not everything is there."""
        sizes = {path.name: path.stat().st_size for path in self._files()}
        return frozenset(each.name for each in segments if sizes.get(each.name, -1) < each.size)

    def _files(self) -> list[Path]:
        if not self.folder.exists():
            return []
        return [each for each in self.folder.iterdir() if each.suffix == ".samples"]


def _check(file: BinaryIO, segment: Segment) -> None:
    if os.fstat(file.fileno()).st_size < segment.size:
        raise OSError(errno.ENODATA, "samples are missing", segment.name)
