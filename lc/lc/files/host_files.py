"""Files of the node by the paths that its people know, as LC sees them under its mount.

Guarantees: symbolic links and `..` lead where they would on the node, so never out of the mount.
"""

import errno
import os
from pathlib import Path
from urllib.parse import urlsplit

# As Linux has it (path_resolution(7)).
MAX_LINKS = 40


class HostFiles:
    """`root`: where the node's / is mounted; / itself where LC is no container."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, url: str) -> Path:
        """Of a path on the node, or a file URL; whether it exists is not asked.

        Raises OSError for a loop of links.
        """
        path = urlsplit(url).path if url.startswith("file:") else url
        if self.root == Path("/"):
            return Path("/", path)
        waiting = [part for part in reversed(path.split("/")) if part not in ("", ".")]
        found: list[str] = []
        links = 0
        while waiting:
            part = waiting.pop()
            if part == "..":
                del found[-1:]
                continue
            target = _target(self.root.joinpath(*found, part))
            if target is None:
                found.append(part)
                continue
            links += 1
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), url)
            if target.startswith("/"):
                found.clear()
            waiting += [each for each in reversed(target.split("/")) if each not in ("", ".")]
        return self.root.joinpath(*found)


def _target(path: Path) -> str | None:
    """Of a link; None for anything else."""
    try:
        return str(path.readlink())
    except OSError:
        return None
