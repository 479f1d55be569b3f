"""Writes layers of an image: runs in the root of locked packages, with nothing but its Python.

`layer.py TARGET FOLDER=NAME …` writes the folders, each under its name in the image, into one
layer, and prints its digests as JSON. `FOLDER=NAME@UID` gives it that owner. Guarantees: the same
files make the same bytes, whatever their times and owners are, and under each umask. zlib is that
of the locked packages: another one compresses differently.
"""

import gzip
import hashlib
import json
import os
import stat
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path


def main() -> None:
    target, *given = sys.argv[1:]
    plain = Path(f"{target}.plain")
    with tarfile.open(plain, "w", format=tarfile.PAX_FORMAT) as archive:
        for one in given:
            folder, _, rest = one.partition("=")
            name, _, owner = rest.partition("@")
            _add(archive, Path(folder), name, owner=int(owner or 0))
    content = plain.read_bytes()
    plain.unlink()
    # No name and no time in the header.
    packed = gzip.compress(content, mtime=0)
    Path(target).write_bytes(packed)
    print(json.dumps([_digest(packed), _digest(content)]))


def _add(archive: tarfile.TarFile, folder: Path, name: str, *, owner: int) -> None:
    for parent in reversed(Path(name).parents[:-1]):
        if str(parent) not in archive.getnames():
            archive.addfile(_entry(str(parent), tarfile.DIRTYPE, 0o755))
    for path in _sorted(folder):
        inside = os.path.normpath(Path(name) / path.relative_to(folder))
        if inside == ".":
            continue
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            entry = _entry(inside, tarfile.SYMTYPE, 0o777, owner)
            entry.linkname = os.readlink(path)
            archive.addfile(entry)
        elif stat.S_ISDIR(mode):
            # Everybody's, as /tmp, or its owner's.
            permissions = 0o1777 if mode & stat.S_ISVTX else 0o755
            archive.addfile(_entry(inside, tarfile.DIRTYPE, permissions, owner))
        else:
            permissions = 0o755 if mode & stat.S_IXUSR else 0o644
            entry = _entry(inside, tarfile.REGTYPE, permissions, owner)
            entry.size = path.stat().st_size
            with path.open("rb") as file:
                archive.addfile(entry, file)


def _sorted(folder: Path) -> Iterator[Path]:
    yield folder
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            yield from _sorted(path)
        else:
            yield path


def _entry(name: str, kind: bytes, mode: int, owner: int = 0) -> tarfile.TarInfo:
    """Without a time: releases share the layers that did not change."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.uid, entry.gid = kind, mode, owner, owner
    return entry


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


if __name__ == "__main__":
    main()
