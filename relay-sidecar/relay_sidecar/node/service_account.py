"""The directory that in-cluster clients read (ca.crt, token, namespace), made for the relay.

Guarantees: a reader finds each file whole, the old or the new one, and all files change at the same
moment (the steps of kubelet's pkg/volume/util/atomic_writer.go: one symbolic link is renamed); the
files before the last change stay, for who is on the way to them; an output without one of the files
is never made.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edge_sidecars.runtime.values import BadInput

CA, TOKEN, NAMESPACE = "ca.crt", "token", "namespace"
# As kubelet calls them; what begins with two dots is not for readers.
_DATA: Final = "..data"
_NEXT: Final = "..data_tmp"


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
        for name in files:
            if not (folder / name).is_symlink():
                (folder / name).symlink_to(Path(_DATA) / name)
        before = _current(folder)
        if before is not None and _contents(before) == files:
            return False
        fresh = _write(folder, files)
        _point(folder / _DATA, fresh.name)
        _remove_older(folder, {fresh, before})
    except OSError as error:
        raise BadInput(
            f"--output {folder}: {error.filename2 or error.filename}: {error.strerror or error}; "
            "name an empty directory that can be written, like an emptyDir"
        ) from error
    return True


def _current(folder: Path) -> Path | None:
    data = folder / _DATA
    return folder / data.readlink() if data.is_symlink() else None


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else {}


def _write(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Readable to all users, as kubelet's: who mounts it may read it."""
    fresh = Path(tempfile.mkdtemp(prefix="..", dir=folder))
    for name, content in files.items():
        (fresh / name).write_bytes(content)
        (fresh / name).chmod(0o644)
    fresh.chmod(0o755)
    return fresh


def _point(link: Path, target: str) -> None:
    following = link.with_name(_NEXT)
    with suppress(FileNotFoundError):
        following.unlink()
    os.symlink(target, following)
    following.rename(link)


def _remove_older(folder: Path, kept: set[Path | None]) -> None:
    for path in folder.glob("..*"):
        if path.is_dir() and not path.is_symlink() and path not in kept:
            shutil.rmtree(path)
