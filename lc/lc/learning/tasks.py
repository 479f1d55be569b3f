"""What the core's commands mean on disk. Each may be done again, with the same result."""

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from lc.core.learning.commands import (
    CopyModel,
    Gather,
    MakeFolder,
    Task,
    WriteHotUpdate,
    WriteIndex,
    WriteSamples,
)
from lc.core.learning.events import Gathered
from lc.learning.atomic_files import chunks_of, write_whole
from lc.learning.file_access import FileAccess, TaskFailed
from lc.learning.gathering import GatherResult, Unreadable, gather
from lc.learning.spool import HOT_UPDATE, Spool


class Tasks:
    """Of one job."""

    def __init__(self, files: FileAccess, spool: Spool) -> None:
        self._files = files
        self._spool = spool

    async def gather(self, command: Gather) -> GatherResult:
        """Raises TaskFailed."""
        source = command.source
        async with self._files.changed(source, command.cursor.validator) as found:
            if found is None:
                return GatherResult(Gathered(command.cursor), is_all=True)
            path, fetched = found
            halt = self._files.halt
            try:
                reading = await self._files.in_thread(
                    lambda: gather(path, command, self._spool, halt)
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
                await self._files.write(task.target, lambda: self._samples(task))
            case WriteIndex():
                await self._files.write(task.target, lambda: self._index(task))
            case MakeFolder(place):
                await self._files.make_folder(place)
            case CopyModel(source, target):
                halt = self._files.halt
                async with self._files.local(source) as path:
                    await self._files.write(target, lambda: chunks_of(path, halt))
            case WriteHotUpdate():
                await self._hot_update(task)

    def _samples(self, task: WriteSamples) -> Iterator[bytes]:
        if task.segments and task.segments[0].header:
            yield f"{task.segments[0].header}\n".encode()
        yield from self._spool.read(task.segments, self._files.halt)

    def _index(self, task: WriteIndex) -> Iterator[bytes]:
        """Words that look like files, as Sedna's storage initializer reads them."""
        yield f"{task.prefix}\n".encode()
        for line in self._spool.lines(task.segments, self._files.halt):
            for word in line.split(b" "):
                if b"." in word.rpartition(b"/")[2]:
                    yield word + b"\n"

    async def _hot_update(self, task: WriteHotUpdate) -> None:
        """Its place is written down first: whoever tidies up after the job reads it there."""
        url = task.target.url
        mark = self._spool.folder / HOT_UPDATE
        await self._files.in_thread(lambda: write_whole(mark, (url.encode(),)))
        config = {"model_path": task.model_path, "model_update_time": task.updated}
        body = msgspec.json.encode({"model_config": config})
        await self._files.write(task.target, lambda: (body,))
