"""The journal's thread: takes what is queued, writes it in groups, tells how that went.

Guarantees: entries are done in the order in which they were put, all commits that are queued at a
moment in one transaction. After a failure nothing is written any more, so that what is on disk
stays one older state, until a `Rewrite` brings the disk up to date with memory. Knows no event
loop; never blocks whoever puts.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from msgspec import Struct

from edge_sidecars.walstore.directory import DirectoryInUse
from relay_sidecar.journal import files
from relay_sidecar.journal.database import FAILURES, Database, damage_told
from relay_sidecar.journal.records import Record, Saved
from relay_sidecar.journal.rows import Unusable, load
from relay_sidecar.journal.tables import Progress, Tables

# Seconds without an entry, after which there is time to tidy up.
IDLE = 0.1


class Open(Struct, frozen=True):
    """Takes the directory, as long as nobody else has it."""


class Load(Struct, frozen=True):
    """Reads everything."""


class Commit(Struct, frozen=True, gc=False):
    records: tuple[Record, ...]


class Rewrite(Struct, frozen=True):
    """Makes the disk hold what these records tell, and nothing else; ends a failure."""

    records: Sequence[Record]


class Close(Struct, frozen=True):
    """Ends the thread."""


Entry = Open | Load | Commit | Rewrite | Close


class Done(Struct, frozen=True):
    """Entries that are done with, by their tickets. `failure`: what keeps the disk from following,
    None where it does; `note`: what was set aside; `saved`: the answer to `Load`."""

    tickets: Sequence[int]
    failure: str | None
    note: str | None = None
    saved: Saved | None = None
    in_use: DirectoryInUse | None = None


class Writer(threading.Thread):
    """`tell` is called on this thread; `tell(None)` is its last word."""

    def __init__(self, directory: Path, tell: Callable[[Done | None], None]) -> None:
        super().__init__(name="relay-journal", daemon=True)
        self.progress = Progress()
        self._directory = directory
        self._tell = tell
        self._queue: SimpleQueue[tuple[Entry, int]] = SimpleQueue()
        self._next: tuple[Entry, int] | None = None
        self._database: Database | None = None
        self._failure: str | None = None
        # Why the file that is there must not be written to any more.
        self._damage: str | None = None
        # Whether what is there is also in memory, so that it may be written over.
        self._was_read = False

    def put(self, entry: Entry, ticket: int) -> None:
        self._queue.put((entry, ticket))

    def run(self) -> None:
        try:
            while self._work():
                pass
        finally:
            self._tell(None)

    def _work(self) -> bool:
        """Does the next entry, or group of them; whether there is more to come."""
        entry, ticket = self._next or self._take()
        self._next = None
        self.progress.steps += 1
        match entry:
            case Commit():
                self._commit(*self._group(entry, ticket))
            case Rewrite():
                self._rewrite(entry.records, ticket)
            case Open():
                self._open(ticket)
            case Load():
                self._load(ticket)
            case Close():
                self._drop()
                self._tell(Done([ticket], self._failure))
                return False
        self.progress.steps += 1
        return True

    def _take(self) -> tuple[Entry, int]:
        while self._database is not None and self._database.has_freed:
            try:
                return self._queue.get(timeout=IDLE)
            except Empty:
                self._attempt(self._database.tidy)
        return self._queue.get()

    def _group(self, entry: Commit, ticket: int) -> tuple[list[Record], list[int]]:
        """This commit and all that wait behind it."""
        records, tickets = list(entry.records), [ticket]
        with suppress(Empty):
            while True:
                following, ticket = self._queue.get_nowait()
                if not isinstance(following, Commit):
                    self._next = (following, ticket)
                    break
                records += following.records
                tickets.append(ticket)
        return records, tickets

    def _commit(self, records: Iterable[Record], tickets: Sequence[int]) -> None:
        def work(tables: Tables) -> None:
            for record in records:
                tables.apply(record)

        database = self._database
        if database is not None:
            self._attempt(lambda: database.write(work))
        self._tell(Done(tickets, self._failure))

    def _rewrite(self, records: Sequence[Record], ticket: int) -> None:
        note: str | None = None

        def attempt() -> None:
            nonlocal note
            if self._database is None:
                self._database = Database(self._directory, self.progress)
                note = self._database.note
            if self._damage is None and not self._was_read and self._database.holds_something():
                self._damage = "it could not be read when the relay started"
            if self._damage is not None:
                self._database.renew(self._damage)
                note, self._damage = self._database.note, None
            self._was_read = True
            self._database.write(lambda tables: tables.become(records))
            self._failure = None

        self._attempt(attempt)
        self._tell(Done([ticket], self._failure, note))

    def _open(self, ticket: int) -> None:
        in_use = None
        try:
            self._database = Database(self._directory, self.progress)
        except DirectoryInUse as error:
            in_use = error
        except FAILURES as error:
            self._failure = str(error)
        self._tell(Done([ticket], self._failure, in_use=in_use))

    def _load(self, ticket: int) -> None:
        saved = Saved()

        def attempt() -> None:
            nonlocal saved
            if self._database is not None:
                saved = self._database.read()
                self._was_read = True
            else:
                saved = self._read_only()

        self._attempt(attempt)
        self._tell(Done([ticket], self._failure, saved.note, saved))

    def _read_only(self) -> Saved:
        """What is on a disk that cannot be written to."""
        with damage_told():
            connection = files.open_read_only(self._directory / files.NAME)
            if connection is None:
                return Saved()
            try:
                saved = load(connection)
            finally:
                connection.close()
        self._was_read = True
        return saved

    def _attempt(self, work: Callable[[], None]) -> None:
        """Does it; after one of the `FAILURES` the database is closed and nothing is written."""
        try:
            work()
        except DirectoryInUse as error:
            self._failure = str(error)
        except FAILURES as error:
            self._failure = str(error) or type(error).__name__
            if isinstance(error, Unusable):
                self._damage = self._failure
            self._drop()

    def _drop(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
