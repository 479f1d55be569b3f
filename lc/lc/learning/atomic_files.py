"""Whole files or none: written beside their place, synced, renamed.

Guarantees: after a kill at any moment the target is what it was or what it was to become; one chunk
is in memory; a process that ends is not held up by a long copy.
"""

import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

CHUNK = 256 * 1024


class Halted(Exception):
    """The process ends; what was begun is done again by the next one."""


class Halt:
    """Asked between two chunks, in whatever thread."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def check(self) -> None:
        """Raises Halted."""
        if self._event.is_set():
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
    """Durable, with those above that were not there."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in missing:
        sync_folder(each.parent)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def chunks_of(source: Path, halt: Halt) -> Iterator[bytes]:
    with source.open("rb") as file:
        while chunk := file.read(CHUNK):
            halt.check()
            yield chunk


def chunks_between(file: BinaryIO, start: int, end: int, halt: Halt) -> Iterator[bytes]:
    """What stands from `start` up to `end`; less where the file ends before."""
    file.seek(start)
    left = end - start
    while left > 0 and (chunk := file.read(min(CHUNK, left))):
        halt.check()
        left -= len(chunk)
        yield chunk
