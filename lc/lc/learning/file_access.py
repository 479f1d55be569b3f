"""Where a job's files are: below the node's mounted root, or elsewhere with the Secret for it.

Guarantees: a path never leads out of the mounted root (Sedna's LC wrote some outside of it); what
was written is durable and whole; everything is streamed; whatever goes wrong is a `TaskFailed` that
says where.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from lc.core.learning.commands import FileLocation
from lc.core.learning.paths import is_remote
from lc.files.host_files import HostFiles
from lc.files.mounted_secrets import MountedSecrets
from lc.files.remote_files import Remote, RemoteError
from lc.learning.atomic_files import Halt, Halted, make_folder, write_whole

T = TypeVar("T")


class TaskFailed(Exception):
    """It may be tried again; the message says what it was about and what is wrong."""


@dataclass(frozen=True, slots=True)
class SharedFiles:
    """What all jobs share. `executor`: threads for work on files; `halt` stops that."""

    host: HostFiles
    remote: Remote
    secrets: MountedSecrets
    executor: Executor
    halt: Halt = field(default_factory=Halt)


class FileAccess:
    """Of one job. `scratch`: a folder of its own for what is under way."""

    def __init__(self, shared: SharedFiles, namespace: str, *, scratch: Path) -> None:
        self._shared = shared
        self._namespace = namespace
        self._scratch = scratch

    @property
    def halt(self) -> Halt:
        return self._shared.halt

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Raises TaskFailed for what the disk says."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._shared.executor, work)
        except OSError as error:
            raise TaskFailed(f"{error.filename or 'the disk'}: {error.strerror}") from error
        except Halted as error:
            raise TaskFailed("LC ends") from error

    async def make_folder(self, place: FileLocation) -> None:
        """Elsewhere there are none to be made."""
        if not is_remote(place.url):
            await self.in_thread(lambda: make_folder(self._shared.host.path(place.url)))

    async def write(self, place: FileLocation, chunks: Callable[[], Iterable[bytes]]) -> None:
        if not is_remote(place.url):
            await self.in_thread(lambda: write_whole(self._shared.host.path(place.url), chunks()))
            return
        path = self._scratch / "upload"
        try:
            await self.in_thread(lambda: write_whole(path, chunks()))
            await self._shared.remote.upload(path, place.url, self._secret(place))
        except RemoteError as error:
            raise TaskFailed(str(error)) from error
        except OSError as error:
            raise TaskFailed(f"{path}: {error.strerror}") from error
        finally:
            path.unlink(missing_ok=True)

    @asynccontextmanager
    async def local(self, place: FileLocation) -> AsyncIterator[Path]:
        """A path of a file with the contents, for as long as it is used."""
        async with self.changed(place, "") as found:
            assert found is not None  # asked without a validator
            yield found[0]

    @asynccontextmanager
    async def changed(
        self, place: FileLocation, validator: str
    ) -> AsyncIterator[tuple[Path, str] | None]:
        """With the validator of what is there now. None: it is still that of `validator`."""
        if not is_remote(place.url):
            yield await self.in_thread(lambda: self._shared.host.path(place.url)), ""
            return
        path = self._scratch / "fetched"
        try:
            yield await self._fetched(place, validator, path)
        finally:
            path.unlink(missing_ok=True)

    async def _fetched(
        self, place: FileLocation, validator: str, path: Path
    ) -> tuple[Path, str] | None:
        await self.in_thread(lambda: make_folder(path.parent))
        fetch = self._shared.remote.fetch
        try:
            fetched = await fetch(place.url, path, self._secret(place), validator=validator)
            return None if fetched is None else (path, fetched)
        except RemoteError as error:
            raise TaskFailed(str(error)) from error
        except OSError as error:
            raise TaskFailed(f"{path}: {error.strerror}") from error

    def _secret(self, place: FileLocation) -> Mapping[str, str] | None:
        if not place.credential:
            return None
        return self._shared.secrets.named(self._namespace, place.credential)
