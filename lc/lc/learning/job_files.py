"""What the core's commands mean on disk, below the files roots or elsewhere.

Each may be done again, with the same result. Guarantees: A path never leads out of the files roots,
and one that lies in the job's outputDir never out of that, whatever links its workers lay there.
What is copied as a worker's is the job's own. What was written is durable and whole. Everything is
streamed. Whatever goes wrong is a `TaskFailed` that says where, or `ForeignPath`. A disk that hangs
holds up the job whose file it is, and no other.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec
from msgspec.structs import replace

from lc.core.learning.commands import (
    CopyModel,
    Gather,
    MakeFolder,
    Task,
    WriteHotUpdate,
    WriteIndex,
    WriteSamples,
)
from lc.core.learning.job import FileLocation, Job
from lc.core.learning.paths import is_below, is_remote
from lc.core.learning.state import Gathered
from lc.files.file_thread import Hanging, Progress, in_file_thread
from lc.files.host_files import ForeignPath, NotAFile
from lc.files.node_files import FileSources
from lc.files.remote_files import RemoteError
from lc.learning.gathering import GatherResult, Unreadable, gather_from
from lc.learning.spool import HOT_UPDATE, Halt, Halted, Spool, chunks_of, make_folder, write_whole

T = TypeVar("T")
# Opens what is to be read, in the thread that reads it.
Opener = Callable[[], BinaryIO]

# Threads for files: a long copy of one job must not hold up the others, nor all of them the node.
THREADS = 4
# Seconds without a chunk, after which a disk is believed to hang: a large file is synced for long.
PATIENCE = 120.0


class TaskFailed(Exception):
    """It may be tried again; the message says what it was about and what is wrong."""


class SharedFiles(msgspec.Struct, frozen=True):
    """What all jobs share. `slots`: for threads that work on files; `halt` stops them; `max_size`
    bytes of a file that is copied."""

    sources: FileSources
    slots: asyncio.Semaphore
    halt: Halt = msgspec.field(default_factory=Halt)
    max_size: int = 16 * 1024**3


class JobFiles:
    """Of one job of this namespace; what is under way is in the spool's folder."""

    def __init__(self, shared: SharedFiles, namespace: str, spool: Spool) -> None:
        self._shared = shared
        self._namespace = namespace
        self._spool = spool
        self._progress = Progress()

    async def in_thread(self, work: Callable[[Halt], T]) -> T:
        """Raises TaskFailed for what the disk says, ForeignPath."""
        if not self._progress.is_over:
            raise TaskFailed(str(Hanging(PATIENCE)))
        async with self._shared.slots:
            progress = self._progress = Progress()
            halt = Halt(self._shared.halt, progress)
            try:
                return await in_file_thread(lambda: work(halt), progress, patience=PATIENCE)
            except OSError as error:
                raise TaskFailed(f"{error.filename or 'the disk'}: {error.strerror}") from error
            except (Hanging, NotAFile) as error:
                raise TaskFailed(str(error)) from error
            except Halted as error:
                raise TaskFailed("LC ends") from error

    async def gather(self, command: Gather) -> GatherResult:
        """Raises TaskFailed, ForeignPath."""
        source = command.source
        async with self._opened(source, "", command.cursor.validator) as found:
            if found is None:
                return GatherResult(Gathered(command.cursor), is_all=True)
            opener, fetched = found

            def work(halt: Halt) -> GatherResult:
                with opener() as file:
                    return gather_from(file, command, self._spool, halt)

            try:
                reading = await self.in_thread(work)
            except Unreadable as error:
                raise TaskFailed(f"dataset {source.url}: {error}") from error
        # Only what was taken whole needs not be fetched again.
        is_done = reading.is_all and not reading.gathered.cursor.ragged
        cursor = replace(reading.gathered.cursor, validator=fetched if is_done else "")
        return replace(reading, gathered=replace(reading.gathered, cursor=cursor))

    async def perform(self, task: Task, job: Job) -> None:
        """Raises TaskFailed, ForeignPath."""
        output = job.output_dir
        match task:
            case WriteSamples():
                await self._write(task.target, output, lambda halt: self._samples(task, halt))
            case WriteIndex():
                await self._write(task.target, output, lambda halt: self._index(task, halt))
            case MakeFolder(place):
                # Elsewhere there are none to be made.
                if not is_remote(place.url):
                    within = _within(place, output)
                    host = self._shared.sources.host
                    await self.in_thread(lambda _: host.make_folder(place.url, within=within))
            case CopyModel():
                await self._copy(task, output)
            case WriteHotUpdate():
                await self._hot_update(task, job)

    async def _copy(self, task: CopyModel, output: str) -> None:
        """A worker named the source."""
        if not is_below(output, task.source.url):
            raise ForeignPath(f"{task.source.url} is not below spec.outputDir {output}")
        async with self._opened(task.source, output) as found:
            assert found is not None  # asked without a validator
            opener, _ = found

            def chunks(halt: Halt) -> Iterator[bytes]:
                with opener() as file:
                    size = os.fstat(file.fileno()).st_size
                    if size > self._shared.max_size:
                        most = f"{self._shared.max_size} bytes: raise --max-transfer-size"
                        raise TaskFailed(f"{task.source.url} has {size} bytes, more than {most}")
                    yield from chunks_of(file, halt)

            await self._write(task.target, output, chunks)

    def _samples(self, task: WriteSamples, halt: Halt) -> Iterator[bytes]:
        if task.segments and task.segments[0].header:
            yield f"{task.segments[0].header}\n".encode()
        yield from self._spool.read(task.segments, halt)

    def _index(self, task: WriteIndex, halt: Halt) -> Iterator[bytes]:
        """Words that look like files, as Sedna's storage initializer reads them."""
        yield f"{task.prefix}\n".encode()
        for line in self._spool.lines(task.segments, halt):
            for word in line.split(b" "):
                if b"." in word.rpartition(b"/")[2]:
                    yield word + b"\n"

    async def _hot_update(self, task: WriteHotUpdate, job: Job) -> None:
        """Its place is written down first, if it is the job's: the one that tidies up after the job
        reads it there."""
        url = task.target.url
        mark = self._spool.folder / HOT_UPDATE
        if job.has_own_hot_updates:
            await self.in_thread(lambda _: write_whole(mark, (url.encode(),)))
        config = {"model_path": task.model_path, "model_update_time": task.updated}
        body = msgspec.json.encode({"model_config": config})
        await self._write(task.target, job.output_dir, lambda _: (body,))

    async def _write(
        self, place: FileLocation, output: str, chunks: Callable[[Halt], Iterable[bytes]]
    ) -> None:
        if not is_remote(place.url):
            within = _within(place, output)
            host = self._shared.sources.host
            await self.in_thread(lambda halt: host.write(place.url, chunks(halt), within=within))
            return
        path = self._spool.folder / "upload"
        try:
            with _failing(path):
                await self.in_thread(lambda halt: write_whole(path, chunks(halt)))
                await self._shared.sources.remote.upload(path, place.url, self._secret(place))
        finally:
            path.unlink(missing_ok=True)

    @asynccontextmanager
    async def _opened(
        self, place: FileLocation, output: str, validator: str = ""
    ) -> AsyncIterator[tuple[Opener, str] | None]:
        """What opens a file with the contents, for as long as it is used, and the validator of what
        is there now. None: it is still that of `validator`."""
        if not is_remote(place.url):
            within, host = _within(place, output), self._shared.sources.host
            yield lambda: os.fdopen(host.open(place.url, within=within), "rb"), ""
            return
        path = self._spool.folder / "fetched"
        try:
            fetched = await self._fetched(place, validator, path)
            yield None if fetched is None else (lambda: path.open("rb"), fetched)
        finally:
            path.unlink(missing_ok=True)

    async def _fetched(self, place: FileLocation, validator: str, path: Path) -> str | None:
        await self.in_thread(lambda _: make_folder(path.parent))
        fetch = self._shared.sources.remote.fetch
        with _failing(path):
            return await fetch(place.url, path, self._secret(place), validator=validator)

    def _secret(self, place: FileLocation) -> Mapping[str, str] | None:
        if not place.credential:
            return None
        return self._shared.sources.secrets.named(self._namespace, place.credential)


def _within(place: FileLocation, output: str) -> str:
    """What lies in a job's directory may not lead out of it: its workers can lay links there."""
    return output if is_below(output, place.url) else ""


@contextmanager
def _failing(path: Path) -> Iterator[None]:
    """What goes wrong elsewhere, or with the local copy of it at `path`, as `TaskFailed`."""
    try:
        yield
    except RemoteError as error:
        raise TaskFailed(str(error)) from error
    except OSError as error:
        raise TaskFailed(f"{path}: {error.strerror}") from error
