"""How much memory this process may use, as its cgroup says (of a container, or of a unit).

Sources: cgroups(7); Documentation/admin-guide/cgroup-v2.rst (memory.max) and
cgroup-v1/memory.rst (memory.limit_in_bytes) of Linux.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

# What version 1 says where there is no limit is a number near 2^63.
_NO_LIMIT: Final = 1 << 60


def memory_limit(root: Path = Path("/")) -> int | None:
    """In bytes, the least of the cgroup and all above it; None without a limit that can be read."""
    found = [limit for limit in _limits(root) if limit < _NO_LIMIT]
    return min(found, default=None)


def _limits(root: Path) -> Iterator[int]:
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _upwards(root / "sys/fs/cgroup", path, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _upwards(root / "sys/fs/cgroup/memory", path, "memory.limit_in_bytes")


def _upwards(mount: Path, path: str, name: str) -> Iterator[int]:
    """In a container the mount is its own cgroup, whatever the path says."""
    relative = PurePosixPath(path.strip("/"))
    for folder in (relative, *relative.parents):
        try:
            text = (mount / folder / name).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            yield int(text)
