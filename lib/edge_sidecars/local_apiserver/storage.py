"""Where the objects lie: SQLite, written by one thread in grouped transactions.

Owns the file and the thread. Knows objects as bytes only. Guarantees: `commit` returns after the
transaction is in the write-ahead log, which outlives the process (kill -9) but not always the
machine; `settled` is called on the event loop in the order of the commits; a transaction that
fails changes nothing. A file that is damaged, or held by another process, is not opened.
"""

import asyncio
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from edge_sidecars.apimachinery.objects import Key
from edge_sidecars.walstore.directory import DirectoryInUse, lock_directory, make_directory

FILE_NAME: Final = "origin.sqlite"
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


class Row(NamedTuple):
    """An object of a resource at a version; `raw` None: it is gone. `written_at` is unix time."""

    group: str
    plural: str
    key: Key
    version: int
    written_at: float
    raw: bytes | None


class Saved(NamedTuple):
    """What was stored: `version` is the highest one that was given out, `boot` the run of the
    machine in which that was."""

    version: int
    boot: str
    rows: Sequence[Row]


Settled = Callable[[Sequence[Row]], None]


class Storage(Protocol):
    """A place for rows. `failure`: why the last commit failed, None if it did not."""

    failure: str | None

    async def load(self) -> Saved: ...

    async def commit(self, row: Row) -> None:
        """Returns when the row is stored and was settled. Raises `NotStored`."""

    async def close(self) -> None: ...


class MemoryStorage:
    """Keeps nothing: for tests and for `--data-dir memory`."""

    def __init__(self, settled: Settled) -> None:
        self.failure: str | None = None
        self._settled = settled

    async def load(self) -> Saved:
        return Saved(0, "", ())

    async def commit(self, row: Row) -> None:
        self._settled((row,))

    async def close(self) -> None:
        """Nothing to close."""


class _Waiting(NamedTuple):
    row: Row
    done: asyncio.Future[None]


class SqliteStorage:
    """One file in `directory`, which is made where it is missing."""

    def __init__(self, directory: Path, *, boot: str, settled: Settled) -> None:
        self._path = directory / FILE_NAME
        self._boot = boot
        self._settled = settled
        self.failure: str | None = None
        self._loop = asyncio.get_running_loop()
        self._loaded: asyncio.Future[Saved] = self._loop.create_future()
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="origin-storage", daemon=True)
        self._thread.start()

    async def load(self) -> Saved:
        """Raises `Unusable` and `DirectoryInUse`."""
        return await self._loaded

    async def commit(self, row: Row) -> None:
        if self._is_closed:
            raise NotStored("the store is closed")
        done: asyncio.Future[None] = self._loop.create_future()
        self._waiting.put(_Waiting(row, done))
        # A caller who goes away does not take the write back.
        await asyncio.shield(done)

    async def close(self) -> None:
        """Writes what is waiting, and closes the file."""
        if not self._is_closed:
            self._is_closed = True
            self._waiting.put(None)
        await asyncio.to_thread(self._thread.join)

    # In the thread

    def _run(self) -> None:
        with ExitStack() as stack:
            try:
                make_directory(self._path.parent)
                stack.callback(os.close, lock_directory(self._path.parent))
                connection = stack.enter_context(closing(_opened(self._path)))
                saved = _load(connection)
                connection.execute("UPDATE state SET boot = ?", (self._boot,))
            except DirectoryInUse as error:
                self._tell(self._fail_to_load, error)
                return
            except (sqlite3.Error, OSError, Unusable) as error:
                self._tell(self._fail_to_load, Unusable(f"{self._path}: {error}"))
                return
            self._tell(self._loaded.set_result, saved)
            for group in self._groups():
                self._write(connection, group)

    def _groups(self) -> Iterator[list[_Waiting]]:
        while (first := self._waiting.get()) is not None:
            group = [first]
            is_last = False
            while len(group) < _GROUP_LIMIT and not self._waiting.empty():
                found = self._waiting.get()
                if found is None:
                    is_last = True
                    break
                group.append(found)
            yield group
            if is_last:
                return

    def _write(self, connection: sqlite3.Connection, group: Sequence[_Waiting]) -> None:
        try:
            connection.execute("BEGIN IMMEDIATE")
            for waiting in group:
                _put(connection, waiting.row)
            connection.execute("UPDATE state SET version = ?", (group[-1].row.version,))
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._tell(self._fail, group, NotStored(f"{self._path}: {error}"))
        else:
            self._tell(self._succeed, group)

    def _tell(self, callback: Callable[..., object], *said: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *said)
        except RuntimeError:
            # The loop has ended without `close`: nobody is left to be told.
            return

    # On the loop

    def _fail_to_load(self, error: Exception) -> None:
        self._is_closed = True
        self._loaded.set_exception(error)

    def _succeed(self, group: Sequence[_Waiting]) -> None:
        self.failure = None
        self._settled([waiting.row for waiting in group])
        for waiting in group:
            if not waiting.done.done():
                waiting.done.set_result(None)

    def _fail(self, group: Sequence[_Waiting], error: NotStored) -> None:
        self.failure = str(error)
        for waiting in group:
            if not waiting.done.done():
                waiting.done.set_exception(NotStored(str(error)))


def _opened(path: Path) -> sqlite3.Connection:
    path.touch(mode=0o600)
    with ExitStack() as stack:
        connection = stack.enter_context(closing(sqlite3.connect(path, isolation_level=None)))
        # No shared memory file, so that the folder may lie on any file system.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("BEGIN IMMEDIATE")
        _prepare(connection)
        connection.execute("COMMIT")
        stack.pop_all()
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    [(version,)] = connection.execute("PRAGMA user_version").fetchall()
    if version == _SCHEMA_VERSION:
        return
    if version != 0:
        raise Unusable(f"was written by another release (schema {version})")
    for statement in _SCHEMA.split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")


def _load(connection: sqlite3.Connection) -> Saved:
    [(found,)] = connection.execute("PRAGMA integrity_check(1)").fetchall()
    if found != "ok":
        raise Unusable(f"is damaged ({found}); put a backup in its place, or remove it")
    [(version, boot)] = connection.execute("SELECT version, boot FROM state").fetchall()
    rows = connection.execute(
        "SELECT resource_group, plural, namespace, name, version, written_at, raw FROM object"
    )
    return Saved(
        version,
        boot,
        [
            Row(group, plural, (namespace, name), number, written_at, raw)
            for group, plural, namespace, name, number, written_at, raw in rows
        ],
    )


def _put(connection: sqlite3.Connection, row: Row) -> None:
    if row.raw is None:
        connection.execute(_DELETE, (row.group, row.plural, *row.key))
    else:
        found = (row.group, row.plural, *row.key, row.version, row.written_at, row.raw)
        connection.execute(_PUT, found)
