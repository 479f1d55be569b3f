"""What lies at a path of a node, kept so that it can be put back: content, mode, owner, link.

Guarantee: a file is there whole or not at all, also after a power cut.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

# Before the target of a symbolic link, where the digest of a file's content would be.
LINK: Final = "link:"
# Bytes; bounds what is read of one input. The plugin, the largest, has five MiB.
MAX_INPUT: Final = 1 << 26
Owner = tuple[int, int]


@dataclass(frozen=True)
class FileChange:
    """`content`: None removes the file. `link`: the target of a symbolic link, instead of a
    file."""

    path: Path
    content: bytes | None
    mode: int = 0o644
    link: str = ""

    @property
    def digest(self) -> str:
        return LINK + self.link if self.link else digest(self.content)


@dataclass(frozen=True)
class RecordedChange:
    """SHA-256 of a file before and after; "" where there is none. `backup`: of what was before.
    `uid` and `gid`: its owner, None where an earlier version did not record it. `link`: the target,
    where it was a symbolic link; `before` and `backup` are then of what it led to."""

    path: Path
    before: str
    after: str
    mode: int
    backup: str
    uid: int | None = None
    gid: int | None = None
    link: str = ""

    @classmethod
    def of(cls, entry: dict[str, Any]) -> "RecordedChange":
        return cls(
            Path(entry["path"]),
            entry["before"],
            entry["after"],
            entry["mode"],
            entry["backup"],
            entry.get("uid"),
            entry.get("gid"),
            entry.get("link", ""),
        )

    def entry(self) -> dict[str, Any]:
        return {**self.__dict__, "path": str(self.path)}

    @property
    def owner(self) -> Owner | None:
        return None if self.uid is None or self.gid is None else (self.uid, self.gid)


def record(change: FileChange, path: Path, backups: Path) -> RecordedChange:
    """What lies at `path` now, with a copy of it in `backups`. Raises OSError."""
    before = read(path)
    link = os.readlink(path) if path.is_symlink() else ""
    if before is None:
        was = LINK + link if link else ""
        return RecordedChange(change.path, was, change.digest, change.mode, "", link=link)
    found = path.stat()
    backup, mode = f"{digest(before)[:12]}-{path.name}", found.st_mode & 0o7777
    write_whole(backups / backup, before, mode=0o600)
    was = LINK + link if change.link and link else digest(before)
    return RecordedChange(
        change.path, was, change.digest, mode, backup, found.st_uid, found.st_gid, link
    )


def state_of(path: Path, *, is_link: bool) -> str:
    """To be compared with `RecordedChange.before` and `after`. `is_link`: a link is meant, and not
    what it leads to."""
    if is_link and path.is_symlink():
        return LINK + os.readlink(path)
    return digest(read(path))


def apply(change: FileChange, path: Path) -> None:
    """A file that is there keeps its owner. Raises OSError."""
    if change.link:
        _write_link(path, change.link)
    elif change.content is not None:
        owner = None
        with suppress(FileNotFoundError):
            found = path.stat()
            owner = found.st_uid, found.st_gid
        write_whole(path, change.content, mode=change.mode, owner=owner)
    else:
        _remove(path)


def put_back(change: RecordedChange, path: Path, backups: Path) -> None:
    """As it was before the change. Nothing is written where it is so already: what could not be
    changed, as on a disk that is read-only or full, cannot be written back. Raises OSError."""
    fresh = _fresh(path)
    if os.path.lexists(fresh) and not fresh.is_dir():
        fresh.unlink()
    if _is_as_before(change, path):
        return
    if change.link:
        _write_link(path, change.link)
    elif change.backup:
        content = (backups / change.backup).read_bytes()
        write_whole(path, content, mode=change.mode, owner=change.owner)
    else:
        _remove(path)


def _is_as_before(change: RecordedChange, path: Path) -> bool:
    if change.link:
        return path.is_symlink() and os.readlink(path) == change.link
    if not change.backup or not os.path.lexists(path):
        return not change.backup and not os.path.lexists(path)
    found = path.lstat()
    return (
        stat.S_ISREG(found.st_mode)
        and stat.S_IMODE(found.st_mode) == change.mode
        and change.owner in (None, (found.st_uid, found.st_gid))
        and digest(read(path)) == change.before
    )


def missing_folders(paths: Iterable[Path]) -> list[Path]:
    """Those that have to be made for these files, outermost first."""
    found = {folder for path in paths for folder in path.parents if not folder.is_dir()}
    return sorted(found, key=lambda it: len(it.parts))


def remove_folders(folders: Iterable[Path]) -> None:
    """Those that are empty; innermost first."""
    for folder in sorted(folders, key=lambda it: len(it.parts), reverse=True):
        with suppress(OSError):
            folder.rmdir()


def write_whole(path: Path, content: bytes, *, mode: int, owner: Owner | None = None) -> None:
    """Also over a power cut: whole or not at all. Raises OSError."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    fresh = _fresh(path)
    with suppress(FileNotFoundError):
        fresh.unlink()
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if owner is not None:
                os.fchown(descriptor, *owner)
            os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        fresh.rename(path)
    except OSError:
        with suppress(OSError):
            fresh.unlink()
        raise
    _sync(path.parent)


def read_regular(path: Path) -> bytes:
    """Of a file that somebody named: a FIFO or a device is not waited for. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        with open(descriptor, "rb", closefd=False) as file:
            # None: of a file of /proc that has nothing now.
            content = file.read(MAX_INPUT + 1) or b""
    finally:
        os.close(descriptor)
    if len(content) > MAX_INPUT:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return content


def read(path: Path) -> bytes | None:
    """None where there is no file, or a link leads nowhere. Raises OSError."""
    try:
        return read_regular(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def digest(content: bytes | None) -> str:
    return "" if content is None else hashlib.sha256(content).hexdigest()


def _write_link(path: Path, target: str) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    fresh = _fresh(path)
    with suppress(FileNotFoundError):
        fresh.unlink()
    fresh.symlink_to(target)
    try:
        fresh.rename(path)
    except OSError:
        fresh.unlink()
        raise
    _sync(path.parent)


def _remove(path: Path) -> None:
    with suppress(FileNotFoundError, NotADirectoryError):
        path.unlink()


def _fresh(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
