"""A disk of a node's own, in memory, small enough to be filled. Needs root.

Guarantee: it is gone, with all that is on it, when it was left.
"""

import errno
from pathlib import Path
from typing import Self

from tools.nemesis.vip.network import run

# Bytes: some times what a member and a relay write in half an hour.
SIZE = 16 * 1024 * 1024
# What is left is less than the smallest page of a file system.
_PIECES = (bytes(64 * 1024), b"0")


class SmallDisk:
    """Mounted at `folder`, which it makes, while it is entered."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def __enter__(self) -> Self:
        self.folder.mkdir()
        run("mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(self.folder))
        return self

    def __exit__(self, *_: object) -> None:
        # What ended a moment ago may hold a file still.
        run("umount", "--lazy", str(self.folder))
        self.folder.rmdir()

    def fill(self) -> None:
        """To the last byte."""
        with self._filler.open("ab", buffering=0) as file:
            for piece in _PIECES:
                try:
                    while True:
                        file.write(piece)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def make_room(self) -> None:
        self._filler.unlink(missing_ok=True)
