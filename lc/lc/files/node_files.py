"""The Secrets that were mounted for LC, and all sources of files together.

Secrets are `<directory>/<namespace>/<name>/<key>`, as volumes have them. Guarantees: of these
nothing outside of the directory is read; contents are read anew each time, since kubelet changes
them, and are never logged. LC asks no server for a Secret.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from edge_sidecars.runtime.formats.rfc1123 import is_subdomain
from lc.files.host_files import HostFiles
from lc.files.remote_files import Remote

# RFC 1123, as Kubernetes wants names of objects.
# Bytes; a Secret's values are shorter.
MAX_VALUE = 65536


class MountedSecrets:
    """`directory`: None where none were mounted."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory

    def named(self, namespace: str, name: str) -> Mapping[str, str] | None:
        """Its values as text; None where there is none, or none that can be read."""
        if self._directory is None or not is_subdomain(namespace) or not is_subdomain(name):
            return None
        folder = self._directory / namespace / name
        try:
            # ..data and its like are kubelet's own.
            keys = [key for key in folder.iterdir() if not key.name.startswith("..")]
            return {key.name: _text(key) for key in keys if key.is_file()}
        except (OSError, UnicodeDecodeError):
            return None


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(MAX_VALUE).decode().strip()


__all__ = ["FileSources", "HostFiles", "MountedSecrets"]


class FileSources(msgspec.Struct, frozen=True):
    """Where files of datasets and jobs are: on the node, or elsewhere with a Secret."""

    host: HostFiles
    remote: Remote
    secrets: MountedSecrets
