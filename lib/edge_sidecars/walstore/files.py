"""A database's files in a directory: who may read them, who may write them, and what is set aside.

Knows SQLite's names for what lies beside a database, and nothing of what is in it. Guarantees: each
file is 0600; one process at a time holds the lock; a file that cannot be used is never deleted or
overwritten but set aside, and the newest three of those stay.
"""

import fcntl
import os
import re
import stat
import time
from contextlib import ExitStack
from pathlib import Path

# Files that could not be used stay for an investigation.
KEPT_ASIDE = 3
# Seconds; a predecessor that ends has its grace period to answer its last requests.
LOCK_PATIENCE = 10.0
LOCK_POLL_INTERVAL = 0.1


class DirectoryInUse(Exception):
    """Another process writes there, and did not end."""


def lock_directory(directory: Path, name: str, *, owner: str, is_private: bool) -> int:
    """A descriptor that holds the lock until it is closed. Waits for a predecessor to end.

    Makes the directory; one that `is_private` is for this user alone. Raises `DirectoryInUse` and
    OSError.
    """
    directory.mkdir(mode=0o700 if is_private else 0o755, parents=True, exist_ok=True)
    status = directory.stat()
    # A volume's root belongs to another: there the files' own mode has to do.
    is_ours = status.st_uid == os.geteuid()
    if is_private and is_ours and stat.S_IMODE(status.st_mode) != 0o700:
        directory.chmod(0o700)
    with ExitStack() as stack:
        descriptor = os.open(directory / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        stack.callback(os.close, descriptor)
        deadline = time.monotonic() + LOCK_PATIENCE
        while not _is_locked_by(descriptor):
            if time.monotonic() > deadline:
                raise DirectoryInUse(
                    f"another {owner} writes to {directory}: give each a --data-dir of its own"
                )
            time.sleep(LOCK_POLL_INTERVAL)
        stack.pop_all()
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
    """Renames the database; returns its new name."""
    aside = _aside(path)
    number = max(aside, default=0) + 1
    renamed = path.with_name(f"{path.name}.aside-{number}")
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
    name = re.compile(re.escape(path.name) + r"\.aside-(\d+)")
    found: dict[int, list[Path]] = {}
    for file in path.parent.iterdir():
        if match := name.match(file.name):
            found.setdefault(int(match[1]), []).append(file)
    return found


def _is_locked_by(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
