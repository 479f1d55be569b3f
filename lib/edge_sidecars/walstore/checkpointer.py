"""When the WAL goes into the file, and when the file gives space back.

A sync takes hundreds of milliseconds on an SD card. Guarantees: a write waits for one only
where the WAL has grown past `WAL_LIMIT`; all other syncs are in checkpoints, which have a thread
and a connection of their own. Space that was freed goes back to the disk in small steps.
"""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

from edge_sidecars.walstore.database import Layout, connect, translated

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


class Checkpointer:
    """`turn` is held during each write; `failure`: what ended a checkpoint, of `failures`."""

    def __init__(self, path: Path, layout: Layout, failures: tuple[type[Exception], ...]) -> None:
        self.turn = threading.Lock()
        self.failure: Exception | None = None
        self._path = path
        self._layout = layout
        self._failures = failures
        self._thread: threading.Thread | None = None

    def begin(self) -> bool:
        """False while the last one runs."""
        if self._thread is not None and self._thread.is_alive():
            return False
        self._thread = threading.Thread(
            target=self._run, name=f"{self._layout.owner}-checkpoint", daemon=True
        )
        self._thread.start()
        return True

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            with (
                translated(self._layout, self._path),
                closing(connect(self._path, self._layout)) as connection,
            ):
                for _ in range(CHECKPOINT_ATTEMPTS):
                    if _moved_all_to_the_file(connection):
                        break
                with self.turn:
                    wal = self._path.with_name(f"{self._path.name}-wal")
                    if wal.stat().st_size > WAL_LIMIT:
                        _moved_all_to_the_file(connection)
                    # Changes nothing: the first to write after a whole checkpoint waits until the
                    # WAL's head is on disk (sqlite3WalFrames in wal.c), and need not be a commit.
                    connection.execute(f"PRAGMA user_version = {self._layout.schema_version}")
        except self._failures as error:
            self.failure = error


def vacuum_step(connection: sqlite3.Connection) -> bool:
    """Gives a step's worth of free pages back, which a checkpoint cuts off the file; False where
    there are few."""
    [(free,)] = connection.execute("PRAGMA freelist_count").fetchall()
    [(pages,)] = connection.execute("PRAGMA page_count").fetchall()
    if free <= VACUUM_FROM or free <= VACUUM_SHARE * pages:
        return False
    # A row without columns per page, at the first of which `execute` would stop.
    connection.executescript(f"PRAGMA incremental_vacuum({VACUUM_STEP})")
    return True


def _moved_all_to_the_file(connection: sqlite3.Connection) -> bool:
    """Not all, where something was written meanwhile."""
    [(_, written, done)] = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    return bool(written == done)
