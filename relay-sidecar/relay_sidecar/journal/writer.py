"""The journal on its thread: each method is one work of it, and returns how that went.

Guarantees: after a failure nothing is written any more, so that what is on disk stays one older
state, until `rewrite` brings the disk up to date with memory. Knows no event loop.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from edge_sidecars.walstore.database import Damaged
from edge_sidecars.walstore.files import DirectoryInUse
from edge_sidecars.walstore.group_commit import Commit
from relay_sidecar.journal.database import FAILURES, JournalDatabase, read_only
from relay_sidecar.journal.records import Record, Saved
from relay_sidecar.journal.tables import StepCounter, Tables


class DiskState(Struct, frozen=True):
    """`failure`: what keeps the disk from following, None where it does; `note`: what was set
    aside."""

    failure: str | None
    note: str | None = None


class JournalWriter:
    def __init__(self, directory: Path) -> None:
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
            self._database = JournalDatabase(self._directory, self.steps)
        except FAILURES as error:
            self._failure = str(error)
        return DiskState(self._failure)

    def load(self) -> tuple[Saved, DiskState]:
        saved = Saved()

        def attempt() -> None:
            nonlocal saved
            if self._database is not None:
                saved = self._database.read()
                self._was_read = True
            elif (found := read_only(self._directory)) is not None:
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
                self._database = JournalDatabase(self._directory, self.steps)
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
