"""The open database, as the one thread that writes to it sees it.

Guarantees: what `write` returned for survives the end of the process; what it raised for left no
trace, but ends the use of this object. It waits for the disk to sync (hundreds of milliseconds on
an SD card) only where the WAL has grown past `WAL_LIMIT`: all other syncs happen in checkpoints,
which have a thread of their own. Space that was freed goes back to the disk in small steps.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from edge_sidecars.walstore import data_files
from edge_sidecars.walstore.directory import lock_directory, make_directory
from relay_sidecar.journal import files
from relay_sidecar.journal.records import Saved
from relay_sidecar.journal.rows import SCHEMA_VERSION, Unusable, load, read_standings
from relay_sidecar.journal.tables import OutOfStep, Progress, Tables

# What a disk may do to whoever writes to it.
FAILURES = (OSError, sqlite3.OperationalError, OutOfStep, Unusable)

# Bytes written after which a checkpoint is due; SQLite's own default is as many.
CHECKPOINT_AFTER = 4 * 1024 * 1024
# Bytes of the WAL from which on writing waits until a checkpoint has come to its end.
WAL_LIMIT = 64 * 1024 * 1024
# A checkpoint comes to its end when nothing is written meanwhile; it tries so often.
CHECKPOINT_ATTEMPTS = 5
# Free pages, and their share of all, from which on the file is made smaller; pages per step.
VACUUM_FROM = 256
VACUUM_SHARE = 0.25
VACUUM_STEP = 256
# Seconds between looks at whether the files are still there.
LOOK_INTERVAL = 1.0


class Database:
    """Of one directory, whose lock it holds until `close`. `note`: what was set aside, and why."""

    def __init__(self, directory: Path, progress: Progress) -> None:
        """Raises `DirectoryInUse` and the `FAILURES`."""
        self.note: str | None = None
        self._path = directory / files.NAME
        self._wal = directory / f"{files.NAME}-wal"
        self._progress = progress
        self._turn = threading.Lock()
        self._checkpoint: threading.Thread | None = None
        self._checkpoint_failure: Exception | None = None
        make_directory(directory)
        self._lock = lock_directory(directory)
        with ExitStack() as stack:
            stack.callback(os.close, self._lock)
            try:
                self._open()
            except Unusable as error:
                self._renew(str(error))
            stack.pop_all()

    def read(self) -> Saved:
        """All that is there; nothing, where it had to be set aside. Raises the `FAILURES`."""
        try:
            with damage_told():
                saved = load(self._connection)
        except Unusable as error:
            self.renew(str(error))
            saved = Saved()
        return Saved(saved.streams, saved.seen, saved.kept, self.note)

    def holds_something(self) -> bool:
        """Raises the `FAILURES`."""
        tables = (f"EXISTS (SELECT 1 FROM {table})" for table in ("stream", "seen", "kept"))
        with damage_told():
            [(found,)] = self._connection.execute(f"SELECT {' OR '.join(tables)}").fetchall()
        return bool(found)

    def renew(self, reason: str) -> None:
        """Sets the file aside and begins a new one. Raises the `FAILURES`."""
        self._end_use()
        self._renew(reason)

    def write(self, work: Callable[[Tables], None]) -> None:
        """Does the work in one transaction. After anything that it raises, the `FAILURES` above
        all, this object is to be closed."""
        self._look()
        tables = self._tables
        with self._turn, damage_told():
            self._connection.execute("BEGIN IMMEDIATE")
            work(tables)
            self._connection.execute("COMMIT")
        if tables.written > CHECKPOINT_AFTER:
            self._begin_checkpoint()

    @property
    def has_freed(self) -> bool:
        """Whether `tidy` might have something to do."""
        return self._tables.has_freed

    def tidy(self) -> None:
        """Gives a step's worth of free pages back to the disk. Raises the `FAILURES`."""
        with self._turn, damage_told():
            [(free,)] = self._connection.execute("PRAGMA freelist_count").fetchall()
            [(pages,)] = self._connection.execute("PRAGMA page_count").fetchall()
            if free > VACUUM_FROM and free > VACUUM_SHARE * pages:
                # A row without columns per page, at the first of which `execute` would stop.
                self._connection.executescript(f"PRAGMA incremental_vacuum({VACUUM_STEP})")
                return
        self._tables.has_freed = False
        # The file itself is cut by a checkpoint.
        self._begin_checkpoint()

    def close(self) -> None:
        try:
            self._end_use()
        finally:
            os.close(self._lock)

    def _open(self) -> None:
        with damage_told(), ExitStack() as stack:
            self._connection = stack.enter_context(closing(files.open_database(self._path)))
            standings = read_standings(self._connection)
            stack.pop_all()
        self._tables = Tables(self._connection, standings, self._progress)
        self._identities = self._identify()
        self._looked_at = time.monotonic()

    def _end_use(self) -> None:
        # SQLite removes a WAL by its name, as the last that closes it: that may not be too late.
        if self._checkpoint is not None:
            self._checkpoint.join()
        with suppress(sqlite3.Error):
            self._connection.close()

    def _renew(self, reason: str) -> None:
        renamed = data_files.set_aside(self._path)
        self.note = f"{reason}; set aside as {renamed.name}, everything begins anew"
        self._open()

    def _look(self) -> None:
        """Raises FileNotFoundError where what is written would go nowhere."""
        if time.monotonic() - self._looked_at < LOOK_INTERVAL:
            return
        if self._identify() != self._identities:
            raise FileNotFoundError(f"{self._path} was removed or replaced")
        if self._checkpoint_failure is not None:
            raise self._checkpoint_failure
        self._looked_at = time.monotonic()

    def _identify(self) -> list[tuple[int, int]]:
        found = [os.stat(file) for file in (self._path, self._wal)]
        return [(status.st_dev, status.st_ino) for status in found]

    def _begin_checkpoint(self) -> None:
        if self._checkpoint is None or not self._checkpoint.is_alive():
            self._tables.written = 0
            self._checkpoint = threading.Thread(
                target=self._run_checkpoint, name="relay-journal-checkpoint", daemon=True
            )
            self._checkpoint.start()

    def _run_checkpoint(self) -> None:
        try:
            with damage_told(), closing(files.connect(self._path)) as connection:
                for _ in range(CHECKPOINT_ATTEMPTS):
                    if _moved_all_to_the_file(connection):
                        break
                with self._turn:
                    if self._wal.stat().st_size > WAL_LIMIT:
                        _moved_all_to_the_file(connection)
                    _begin_wal_anew(connection)
        except FAILURES as error:
            self._checkpoint_failure = error


def _moved_all_to_the_file(connection: sqlite3.Connection) -> bool:
    """Not all, where something was written meanwhile."""
    [(_, written, done)] = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    return bool(written == done)


def _begin_wal_anew(connection: sqlite3.Connection) -> None:
    """Writes, for nothing else: whoever is the first to write after a whole checkpoint waits until
    the WAL's head is on disk (sqlite3WalFrames in wal.c), and it need not be a commit."""
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


@contextmanager
def damage_told() -> Iterator[None]:
    """Raises `Unusable` for those of SQLite's errors that say that the file is at fault."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        # Without a code: text that is none.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        is_damage = code in (
            sqlite3.SQLITE_ERROR,  # in statements that are right: the schema is not
            sqlite3.SQLITE_CORRUPT,
            sqlite3.SQLITE_NOTADB,
            sqlite3.SQLITE_CONSTRAINT,
        )
        if is_damage and not isinstance(error, sqlite3.ProgrammingError):
            raise Unusable(f"the journal is damaged: {error}") from error
        raise
