"""One open database and the lock of its directory, as the one thread that writes to it sees them.

Guarantees: a transaction that returned survives the end of the process as a whole, one that raised
left no trace. With `synchronous = NORMAL` a loss of power may undo what came after the last
checkpoint, as one (https://sqlite.org/wal.html#performance_considerations). A file of something
else is not written to; a damaged one is set aside, where its owner has it from elsewhere.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from edge_sidecars.walstore import files


class Damaged(Exception):
    """What is on disk is not what this release wrote there."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What an owner decides about its database.

    `settings`: pragmas of each connection; `first_settings`: those before the first table.
    `other_version`: what to raise for this schema version in a file, None to go on;
    `translate`: what to raise for an error of SQLite or of the operating system. `watched`:
    suffixes of the files that must stay in place. With `sets_aside` a file that is `Damaged` is,
    and the next begins empty.
    """

    name: str
    lock_name: str
    owner: str
    is_private: bool
    application_id: int
    schema_version: int
    schema: str
    settings: tuple[str, ...]
    other_version: Callable[[Path, int], Exception | None]
    translate: Callable[[sqlite3.Error | OSError, Path], Exception]
    sets_aside: bool
    first_settings: tuple[str, ...] = ()
    busy_timeout: float = 5.0
    watched: tuple[str, ...] = ("",)


class WalDatabase:
    """Holds the lock until `close`. `note`: what was set aside, and why; "" for nothing."""

    connection: sqlite3.Connection

    def __init__(
        self, directory: Path, layout: Layout, *, prepare: Callable[[sqlite3.Connection], None]
    ) -> None:
        """`prepare` sees each connection before it is used, and raises `Damaged` where it cannot
        be. Raises `files.DirectoryInUse` and what the layout makes of other errors."""
        self.note = ""
        self.path = directory / layout.name
        self._layout = layout
        self._prepare = prepare
        with translated(layout, directory):
            self._lock = files.lock_directory(
                directory, layout.lock_name, owner=layout.owner, is_private=layout.is_private
            )
        with ExitStack() as stack:
            stack.callback(os.close, self._lock)
            try:
                self._open()
            except Damaged as error:
                if not layout.sets_aside:
                    raise
                self._begin_anew(str(error))
            stack.pop_all()

    def renew(self, reason: str) -> None:
        """Sets the file aside and begins a new one. Raises what opening does."""
        self.close_connection()
        self._begin_anew(reason)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self.translated():
            self.connection.execute("BEGIN IMMEDIATE")
            # Commits, or rolls back where a failure has not done so by itself.
            with self.connection:
                yield

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Errors of SQLite and of the operating system as the owner's."""
        with translated(self._layout, self.path):
            yield

    def is_in_place(self) -> bool:
        """Whether what is written goes to the files of these names. Raises OSError."""
        return self._identify() == self._identity

    def close_connection(self) -> None:
        with suppress(sqlite3.Error):
            self.connection.close()

    def close(self) -> None:
        try:
            self.close_connection()
        finally:
            os.close(self._lock)

    def _open(self) -> None:
        with self.translated(), ExitStack() as stack:
            files.make_private(self.path)
            connection = stack.enter_context(closing(connect(self.path, self._layout)))
            is_new = _is_new(connection, self.path, self._layout)
            for setting in self._layout.first_settings if is_new else ():
                connection.execute(f"PRAGMA {setting}")
            connection.execute("PRAGMA journal_mode = WAL")
            if is_new:
                _create(connection, self._layout)
            self._prepare(connection)
            self.connection = connection
            self._identity = self._identify()
            stack.pop_all()

    def _begin_anew(self, reason: str) -> None:
        with self.translated():
            renamed = files.set_aside(self.path)
        self.note = f"{reason}; set aside as {renamed.name}"
        self._open()

    def _identify(self) -> list[tuple[int, int]]:
        beside = [self.path.with_name(self.path.name + suffix) for suffix in self._layout.watched]
        return [(status.st_dev, status.st_ino) for status in map(os.stat, beside)]


def connect(path: Path, layout: Layout) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=layout.busy_timeout)
    with ExitStack() as stack:
        stack.callback(connection.close)
        for setting in layout.settings:
            connection.execute(f"PRAGMA {setting}")
        stack.pop_all()
    return connection


@contextmanager
def opened_read_only(path: Path, layout: Layout) -> Iterator[sqlite3.Connection | None]:
    """The database on a disk that cannot be written to; None where there is none."""
    if not path.is_file():
        yield None
        return
    wal = path.with_name(f"{path.name}-wal")
    # Without a WAL nothing is missing from the file itself, and no index of one need be made.
    mode = "mode=ro" if wal.is_file() and wal.stat().st_size else "immutable=1"
    uri = f"{path.absolute().as_uri()}?{mode}"
    with translated(layout, path), closing(sqlite3.connect(uri, uri=True)) as connection:
        yield None if _is_new(connection, path, layout) else connection


@contextmanager
def translated(layout: Layout, path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        translation = layout.translate(error, path)
        if translation is error:
            raise
        raise translation from error


def verdict(connection: sqlite3.Connection, check: str) -> str | None:
    """The first thing that `check` (`quick_check`, `integrity_check`) finds, None for nothing."""
    [(found,)] = connection.execute(f"PRAGMA {check}(1)").fetchall()
    return None if found == "ok" else str(found)


def _is_new(connection: sqlite3.Connection, path: Path, layout: Layout) -> bool:
    """Whether there is nothing in it yet. Raises `Damaged` for a database of something else."""
    [(application,)] = connection.execute("PRAGMA application_id").fetchall()
    [(version,)] = connection.execute("PRAGMA user_version").fetchall()
    [(tables,)] = connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    if (application, version, tables) == (0, 0, 0):
        return True
    if application != layout.application_id:
        raise Damaged(f"{path} is a database of something else")
    if version != layout.schema_version:
        error = layout.other_version(path, version)
        if error is not None:
            raise error
    return False


def _create(connection: sqlite3.Connection, layout: Layout) -> None:
    """In one transaction, so that a file is empty or whole."""
    connection.executescript(
        f"BEGIN IMMEDIATE; {layout.schema} PRAGMA application_id = {layout.application_id};"
        f" PRAGMA user_version = {layout.schema_version}; COMMIT;"
    )
