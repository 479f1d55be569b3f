"""The locked packages of Debian as a file system, for a machine that need not be this one.

mmdebstrap unpacks them, so that no program of the other machine runs. `ARCHITECTURE.debs` has the
SHA-256 of each package of the components' root, `keepalived-ARCHITECTURE.debs` of keepalived's, in
the form of sha256sum. Guarantees: a root has exactly these packages; it lists them where dpkg does,
for scanners and for `tools.release.images.sbom`.
"""

import shutil
import tarfile
import tempfile
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edge_sidecars.runtime.cli.values import BadInput
from tools.images import base, keepalived
from tools.images.base import NoBase, debootstrap

# Debian's names, which are also those of OCI, by those of `uname -m`.
MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
STATUS: Final = Path("var/lib/dpkg/status")
_SUMS: Final = Path("build/debs")
_RECORD: Final = (
    'cd "$1"/var/cache/apt/archives && mkdir "$1"/build && export LC_ALL=C'
    f' && sha256sum *.deb >"$1"/{_SUMS}'
    ' && for it in *.deb; do dpkg-deb --field "$it" | sed "1a Status: install ok installed";'
    f' echo; done >"$1"/{STATUS}'
)


@dataclass(frozen=True)
class Packages:
    """What a root is made of, with all that it depends on. `locks`: how the names of its locks
    begin."""

    locks: str
    names: Sequence[str]
    hooks: Sequence[str]

    def lock(self, architecture: str) -> Path:
        """The file with the packages of an architecture."""
        return Path(__file__).with_name(f"{self.locks}{architecture}.debs")


PYTHON: Final = Packages("", base.PACKAGES, base.HOOKS)
KEEPALIVED: Final = Packages("keepalived-", keepalived.PACKAGES, keepalived.HOOKS)


def unpack(packages: Packages, architecture: str, root: Path, *, mirror: str = "") -> None:
    """The locked packages in `root`, a new folder. Raises `BadInput`."""
    lock = packages.lock(architecture)
    locked = lock.read_text(encoding="ascii")
    try:
        found = _unpacked(packages, architecture, pins(locked), root, mirror=mirror)
    except NoBase as error:
        raise BadInput(
            f"the locked packages of Debian for {architecture} cannot be fetched: "
            f"{_last_line(error)}; --mirror names an archive that still has them, as "
            "http://mirror.example/debian/DATE; `make lock-images` takes newer ones"
        ) from error
    if found != locked:
        raise BadInput(f"the packages for {architecture} are not those of {lock}")


def renew(packages: Packages, architecture: str, *, mirror: str = "") -> Path:
    """The lock with what Debian has today. Raises `BadInput`."""
    with tempfile.TemporaryDirectory(prefix="edge-sidecars-debs-") as folder:
        try:
            root = Path(folder, "root")
            found = _unpacked(packages, architecture, packages.names, root, mirror=mirror)
        except NoBase as error:
            raise BadInput(_last_line(error)) from error
    lock = packages.lock(architecture)
    lock.write_text(found, encoding="ascii")
    return lock


def pins(locked: str) -> list[str]:
    """NAME=VERSION of each package of a lock, as apt takes it."""
    names = [line.split()[1].split("_") for line in locked.splitlines()]
    return [f"{name}={urllib.parse.unquote(version)}" for name, version, _ in names]


def _unpacked(
    packages: Packages, architecture: str, names: Sequence[str], root: Path, *, mirror: str
) -> str:
    with tempfile.TemporaryDirectory(prefix="edge-sidecars-debs-") as folder:
        archive = Path(folder, "root.tar")
        debootstrap(
            archive,
            packages=names,
            variant="extract",
            hooks=[_RECORD, *packages.hooks],
            options=[f"--architecture={architecture}"],
            mirror=mirror,
        )
        with tarfile.open(archive) as entries:
            # Device files are root's to make, and no image has them.
            files = [it for it in entries if not it.name.startswith("./dev/")]
            entries.extractall(root, files, filter="tar")
    sums = root / _SUMS
    found = sums.read_text(encoding="ascii")
    shutil.rmtree(sums.parent)
    return found


def _last_line(error: Exception) -> str:
    lines = [it for it in str(error).splitlines() if it.startswith("E:")] or [str(error)]
    return lines[0].removeprefix("E:").strip()[:300]
