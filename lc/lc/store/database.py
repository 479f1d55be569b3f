"""One open database, as the one thread that touches it sees it.

Guarantees: what `write` returned for is on disk as a whole; what it raised for left no trace. With
`is_synced` it survives a loss of power (synchronous=FULL), else the end of the process, and a loss
of power undoes it as one (https://sqlite.org/wal.html#performance_considerations). A database that
is broken, or not ours, is set aside when it is opened: `note` says so, and the store id is new.
"""

import os
import sqlite3
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from edge_sidecars.walstore import data_files
from lc.core.outbox import Queue
from lc.store import files, tables
from lc.store.failures import Damaged, NewerSchema, StoreUnavailable

# Seconds for whoever has it open at the start.
BUSY_TIMEOUT = 2.0
# Bytes to which a WAL shrinks again.
WAL_KEPT = 4 * 1024 * 1024
# KiB of pages in memory; SQLite's default is 2000, and what is here is read once.
CACHE_KIB = 512
# https://sqlite.org/rescode.html
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)


class Database:
    """Of one directory, whose lock it holds until `close`."""

    def __init__(self, directory: Path) -> None:
        """Raises `DirectoryInUse`, `NewerSchema` and `StoreUnavailable`."""
        self.note = ""
        self._path = directory / files.NAME
        try:
            self._lock = files.lock_directory(directory)
        except OSError as error:
            raise StoreUnavailable(f"{directory}: {error.strerror or error}") from error
        with ExitStack() as stack:
            stack.callback(os.close, self._lock)
            try:
                self._connection = self._open_or_renew()
                self._identity = self._identify()
            except OSError as error:
                raise StoreUnavailable(f"{self._path}: {error.strerror or error}") from error
            stack.pop_all()

    def read(self) -> tables.Loaded:
        with _told(self._path):
            return tables.load(self._connection)

    def read_queues(self, uids: Iterable[str], *, store_id: str) -> dict[str, Queue]:
        with _told(self._path):
            return tables.load_queues(self._connection, set(uids), store_id=store_id)

    def write(self, statements: Iterable[tables.Statement], *, is_synced: bool) -> None:
        """In one transaction. Raises `StoreUnavailable`, and `Damaged`, after which nothing is to
        be written any more."""
        self._look()
        with self._transaction(is_synced=is_synced):
            for sql, values in statements:
                self._connection.execute(sql, values)

    def expire_notes(self, elapsed: float, *, limit: float) -> list[tuple[str, str]]:
        """Those of absent objects are `elapsed` seconds older; which of them are gone now."""
        self._look()
        with self._transaction(is_synced=False):
            self._connection.execute(*tables.age_notes(elapsed))
            return tables.expire_notes(self._connection, limit)

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.close()
        os.close(self._lock)

    @contextmanager
    def _transaction(self, *, is_synced: bool) -> Iterator[None]:
        with _told(self._path):
            # Only outside of a transaction.
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if is_synced else 'NORMAL'}")
            self._connection.execute("BEGIN IMMEDIATE")
            # Commits, or rolls back where a failure has not done so by itself.
            with self._connection:
                yield

    def _open_or_renew(self) -> sqlite3.Connection:
        try:
            return self._open()
        except Damaged as error:
            renamed = data_files.set_aside(self._path)
            self.note = f"{error}; set aside as {renamed.name}"
        return self._open()

    def _open(self) -> sqlite3.Connection:
        data_files.make_private(self._path)
        with ExitStack() as stack:
            connection = sqlite3.connect(
                self._path, isolation_level=None, timeout=BUSY_TIMEOUT, check_same_thread=False
            )
            stack.callback(connection.close)
            with _told(self._path):
                _prepare(connection, self._path)
            stack.pop_all()
        return connection

    def _look(self) -> None:
        """What is written to a file that was removed would be gone with this process."""
        try:
            is_there = self._identify() == self._identity
        except OSError:
            is_there = False
        if not is_there:
            raise Damaged(f"{self._path} was removed or replaced")

    def _identify(self) -> tuple[int, int]:
        found = os.stat(self._path)
        return found.st_dev, found.st_ino


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Raises `Damaged`, `NewerSchema` and sqlite3's errors."""
    # Without a file for shared memory, which a full disk would not take; first of all.
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    if _is_new(connection, path):
        connection.executescript(
            f"BEGIN IMMEDIATE; {tables.SCHEMA} INSERT INTO store VALUES ('{uuid.uuid4()}');"
            f" PRAGMA application_id = {tables.APPLICATION_ID};"
            f" PRAGMA user_version = {tables.SCHEMA_VERSION}; COMMIT;"
        )
    for setting in (
        "journal_mode = WAL",
        f"journal_size_limit = {WAL_KEPT}",
        f"cache_size = -{CACHE_KIB}",
        "temp_store = MEMORY",  # the root file system may be read-only
    ):
        connection.execute(f"PRAGMA {setting}")
    [(verdict,)] = connection.execute("PRAGMA quick_check(1)").fetchall()
    if verdict != "ok":
        raise Damaged(f"{path} is broken: {verdict}")
    connection.executescript(tables.ADDED)


def _is_new(connection: sqlite3.Connection, path: Path) -> bool:
    [(application,)] = connection.execute("PRAGMA application_id").fetchall()
    [(version,)] = connection.execute("PRAGMA user_version").fetchall()
    [(count,)] = connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    if (application, version, count) == (0, 0, 0):
        return True
    if application != tables.APPLICATION_ID:
        raise Damaged(f"{path} is a database of something else")
    if version > tables.SCHEMA_VERSION:
        raise NewerSchema(
            f"{path} is of a later release: schema {version}, this one knows"
            f" {tables.SCHEMA_VERSION}; run that release, or move the file away: reports that"
            " wait in it are lost then"
        )
    return False


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """sqlite3's errors as ours."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        is_damaged = code in _DAMAGE or not isinstance(error, sqlite3.OperationalError)
        kind = Damaged if is_damaged else StoreUnavailable
        raise kind(f"{path}: {error}") from error
