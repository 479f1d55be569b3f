"""Files of the node by the paths that its people know, and the Secrets that were mounted for LC.

The node's files are below the mount of its /: symbolic links and `..` lead where they would on the
node, so never out of the mount. Secrets are `<directory>/<namespace>/<name>/<key>`, as volumes have
them. Guarantees: of these nothing outside of the directory is read; contents are read anew each
time, since kubelet changes them, and are never logged. LC asks nobody for a Secret.
"""

import errno
import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from lc.files.remote_files import Remote

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


# RFC 1123, as Kubernetes wants names of objects.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)
# Bytes; a Secret's values are shorter.
MAX_VALUE = 65536


class MountedSecrets:
    """`directory`: None where none were mounted."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory

    def named(self, namespace: str, name: str) -> Mapping[str, str] | None:
        """Its values as text; None where there is none, or none that can be read."""
        if self._directory is None or not _is_name(namespace) or not _is_name(name):
            return None
        folder = self._directory / namespace / name
        try:
            # ..data and its like are kubelet's own.
            keys = [key for key in folder.iterdir() if not key.name.startswith("..")]
            return {key.name: _text(key) for key in keys if key.is_file()}
        except (OSError, UnicodeDecodeError):
            return None


def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None and ".." not in text


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(MAX_VALUE).decode().strip()


class FileSources(msgspec.Struct, frozen=True):
    """Where files of datasets and jobs are: on the node, or elsewhere with a Secret."""

    host: HostFiles
    remote: Remote
    secrets: MountedSecrets
