"""One open database, as the one thread that touches it sees it.

Guarantees: what `write` returned for is on disk as a whole; what it raised for left no trace. With
`is_synced` it survives a loss of power (synchronous=FULL), else the end of the process, and a loss
of power undoes it as one. A database that is broken, or not ours, is set aside when it is opened:
`note` says so, and the store id is new.
"""

import sqlite3
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from edge_sidecars.walstore.database import Damaged, Layout, WalDatabase, verdict
from lc.core.outbox import Queue
from lc.store import contents, tables
from lc.store.contents import StoreContents
from lc.store.failures import NewerSchema, StoreUnavailable

NAME = "lc.sqlite3"
# https://sqlite.org/rescode.html
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)


def _translate(error: sqlite3.Error | OSError, path: Path) -> Exception:
    if isinstance(error, OSError):
        return StoreUnavailable(f"{path}: {error.strerror or error}")
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    is_damaged = code in _DAMAGE or not isinstance(error, sqlite3.OperationalError)
    return (Damaged if is_damaged else StoreUnavailable)(f"{path}: {error}")


def _other_version(path: Path, version: int) -> Exception | None:
    if version < tables.SCHEMA_VERSION:
        return None
    return NewerSchema(
        f"{path} is of a later release: schema {version}, this one knows"
        f" {tables.SCHEMA_VERSION}; run that release, or move the file away: reports that"
        " wait in it are lost then"
    )


LAYOUT = Layout(
    name=NAME,
    lock_name="lc.lock",
    owner="LC",
    # Other programs of the node may use the directory too, so its mode stays.
    is_private=False,
    # "sdlc", so that file(1) and we know whose it is.
    application_id=0x73646C63,
    schema_version=tables.SCHEMA_VERSION,
    schema=tables.SCHEMA,
    settings=(
        # Without a file for shared memory, which a full disk would not take; first of all.
        "locking_mode = EXCLUSIVE",
        # Bytes to which a WAL shrinks again.
        f"journal_size_limit = {4 * 1024 * 1024}",
        # KiB of pages in memory; SQLite's default is 2000, and what is here is read once.
        "cache_size = -512",
        "temp_store = MEMORY",  # the root file system may be read-only
    ),
    # Seconds for another process that has it open at the start.
    busy_timeout=2.0,
    other_version=_other_version,
    translate=_translate,
    sets_aside=True,
)


class StoreDatabase:
    """Of one directory, whose lock it holds until `close`."""

    def __init__(self, directory: Path) -> None:
        """Raises `DirectoryInUse`, `NewerSchema` and `StoreUnavailable`."""
        prepare = partial(_prepare, directory / NAME)
        self._database = WalDatabase(directory, LAYOUT, prepare=prepare)
        self.note = self._database.note
        self.close = self._database.close

    def read(self) -> StoreContents:
        with self._database.translated():
            return contents.load(self._database.connection)

    def read_queues(self, uids: Iterable[str], *, store_id: str) -> dict[str, Queue]:
        with self._database.translated():
            return contents.load_queues(self._database.connection, set(uids), store_id=store_id)

    def write(self, statements: Iterable[tables.Statement], *, is_synced: bool) -> None:
        """In one transaction. Raises `StoreUnavailable`, and `Damaged`, after which nothing is to
        be written any more."""
        with self._transaction(is_synced=is_synced) as connection:
            for sql, values in statements:
                connection.execute(sql, values)

    def expire_notes(self, elapsed: float, *, limit: float) -> list[tuple[str, str]]:
        """Those of absent objects are `elapsed` seconds older; which of them are gone now."""
        with self._transaction(is_synced=False) as connection:
            connection.execute(*tables.age_notes(elapsed))
            return tables.expire_notes(connection, limit)

    @contextmanager
    def _transaction(self, *, is_synced: bool) -> Iterator[sqlite3.Connection]:
        database = self._database
        try:
            is_there = database.is_in_place()
        except OSError:
            is_there = False
        if not is_there:
            # What is written to a file that was removed would be gone with this process.
            raise Damaged(f"{database.path} was removed or replaced")
        with database.translated():
            # Only outside of a transaction.
            level = "FULL" if is_synced else "NORMAL"
            database.connection.execute(f"PRAGMA synchronous = {level}")
        with database.transaction():
            yield database.connection


def _prepare(path: Path, connection: sqlite3.Connection) -> None:
    found = verdict(connection, "quick_check")
    if found is not None:
        raise Damaged(f"{path} is broken: {found}")
    connection.executescript(tables.ADDED)
    if not connection.execute("SELECT id FROM store").fetchall():
        connection.execute("INSERT INTO store VALUES (?)", (str(uuid.uuid4()),))
