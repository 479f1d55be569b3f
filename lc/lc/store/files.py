"""The store's files: their names, and the lock that lets one process at a time write to them."""

from pathlib import Path

from edge_sidecars.walstore import data_files
from lc.store.failures import DirectoryInUse

NAME = "lc.sqlite3"
LOCK_NAME = "lc.lock"


def lock_directory(directory: Path) -> int:
    """A descriptor that holds the lock until it is closed. Waits for a predecessor to end.

    Makes the directory, which other programs of the node may use too, so its mode stays.
    Raises `DirectoryInUse` and OSError.
    """
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    try:
        return data_files.lock(directory / LOCK_NAME)
    except data_files.StillLocked:
        raise DirectoryInUse(
            f"another LC writes to {directory}: give each a --data-dir of its own"
        ) from None
