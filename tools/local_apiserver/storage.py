"""Where the objects lie: SQLite, written by one thread in grouped transactions.

Owns the tables and what is stored in one go; knows objects as bytes only. Guarantees: `commit`
returns after the transaction is in the write-ahead log, which outlives the process (kill -9) but
not always the machine; `settled` is called on the event loop in the order of the commits; a
transaction that fails changes nothing. A file that is damaged, or held by another process, is not
opened.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from edge_sidecars.apimachinery.objects import Key
from edge_sidecars.walstore.database import Damaged, Layout, WalDatabase, verdict
from edge_sidecars.walstore.disk_thread import Commit, DiskThread, GroupCommit
from edge_sidecars.walstore.files import DirectoryInUse

FILE_NAME: Final = "objects.sqlite"
# Of the tables below; a release that changes them counts on.
_SCHEMA_VERSION: Final = 1
_SCHEMA = """
CREATE TABLE object (
  resource_group TEXT NOT NULL,
  plural TEXT NOT NULL,
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  written_at REAL NOT NULL,
  raw BLOB NOT NULL,
  PRIMARY KEY (resource_group, plural, namespace, name)
);
CREATE TABLE state (version INTEGER NOT NULL, boot TEXT NOT NULL);
INSERT INTO state VALUES (0, '');
"""
_PUT = "INSERT OR REPLACE INTO object VALUES (?, ?, ?, ?, ?, ?, ?)"
_DELETE = (
    "DELETE FROM object WHERE resource_group = ? AND plural = ? AND namespace = ? AND name = ?"
)
# Commits that one transaction takes at most, so that the first of them does not wait for long.
_GROUP_LIMIT: Final = 512


class NotStored(Exception):
    """The write is not on disk and will not be; the message says why."""


class Unusable(Exception):
    """The file cannot be opened; the message says why and what to do."""


class ObjectRow(NamedTuple):
    """An object of a resource at a version; `raw` None: it is gone. `written_at` is unix time."""

    group: str
    plural: str
    key: Key
    version: int
    written_at: float
    raw: bytes | None


class StoredObjects(NamedTuple):
    """What was stored: `version` is the highest one that was given out, `boot` the run of the
    machine in which that was."""

    version: int
    boot: str
    rows: Sequence[ObjectRow]


Settled = Callable[[Sequence[ObjectRow]], None]


class Storage(Protocol):
    """A place for rows. `failure`: why the last commit failed, None if it did not."""

    failure: str | None

    async def load(self) -> StoredObjects: ...

    async def commit(self, row: ObjectRow) -> None:
        """Returns when the row is stored and was settled. Raises `NotStored`."""

    async def close(self) -> None: ...


class MemoryStorage:
    """Keeps nothing: for tests and for `--data-dir memory`."""

    def __init__(self, settled: Settled) -> None:
        self.failure: str | None = None
        self._settled = settled

    async def load(self) -> StoredObjects:
        return StoredObjects(0, "", ())

    async def commit(self, row: ObjectRow) -> None:
        self._settled((row,))

    async def close(self) -> None:
        """Nothing to close."""


def _translate(error: sqlite3.Error | OSError, path: Path) -> Exception:
    return error if isinstance(error, OSError) else Unusable(f"{path}: {error}")


def _other_version(path: Path, version: int) -> Exception:
    return Unusable(f"{path}: was written by another release (schema {version})")


LAYOUT: Final = Layout(
    name=FILE_NAME,
    lock_name="journal.lock",
    owner="relay",
    is_private=True,
    application_id=0,
    schema_version=_SCHEMA_VERSION,
    schema=_SCHEMA,
    # Exclusive: no shared memory file, so that the folder may lie on any file system.
    settings=("locking_mode = EXCLUSIVE", "synchronous = NORMAL"),
    other_version=_other_version,
    translate=_translate,
    # Its objects are nowhere else.
    sets_aside=False,
)


class SqliteStorage:
    """One file in `directory`, which is made where it is missing."""

    def __init__(self, directory: Path, *, boot: str, settled: Settled) -> None:
        self.failure: str | None = None
        self._directory = directory
        self._path = directory / FILE_NAME
        self._boot = boot
        self._settled = settled
        self._loop = asyncio.get_running_loop()
        self._database: WalDatabase | None = None
        self._is_closed = False
        self._thread = DiskThread(
            "storage",
            failures=(DirectoryInUse, Unusable),
            ended=NotStored("the store's thread has ended"),
        )
        self._groups = GroupCommit(self._thread, self._write, self._written, limit=_GROUP_LIMIT)

    async def load(self) -> StoredObjects:
        """Raises `Unusable` and `DirectoryInUse`."""
        try:
            return await self._thread.run(self._open)
        except (DirectoryInUse, Unusable):
            await self.close()
            raise

    async def commit(self, row: ObjectRow) -> None:
        if self._is_closed:
            raise NotStored("the store is closed")
        done: asyncio.Future[None] = self._loop.create_future()
        self._groups.add(Commit(row, done))
        # A caller who goes away does not take the write back.
        await asyncio.shield(done)

    async def close(self) -> None:
        """Writes what is waiting, and closes the file."""
        if not self._is_closed:
            self._is_closed = True
            self._thread.put(self._close)
            self._thread.end()
        await asyncio.to_thread(self._thread.join)

    # In the thread

    def _open(self) -> StoredObjects:
        try:
            self._database = WalDatabase(self._directory, LAYOUT, prepare=lambda connection: None)
            with self._database.translated():
                saved = _load(self._database.connection, self._path)
                self._database.connection.execute("UPDATE state SET boot = ?", (self._boot,))
        except (Damaged, OSError) as error:
            raise Unusable(f"{self._path}: {error}") from error
        return saved

    def _write(self, entries: Sequence[Commit[ObjectRow]]) -> NotStored | None:
        assert self._database is not None
        try:
            with self._database.transaction():
                run = self._database.connection.execute
                for entry in entries:
                    _put(run, entry.payload)
                run("UPDATE state SET version = ?", (entries[-1].payload.version,))
        except Unusable as error:
            return NotStored(str(error))
        return None

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()

    # On the loop

    def _written(self, entries: Sequence[Commit[ObjectRow]], error: NotStored | None) -> None:
        self.failure = None if error is None else str(error)
        if error is None:
            self._settled([entry.payload for entry in entries])
        for entry in entries:
            entry.settle(error and NotStored(str(error)))


def _load(connection: sqlite3.Connection, path: Path) -> StoredObjects:
    found = verdict(connection, "integrity_check")
    if found is not None:
        raise Unusable(f"{path}: is damaged ({found}); put a backup in its place, or remove it")
    [(version, boot)] = connection.execute("SELECT version, boot FROM state").fetchall()
    rows = connection.execute(
        "SELECT resource_group, plural, namespace, name, version, written_at, raw FROM object"
    )
    return StoredObjects(
        version,
        boot,
        [
            ObjectRow(group, plural, (namespace, name), number, written_at, raw)
            for group, plural, namespace, name, number, written_at, raw in rows
        ],
    )


def _put(run: Callable[..., object], row: ObjectRow) -> None:
    if row.raw is None:
        run(_DELETE, (row.group, row.plural, *row.key))
    else:
        run(_PUT, (row.group, row.plural, *row.key, row.version, row.written_at, row.raw))
