"""The store's files: who may read them, who may write them, and what is no store.

Guarantees: each file is 0600; one process at a time has them open; a file that cannot be used is
never deleted or overwritten but set aside, of which the newest three stay.
"""

import fcntl
import os
import re
import time
from pathlib import Path

from lc.store.failures import DirectoryInUse

NAME = "lc.sqlite3"
LOCK_NAME = "lc.lock"
# So many files that could not be used are kept for whoever wants to know why.
KEPT_ASIDE = 3
# Seconds; a predecessor that ends has its grace period.
LOCK_PATIENCE = 10.0
LOCK_POLL_INTERVAL = 0.1

_ASIDE = re.compile(re.escape(NAME) + r"\.aside-(\d+)")


def lock_directory(directory: Path) -> int:
    """A descriptor that holds the lock until it is closed. Waits for a predecessor to end.

    Makes the directory, which other programs of the node may use too, so its mode stays.
    Raises `DirectoryInUse` and OSError.
    """
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + LOCK_PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise DirectoryInUse(
                    f"another LC writes to {directory}: give each a --data-dir of its own"
                ) from None
            time.sleep(LOCK_POLL_INTERVAL)
        except BaseException:
            os.close(descriptor)
            raise
        else:
            return descriptor


def make_private(path: Path) -> None:
    """SQLite gives its other files the mode of this one."""
    if not path.exists():
        # A WAL without its database belongs to one that is gone.
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def set_aside(path: Path) -> Path:
    """Renames the store; returns its new name."""
    aside = _aside(path)
    number = max(aside, default=0) + 1
    renamed = path.with_name(f"{NAME}.aside-{number}")
    for suffix in ("", "-wal"):
        place = path.with_name(path.name + suffix)
        if place.exists():
            place.rename(renamed.with_name(renamed.name + suffix))
    path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
    for old in sorted(aside)[: max(0, len(aside) + 1 - KEPT_ASIDE)]:
        for file in aside[old]:
            file.unlink(missing_ok=True)
    return renamed


def _aside(path: Path) -> dict[int, list[Path]]:
    """The files that were set aside, with their WALs, by number."""
    found: dict[int, list[Path]] = {}
    for file in path.parent.iterdir():
        if match := _ASIDE.match(file.name):
            found.setdefault(int(match[1]), []).append(file)
    return found
