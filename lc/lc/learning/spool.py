"""Samples that wait for their round, in files that only LC touches: `<data dir>/learning/<uid>/`.

A segment is the beginning of such a file. What follows it in the file is of a step that was not
saved, and is written over. Guarantees: what `append` returned is on disk; nothing that the state
names is removed here.
"""

import errno
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from lc.core.learning.samples import Segment
from lc.learning.atomic_files import Halt, chunks_between, make_folder, sync_folder

# Where the place of a job's hot updates is written down, for whoever tidies up after it.
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
