"""The directory that in-cluster clients read (ca.crt, token, namespace), made for the relay.

Guarantees: a reader finds each file whole, the old or the new one; who finds a token finds what it
is for; an output without one of the files is never made; files of others are not replaced.

No symbolic links, by which kubelet changes all files at the same moment. An emptyDir in memory is
sticky and belongs to root, so that the kernel follows a link in it only for who made it
(fs.protected_symlinks, proc_sys_fs(5)), and a pod's main is another user than we are.
"""

import errno
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edge_sidecars.runtime.cli.values import BadInput

CA, TOKEN, NAMESPACE = "ca.crt", "token", "namespace"
_MARK: Final = ".relay-sidecar"


class NotThere(Exception):
    """A file is not there yet, or no use; says which, why, and who makes it."""


@dataclass(frozen=True)
class Sources:
    """`folder`: where kubelet projects the pod's token. `namespace`: instead of that of its file
    there."""

    authority: Path
    folder: Path
    namespace: str = ""

    def read(self) -> dict[str, bytes]:
        """Contents by name. Raises `NotThere`."""
        authority = _read(self.authority, "`relay-sidecar node install` makes it")
        if b"-----BEGIN CERTIFICATE-----" not in authority:
            raise NotThere(f"{self.authority} holds no certificate: name the relay's PEM file")
        return {
            CA: authority,
            TOKEN: _read(self.folder / TOKEN, "kubelet makes it"),
            NAMESPACE: self.namespace.encode()
            or _read(self.folder / NAMESPACE, "project metadata.namespace, or use --namespace"),
        }


def _read(path: Path, origin: str) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise NotThere(f"{path}: {error.strerror or error}; {origin}") from error
    if not content.strip():
        raise NotThere(f"{path} is empty; {origin}")
    return content


def publish(folder: Path, files: Mapping[str, bytes]) -> bool:
    """Whether something changed. Raises `BadInput`, with the files as they were."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _claim(folder, files)
        changed = [name for name in files if _content(folder / name) != files[name]]
        for name in sorted(changed, key=TOKEN.__eq__):
            _replace(folder / name, files[name])
    except OSError as error:
        raise BadInput(
            f"--output {folder}: {error.filename2 or error.filename}: {error.strerror or error}; "
            "name an empty directory that can be written, like an emptyDir"
        ) from error
    return bool(changed)


def _claim(folder: Path, names: Iterable[str]) -> None:
    """Its files are ours afterwards."""
    if (folder / _MARK).exists():
        return
    for name in names:
        if os.path.lexists(folder / name):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder / name))
    (folder / _MARK).touch()


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _replace(path: Path, content: bytes) -> None:
    """Readable to all users, as kubelet's: who mounts it may read it."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_bytes(content)
    fresh.chmod(0o644)
    fresh.rename(path)
