"""The directory of a database: who may read it, and which one process writes to it."""

import os
import stat
from pathlib import Path

from edge_sidecars.walstore.data_files import StillLocked, lock

LOCK_NAME = "journal.lock"


class DirectoryInUse(RuntimeError):
    """Another relay writes there."""


def make_directory(directory: Path) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = directory.stat()
    # A volume's root belongs to another: there the files' own mode has to do.
    if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) != 0o700:
        directory.chmod(0o700)


def lock_directory(directory: Path) -> int:
    """A descriptor that holds the lock until it is closed. Waits for a predecessor to end.

    Raises `DirectoryInUse`.
    """
    try:
        return lock(directory / LOCK_NAME)
    except StillLocked:
        raise DirectoryInUse(
            f"another relay writes to {directory}: give each a --data-dir of its own"
        ) from None
