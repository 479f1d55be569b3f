"""The journal on its thread: one open database, and what becomes of it when the disk fails.

Guarantees: what was committed survives the end of the process; what failed left no trace. After a
failure nothing is written any more, so that what is on disk stays one older state, until `rewrite`
brings the disk up to date with memory. Where the file is damaged, cut short, of something else or
of another release, it is set aside and the journal begins empty. Knows no event loop.
"""

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from msgspec import Struct

from edge_sidecars.walstore.checkpointer import CHECKPOINT_AFTER, Checkpointer, vacuum_step
from edge_sidecars.walstore.database import Damaged, Layout, WalDatabase, opened_read_only
from edge_sidecars.walstore.disk_thread import Commit
from edge_sidecars.walstore.files import DirectoryInUse
from relay_sidecar.journal.records import Record, Saved
from relay_sidecar.journal.rows import (
    SCHEMA,
    SCHEMA_VERSION,
    Room,
    load,
    read_stream_rows,
    surplus,
)
from relay_sidecar.journal.tables import OutOfStep, StepCounter, Tables

# What a disk may do to the thread that writes to it.
FAILURES = (OSError, sqlite3.OperationalError, OutOfStep, Damaged)

NAME = "journal.sqlite3"
# Seconds between looks at whether the files are still there.
LOOK_INTERVAL = 1.0
_DAMAGE = (
    sqlite3.SQLITE_ERROR,  # in statements that are right: the schema is not
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_CONSTRAINT,
)


def _translate(error: sqlite3.Error | OSError, path: Path) -> Exception:
    """`Damaged` for those errors that say that the file is at fault."""
    # Without a code: text that is none.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    is_of_file = isinstance(error, sqlite3.DatabaseError) and code in _DAMAGE
    if is_of_file and not isinstance(error, sqlite3.ProgrammingError):
        return Damaged(f"the journal is damaged: {error}")
    return error


def _other_version(path: Path, version: int) -> Exception:
    return Damaged(
        f"{path} is of another release: schema {version}, this one knows {SCHEMA_VERSION}"
    )


LAYOUT = Layout(
    name=NAME,
    lock_name="journal.lock",
    owner="relay",
    is_private=True,
    # "relj", so that file(1) and we know whose it is.
    application_id=0x72656C6A,
    schema_version=SCHEMA_VERSION,
    schema=SCHEMA,
    first_settings=("auto_vacuum = INCREMENTAL",),
    settings=(
        "synchronous = NORMAL",
        "wal_autocheckpoint = 0",
        # Bytes to which a WAL shrinks that a long list has made longer.
        f"journal_size_limit = {16 * 1024 * 1024}",
        "temp_store = MEMORY",  # the root file system may be read-only
    ),
    # Seconds for a person who changes something with sqlite3; commits do not wait that long.
    busy_timeout=10.0,
    other_version=_other_version,
    translate=_translate,
    sets_aside=True,
    watched=("", "-wal"),
)


# SQLite's own way to leave nothing of what is deleted in the file.
OVERWRITING = replace(LAYOUT, settings=(*LAYOUT.settings, "secure_delete = ON"))


class DiskState(Struct, frozen=True):
    """`failure`: what keeps the disk from following, None where it does; `note`: what was set
    aside."""

    failure: str | None
    note: str | None = None


class JournalDatabase:
    """Of one directory, whose lock it holds until `close`."""

    def __init__(self, directory: Path, steps: StepCounter, layout: Layout = LAYOUT) -> None:
        """Raises `DirectoryInUse` and the `FAILURES`."""
        self._steps = steps
        self._database = WalDatabase(directory, layout, prepare=self._prepare)
        self._checkpointer = Checkpointer(self._database.path, LAYOUT, FAILURES)

    @property
    def note(self) -> str | None:
        """What was set aside, and why."""
        note = self._database.note
        return f"{note}, everything begins anew" if note else None

    def read(self, room: Room) -> Saved:
        """What is there; nothing, where it had to be set aside. What there is no room for is
        deleted. Raises the `FAILURES`."""
        try:
            with self._database.translated():
                saved = load(self._database.connection, room)
                streams, seen = surplus(self._database.connection, room)
        except Damaged as error:
            self.renew(str(error))
            saved, streams, seen = Saved(), (), ()
        if streams or seen:
            self.write(lambda tables: tables.drop(streams, seen))
        return Saved(saved.streams, saved.seen, saved.kept, self.note)

    def holds_something(self) -> bool:
        """Raises the `FAILURES`."""
        tables = (f"EXISTS (SELECT 1 FROM {table})" for table in ("stream", "seen", "kept"))
        with self._database.translated():
            run = self._database.connection.execute
            [(found,)] = run(f"SELECT {' OR '.join(tables)}").fetchall()
        return bool(found)

    def renew(self, reason: str) -> None:
        """Sets the file aside and begins a new one. Raises the `FAILURES`."""
        self._checkpointer.join()
        self._database.renew(reason)

    def write(self, work: Callable[[Tables], None]) -> None:
        """Does the work in one transaction. After anything that it raises, the `FAILURES` above
        all, this object is to be closed."""
        self._look()
        with self._checkpointer.turn, self._database.transaction():
            work(self._tables)
        if self._tables.written > CHECKPOINT_AFTER:
            self._begin_checkpoint()

    @property
    def has_freed(self) -> bool:
        """Whether `tidy` might have something to do."""
        return self._tables.has_freed

    def tidy(self) -> None:
        """Gives a step's worth of free pages back to the disk. Raises the `FAILURES`."""
        with self._checkpointer.turn, self._database.translated():
            if vacuum_step(self._database.connection):
                return
        self._tables.has_freed = False
        # The file itself is cut by a checkpoint.
        self._begin_checkpoint()

    def close(self) -> None:
        with ExitStack() as stack:
            stack.callback(self._database.close)
            # SQLite removes a WAL by its name, as the last that closes it: not after a new one.
            self._checkpointer.join()

    def _prepare(self, connection: sqlite3.Connection) -> None:
        self._tables = Tables(connection, read_stream_rows(connection), self._steps)
        self._looked_at = time.monotonic()

    def _look(self) -> None:
        """Raises FileNotFoundError where what is written would go nowhere."""
        if time.monotonic() - self._looked_at < LOOK_INTERVAL:
            return
        if not self._database.is_in_place():
            raise FileNotFoundError(f"{self._database.path} was removed or replaced")
        if self._checkpointer.failure is not None:
            raise self._checkpointer.failure
        self._looked_at = time.monotonic()

    def _begin_checkpoint(self) -> None:
        if self._checkpointer.begin():
            self._tables.written = 0


def read_only(directory: Path, room: Room) -> Saved | None:
    """What is on a disk that cannot be written to; None for nothing. Raises the `FAILURES`."""
    with opened_read_only(directory / NAME, LAYOUT) as connection:
        return None if connection is None else load(connection, room)


class JournalWriter:
    """`room`: for what is read."""

    def __init__(self, directory: Path, *, room: Room, overwrites: bool = False) -> None:
        self._room = room
        self._layout = OVERWRITING if overwrites else LAYOUT
        self.steps = StepCounter()
        self._directory = directory
        self._database: JournalDatabase | None = None
        self._failure: str | None = None
        # Why the file that is there must not be written to any more.
        self._damage: str | None = None
        # Whether what is there is also in memory, so that it may be written over.
        self._was_read = False

    def open(self) -> DiskState:
        """Takes the directory. Raises `DirectoryInUse`."""
        try:
            self._database = JournalDatabase(self._directory, self.steps, self._layout)
        except FAILURES as error:
            self._failure = str(error)
        return DiskState(self._failure)

    def load(self) -> tuple[Saved, DiskState]:
        saved = Saved()

        def attempt() -> None:
            nonlocal saved
            if self._database is not None:
                saved = self._database.read(self._room)
                self._was_read = True
            elif (found := read_only(self._directory, self._room)) is not None:
                saved = found
                self._was_read = True

        self._attempt(attempt)
        return saved, DiskState(self._failure, saved.note)

    def commit(self, entries: Sequence[Commit[Sequence[Record]]]) -> DiskState:
        def work(tables: Tables) -> None:
            for entry in entries:
                for record in entry.payload:
                    tables.apply(record)

        database = self._database
        if database is not None:
            self._attempt(lambda: database.write(work))
        return DiskState(self._failure)

    def rewrite(self, records: Sequence[Record]) -> DiskState:
        """Makes the disk hold these records and nothing else; ends a failure."""
        note: str | None = None

        def attempt() -> None:
            nonlocal note
            if self._database is None:
                self._database = JournalDatabase(self._directory, self.steps, self._layout)
                note = self._database.note
            if self._damage is None and not self._was_read and self._database.holds_something():
                self._damage = "it could not be read when the relay started"
            if self._damage is not None:
                self._database.renew(self._damage)
                note, self._damage = self._database.note, None
            self._was_read = True
            self._database.write(lambda tables: tables.replace_all(records))
            self._failure = None

        self._attempt(attempt)
        return DiskState(self._failure, note)

    def idle_work(self) -> Callable[[], None] | None:
        database = self._database
        if database is None or not database.has_freed:
            return None
        return lambda: self._attempt(database.tidy)

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _attempt(self, work: Callable[[], None]) -> None:
        """Does it; after one of the `FAILURES` the database is closed and nothing is written."""
        self.steps.count += 1
        try:
            work()
        except DirectoryInUse as error:
            self._failure = str(error)
        except FAILURES as error:
            self._failure = str(error) or type(error).__name__
            if isinstance(error, Damaged):
                self._damage = self._failure
            self.close()
        self.steps.count += 1
