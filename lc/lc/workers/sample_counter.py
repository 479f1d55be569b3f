"""Counts the samples of one dataset: a file of the node in a thread, a remote one as it streams.

Guarantees: only what is new is read; never more of a file than a chunk is in memory; whatever is
wrong with it is a `CountFailed` that says what to do. Reads up to the size that the file had at
first: one that is being written is counted further next time.
"""

import os
from collections.abc import Callable, Mapping

from edge_sidecars.runtime.clock import boottime
from edge_sidecars.sedna_api.core.file_url import FileUrl, InvalidUrl, parse_url
from lc.core.sample_count import FORMATS, TAIL, Look, Position, SampleCounter
from lc.files.file_thread import Hanging, Progress, in_file_thread
from lc.files.host_files import ForeignPath, HostFiles, NotAFile
from lc.files.remote_files import Remote, RemoteError

CHUNK = 1024 * 1024
# Seconds without a byte, after which a disk is believed to hang.
PATIENCE = 30.0
# Seconds that one look may read before it is the turn of others; the next one goes on from there.
TURN = 30.0


class CountFailed(Exception):
    """What is wrong with a dataset and what to do, in words for its owner."""


def checked(url: str, form: str) -> FileUrl:
    """Raises `CountFailed` that names the field."""
    if form not in FORMATS:
        raise CountFailed(
            f"InvalidSpec: spec.format: format {form!r:.40} is not supported: write "
            f"{' or '.join(FORMATS)}"
        )
    try:
        return parse_url(url)
    except InvalidUrl as error:
        raise CountFailed(f"InvalidSpec: spec.url: {error}: correct it") from error


async def count_local(host: HostFiles, kept: Position, progress: Progress) -> tuple[Position, bool]:
    """Also whether that is all. Raises `CountFailed`, also for a disk that hangs, whose thread is
    left behind."""
    try:
        # Also the way to it may lead over a disk that hangs.
        return await in_file_thread(
            lambda: _counted(host, kept, progress), progress, patience=PATIENCE
        )
    except Hanging as error:
        raise CountFailed(f"{kept.url}: {error}") from error
    except NotAFile as error:
        raise CountFailed(f"{error}: spec.url must name one file") from error
    except ForeignPath as error:
        raise CountFailed(f"ForeignPath: {error}") from error
    except OSError as error:
        raise CountFailed(_told(kept.url, error)) from error


async def count_remote(
    remote: Remote,
    kept: Position,
    secret: Mapping[str, str] | None,
    *,
    begins: Callable[[], None],
) -> Position:
    """`begins` is called once its host is asked. Raises `CountFailed`."""
    try:
        asked = remote.content(kept.url, secret, validator=kept.validator, begins=begins)
        async with asked as content:
            if content is None:
                return kept
            counter = SampleCounter(Position(kept.url, kept.format))
            async for chunk in content.chunks:
                counter.count(chunk)
            return counter.position(validator=content.validator)
    except RemoteError as error:
        raise CountFailed(str(error)) from error


def hanging(url: str) -> str:
    return f"{url}: {Hanging(PATIENCE)}"


def _counted(host: HostFiles, kept: Position, progress: Progress) -> tuple[Position, bool]:
    until = boottime() + TURN
    descriptor = host.open(kept.url)
    try:
        status = os.fstat(descriptor)
        look = Look(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if kept.is_current(look):
            return kept, True
        counter = _counter(descriptor, kept, look)
        is_whole = True
        while counter.offset < look.size and not progress.is_left:
            if boottime() >= until:
                is_whole = False
                break
            chunk = os.pread(descriptor, min(CHUNK, look.size - counter.offset), counter.offset)
            if not chunk:
                break  # truncated meanwhile: the next look will say so
            counter.count(chunk)
            progress.steps += 1
        return counter.position(changed_at=look.changed_at), is_whole
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


def _told(url: str, error: OSError) -> str:
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return f"{url} does not exist on this node: create it, or correct spec.url"
        case PermissionError():
            return f"{url} may not be read by LC: give it read permission"
    return f"{url}: {error.strerror or error}"
