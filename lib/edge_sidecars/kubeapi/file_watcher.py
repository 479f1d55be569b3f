"""What is made of files, as of their newest usable content.

Guarantees: files are looked at before each use (one `stat` each) and are read again when they
changed, so that what rotates needs no restart. While they cannot be used, because one is missing,
half written or does not fit another, what was made last stays in use and one log line names the
problem. Contents of files never appear in a message.
"""

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from edge_sidecars.runtime.log import fields

T = TypeVar("T")

logger = logging.getLogger("kubeapi")
# Seconds; a file may have changed again within one tick of its time stamp, without another size.
RETRY = 1.0

_Version = tuple[tuple[int, int, int] | None, ...]


class WatchedFiles(Generic[T]):
    """`read` makes the value of what the files hold; it raises OSError or ValueError."""

    def __init__(self, paths: Sequence[Path], read: Callable[[], T]) -> None:
        self._paths = tuple(paths)
        self._read = read
        self._made: tuple[_Version, T] | None = None
        self._failed: tuple[_Version, float, OSError | ValueError] | None = None
        self._logged = ""

    def get(self) -> T:
        """Raises OSError or ValueError while no content was ever usable."""
        version = tuple(_stat(path) for path in self._paths)
        if self._made is not None and self._made[0] == version:
            return self._made[1]
        now = time.monotonic()
        if self._failed is None or self._failed[0] != version or now >= self._failed[1]:
            try:
                self._made = version, self._read()
            except (OSError, ValueError) as error:
                self._failed = version, now + RETRY, error
                self._log(describe_failure(error))
            else:
                self._failed, self._logged = None, ""
        if self._made is not None:
            return self._made[1]
        assert self._failed is not None
        raise self._failed[2]

    def _log(self, problem: str) -> None:
        if self._made is None or problem == self._logged:
            return
        self._logged = problem
        files = ", ".join(map(str, self._paths))
        logger.warning(
            "changed credentials cannot be used: the last good ones stay in use",
            extra=fields(files=files, why=problem),
        )


def describe_failure(error: Exception) -> str:
    """One line; names the file where the system does."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or ''} {error.strerror}".strip()
    return " ".join(str(error).split())


def _stat(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
