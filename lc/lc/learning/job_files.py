"""What the core's commands mean on disk, below the node's mounted root or elsewhere.

Each may be done again, with the same result. Guarantees: a path never leads out of the mounted root
(Sedna's LC wrote some outside of it); what was written is durable and whole; everything is
streamed; whatever goes wrong is a `TaskFailed` that says where.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar

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
from lc.core.learning.job import FileLocation
from lc.core.learning.paths import is_remote
from lc.core.learning.state import Gathered
from lc.files.node_files import FileSources
from lc.files.remote_files import RemoteError
from lc.learning.gathering import GatherResult, Unreadable, gather
from lc.learning.spool import HOT_UPDATE, Halt, Halted, Spool, chunks_of, make_folder, write_whole

T = TypeVar("T")


class TaskFailed(Exception):
    """It may be tried again; the message says what it was about and what is wrong."""


class SharedFiles(msgspec.Struct, frozen=True):
    """What all jobs share. `executor`: threads for work on files; `halt` stops that."""

    sources: FileSources
    executor: Executor
    halt: Halt = msgspec.field(default_factory=Halt)


class JobFiles:
    """Of one job of this namespace; what is under way is in the spool's folder."""

    def __init__(self, shared: SharedFiles, namespace: str, spool: Spool) -> None:
        self._shared = shared
        self._namespace = namespace
        self._spool = spool

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Raises TaskFailed for what the disk says."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._shared.executor, work)
        except OSError as error:
            raise TaskFailed(f"{error.filename or 'the disk'}: {error.strerror}") from error
        except Halted as error:
            raise TaskFailed("LC ends") from error

    async def gather(self, command: Gather) -> GatherResult:
        """Raises TaskFailed."""
        source = command.source
        async with self._opened(source, command.cursor.validator) as found:
            if found is None:
                return GatherResult(Gathered(command.cursor), is_all=True)
            path, fetched = found
            try:
                reading = await self.in_thread(
                    lambda: gather(path, command, self._spool, self._shared.halt)
                )
            except Unreadable as error:
                raise TaskFailed(f"dataset {source.url}: {error}") from error
        # Only what was taken whole needs not be fetched again.
        is_done = reading.is_all and not reading.gathered.cursor.ragged
        cursor = replace(reading.gathered.cursor, validator=fetched if is_done else "")
        return replace(reading, gathered=replace(reading.gathered, cursor=cursor))

    async def perform(self, task: Task) -> None:
        """Raises TaskFailed."""
        match task:
            case WriteSamples():
                await self._write(task.target, lambda: self._samples(task))
            case WriteIndex():
                await self._write(task.target, lambda: self._index(task))
            case MakeFolder(place):
                # Elsewhere there are none to be made.
                if not is_remote(place.url):
                    await self.in_thread(lambda: make_folder(self._path(place)))
            case CopyModel(source, target):
                async with self._opened(source) as found:
                    assert found is not None  # asked without a validator
                    path, _ = found
                    await self._write(target, lambda: chunks_of(path, self._shared.halt))
            case WriteHotUpdate():
                await self._hot_update(task)

    def _samples(self, task: WriteSamples) -> Iterator[bytes]:
        if task.segments and task.segments[0].header:
            yield f"{task.segments[0].header}\n".encode()
        yield from self._spool.read(task.segments, self._shared.halt)

    def _index(self, task: WriteIndex) -> Iterator[bytes]:
        """Words that look like files, as Sedna's storage initializer reads them."""
        yield f"{task.prefix}\n".encode()
        for line in self._spool.lines(task.segments, self._shared.halt):
            for word in line.split(b" "):
                if b"." in word.rpartition(b"/")[2]:
                    yield word + b"\n"

    async def _hot_update(self, task: WriteHotUpdate) -> None:
        """Its place is written down first: whoever tidies up after the job reads it there."""
        url = task.target.url
        mark = self._spool.folder / HOT_UPDATE
        await self.in_thread(lambda: write_whole(mark, (url.encode(),)))
        config = {"model_path": task.model_path, "model_update_time": task.updated}
        body = msgspec.json.encode({"model_config": config})
        await self._write(task.target, lambda: (body,))

    async def _write(self, place: FileLocation, chunks: Callable[[], Iterable[bytes]]) -> None:
        if not is_remote(place.url):
            await self.in_thread(lambda: write_whole(self._path(place), chunks()))
            return
        path = self._spool.folder / "upload"
        try:
            with _failing(path):
                await self.in_thread(lambda: write_whole(path, chunks()))
                await self._shared.sources.remote.upload(path, place.url, self._secret(place))
        finally:
            path.unlink(missing_ok=True)

    @asynccontextmanager
    async def _opened(
        self, place: FileLocation, validator: str = ""
    ) -> AsyncIterator[tuple[Path, str] | None]:
        """A path of a file with the contents, for as long as it is used, and the validator of what
        is there now. None: it is still that of `validator`."""
        if not is_remote(place.url):
            yield await self.in_thread(lambda: self._path(place)), ""
            return
        path = self._spool.folder / "fetched"
        try:
            yield await self._fetched(place, validator, path)
        finally:
            path.unlink(missing_ok=True)

    async def _fetched(
        self, place: FileLocation, validator: str, path: Path
    ) -> tuple[Path, str] | None:
        await self.in_thread(lambda: make_folder(path.parent))
        fetch = self._shared.sources.remote.fetch
        with _failing(path):
            fetched = await fetch(place.url, path, self._secret(place), validator=validator)
            return None if fetched is None else (path, fetched)

    def _path(self, place: FileLocation) -> Path:
        return self._shared.sources.host.path(place.url)

    def _secret(self, place: FileLocation) -> Mapping[str, str] | None:
        if not place.credential:
            return None
        return self._shared.sources.secrets.named(self._namespace, place.credential)


@contextmanager
def _failing(path: Path) -> Iterator[None]:
    """What goes wrong elsewhere, or with the local copy of it at `path`, as `TaskFailed`."""
    try:
        yield
    except RemoteError as error:
        raise TaskFailed(str(error)) from error
    except OSError as error:
        raise TaskFailed(f"{path}: {error.strerror}") from error
