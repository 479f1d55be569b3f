"""The journal's files: who may read them, who may write them, and what is no journal.

Guarantees: the folder (where it is ours) is 0700, each file in it 0600; one process at a time has
them open; a file of something else, or of another release, is not written to.
"""

import sqlite3
from contextlib import ExitStack
from pathlib import Path

from edge_sidecars.walstore import data_files
from relay_sidecar.journal.rows import SCHEMA, SCHEMA_VERSION, Unusable

NAME = "journal.sqlite3"
# PRAGMA application_id: "relj", so that file(1) and we know whose it is.
APPLICATION_ID = 0x72656C6A
# Seconds for whoever changes something with sqlite3 by hand: nobody waits that long for us.
BUSY_TIMEOUT = 10.0
# Bytes to which a WAL shrinks that a long list has made longer.
WAL_KEPT = 16 * 1024 * 1024


def open_database(path: Path) -> sqlite3.Connection:
    """The journal that is there, else a new one. Raises `Unusable`."""
    data_files.make_private(path)
    with ExitStack() as stack:
        connection = connect(path)
        stack.callback(connection.close)
        if _is_new(connection, path):
            _create(connection)
        connection.execute("PRAGMA journal_mode = WAL")
        stack.pop_all()
    return connection


def connect(path: Path) -> sqlite3.Connection:
    """Durable against the end of the process; a loss of power may roll back what came after the
    last checkpoint, as one (https://sqlite.org/wal.html#performance_considerations)."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY_TIMEOUT)
    for setting in (
        "synchronous = NORMAL",
        "wal_autocheckpoint = 0",
        f"journal_size_limit = {WAL_KEPT}",
        "temp_store = MEMORY",  # the root file system may be read-only
    ):
        connection.execute(f"PRAGMA {setting}")
    return connection


def open_read_only(path: Path) -> sqlite3.Connection | None:
    """The journal on a disk that cannot be written; None where there is none. Raises `Unusable`."""
    if not path.is_file():
        return None
    wal = path.with_name(f"{path.name}-wal")
    # Without a WAL nothing is missing from the file itself, and no index of one need be made.
    mode = "mode=ro" if wal.is_file() and wal.stat().st_size else "immutable=1"
    with ExitStack() as stack:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True)
        stack.callback(connection.close)
        if _is_new(connection, path):
            return None
        stack.pop_all()
    return connection


def _is_new(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether there is nothing in it yet. Raises `Unusable`."""
    [(application,)] = connection.execute("PRAGMA application_id").fetchall()
    [(version,)] = connection.execute("PRAGMA user_version").fetchall()
    [(tables,)] = connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    if (application, version, tables) == (0, 0, 0):
        return True
    if application != APPLICATION_ID:
        raise Unusable(f"{path} is a database of something else")
    if version != SCHEMA_VERSION:
        raise Unusable(
            f"{path} is of another release: schema {version}, this one knows {SCHEMA_VERSION}"
        )
    return False


def _create(connection: sqlite3.Connection) -> None:
    # Only before the first table.
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(
        f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA application_id = {APPLICATION_ID};"
        f" PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    )
