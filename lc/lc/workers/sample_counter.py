"""Counts the samples of one dataset: a file of the node in a thread, a remote one as it streams.

Guarantees: only what is new is read; never more of a file than a chunk is in memory; whatever is
wrong with it is a `CountFailed` that says what to do. Reads up to the size that the file had at
first: one that is being written is counted further next time.
"""

import asyncio
import os
import stat
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edge_sidecars.runtime.clock import boottime
from lc.core.sample_count import FORMATS, TAIL, Look, Position, SampleCounter
from lc.files.node_files import HostFiles
from lc.files.remote_files import Remote, RemoteError

CHUNK = 1024 * 1024
# Seconds without a byte, after which a disk is believed to hang.
PATIENCE = 30.0
# Seconds between two looks at whether a thread gets on.
LOOK_INTERVAL = 5.0


class CountFailed(Exception):
    """What is wrong with a dataset and what to do, in words for its owner."""


@dataclass(slots=True)
class Progress:
    """Of a thread; `is_left`: nobody waits for it any more, `is_over`: it has ended."""

    offset: int = 0
    is_left: bool = False
    is_over: bool = False


def check_format(text: str) -> None:
    """Raises `CountFailed`."""
    if text not in FORMATS:
        raise CountFailed(f"format {text!r:.40} is not supported: write {' or '.join(FORMATS)}")


async def count_local(host: HostFiles, kept: Position, progress: Progress) -> Position:
    """Raises `CountFailed`, also for a disk that hangs, whose thread is left behind."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Position] = loop.create_future()

    def told(position: Position | None, problem: Exception | None) -> None:
        if answer.done():
            return
        if position is not None:
            answer.set_result(position)
        else:
            answer.set_exception(problem or CountFailed(f"{kept.url}: counting ended unforeseen"))

    def count() -> None:
        position, problem = None, None
        try:
            # Also the way to it may lead over a disk that hangs.
            position = _counted(host.path(kept.url), kept, progress)
        except CountFailed as error:
            problem = error
        except OSError as error:
            problem = CountFailed(_told(kept.url, error))
        finally:
            progress.is_over = True
            if not loop.is_closed():
                loop.call_soon_threadsafe(told, position, problem)

    # Of its own, and a daemon: one that hangs keeps neither others nor the process's end waiting.
    threading.Thread(target=count, name="lc-dataset", daemon=True).start()
    try:
        return await _patiently(answer, progress, kept.url)
    finally:
        progress.is_left = True


async def count_remote(
    remote: Remote, kept: Position, secret: Mapping[str, str] | None
) -> Position:
    """Raises `CountFailed`."""
    try:
        async with remote.content(kept.url, secret, validator=kept.validator) as content:
            if content is None:
                return kept
            counter = SampleCounter(Position(kept.url, kept.format))
            async for chunk in content.chunks:
                counter.count(chunk)
            return counter.position(validator=content.validator)
    except RemoteError as error:
        raise CountFailed(str(error)) from error


async def _patiently(answer: "asyncio.Future[Position]", progress: Progress, url: str) -> Position:
    offset, moved_at = progress.offset, boottime()
    while True:
        await asyncio.wait({answer}, timeout=LOOK_INTERVAL)
        if answer.done():
            return answer.result()
        if progress.offset != offset:
            offset, moved_at = progress.offset, boottime()
        elif boottime() - moved_at >= PATIENCE:
            raise CountFailed(hanging(url))


def hanging(url: str) -> str:
    return f"{url}: the disk has not answered for {PATIENCE:g}s: see whether it is mounted"


def _counted(path: Path, kept: Position, progress: Progress) -> Position:
    # Nobody is there to write into a pipe, and a terminal is not to become ours.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        status = os.fstat(descriptor)
        _check_kind(status.st_mode, kept.url)
        look = Look(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if kept.is_current(look):
            return kept
        counter = _counter(descriptor, kept, look)
        while counter.offset < look.size and not progress.is_left:
            chunk = os.pread(descriptor, min(CHUNK, look.size - counter.offset), counter.offset)
            if not chunk:
                break  # truncated meanwhile: the next look will say so
            counter.count(chunk)
            progress.offset = counter.offset
        return counter.position(changed_at=look.changed_at)
    finally:
        os.close(descriptor)


def _counter(descriptor: int, kept: Position, look: Look) -> SampleCounter:
    """From where the last count stopped, if that is still what the file begins with."""
    if kept.may_follow(look):
        size = min(TAIL, kept.offset)
        before = os.pread(descriptor, size, kept.offset - size)
        if kept.follows(before):
            return SampleCounter(kept, before=before)
    return SampleCounter(kept.begun_anew(look))


def _check_kind(mode: int, url: str) -> None:
    if stat.S_ISDIR(mode):
        raise CountFailed(f"{url} is a directory: spec.url must name one file")
    if not stat.S_ISREG(mode):
        raise CountFailed(f"{url} is not a regular file: spec.url must name one")


def _told(url: str, error: OSError) -> str:
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return f"{url} does not exist on this node: create it, or correct spec.url"
        case PermissionError():
            return f"{url} may not be read by LC: give it read permission"
    return f"{url}: {error.strerror or error}"
