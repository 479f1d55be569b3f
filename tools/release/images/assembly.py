"""Puts the archives together: for each architecture a root, and on it each component's packages;
for keepalived a root of its own, and on it the files that its Dockerfile copies.

The locked packages have a Python, which is that of each image. It runs in a root of them for this
machine, and installs, compiles and compresses for the other one: bytecode is the same on both. So
no program of another architecture runs, and none of this machine has a part in the bytes. Needs
mmdebstrap and chroot, thus root or user namespaces.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from edge_sidecars.runtime.cli.values import BadInput
from tools.images import bare_root
from tools.images.assemble import COMPONENTS
from tools.images.keepalived import KEEPALIVED
from tools.images.wheels import NoWheels, Platform, provide
from tools.release.images import debian, layer
from tools.release.images.archive import Layer, archive
from tools.release.images.debian import MACHINES, PYTHON, STATUS, pins, unpack
from tools.release.images.dockerfile import image_of
from tools.release.images.sbom import sbom

_PYTHON: Final = "/usr/bin/python3"
# chroot is in sbin; pip wants a home; the order of a set, which bytecode may show, is that of its
# hashes.
_ENVIRONMENT: Final = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/",
    "PYTHONHASHSEED": "0",
}
_PACKAGE: Final = re.compile(r"^COPY (\S+) packages/(\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Release:
    """What is the same for all archives. `created`: in Unix time; `registry`: of their names."""

    version: str
    revision: str
    created: int
    registry: str
    mirror: str = ""


@dataclass(frozen=True)
class _Built:
    """`root`: where the packages of Debian are recorded; `library`: Python's, if any."""

    image: str
    config: dict[str, Any]
    layers: Sequence[Layer]
    root: Path
    library: Path | None = None


def write_archives(
    release: Release,
    checkout: Path,
    folder: Path,
    *,
    architectures: Sequence[str],
    components: Sequence[str] = (*COMPONENTS, KEEPALIVED),
) -> Iterator[Path]:
    """Each archive and its SBOM in `folder`, as they are written. Raises `BadInput`."""
    folder.mkdir(parents=True, exist_ok=True)
    for architecture in architectures:
        with _workshop(architecture, mirror=release.mirror) as workshop:
            workshop.take(checkout, architecture)
            root = workshop.root_layer()
            for component in components:
                if component == KEEPALIVED:
                    built = workshop.keepalived(checkout, mirror=release.mirror)
                else:
                    built = workshop.component(component, release, root)
                yield from _write(built, architecture, release, folder)


def _write(built: _Built, architecture: str, release: Release, folder: Path) -> Iterator[Path]:
    name = f"{release.registry.rstrip('/')}/{built.image}:{release.version}"
    it = archive(
        name,
        architecture=architecture,
        config=built.config,
        layers=built.layers,
        created=release.created,
    )
    stem = f"{built.image}-{release.version}-{architecture}"
    (folder / f"{stem}.tar").write_bytes(it.content)
    yield folder / f"{stem}.tar"
    described = sbom(
        name,
        digest=it.digest,
        architecture=architecture,
        created=release.created,
        debian=(built.root / STATUS).read_text(encoding="utf-8"),
        library=built.library,
    )
    (folder / f"{stem}.cdx.json").write_text(described, encoding="utf-8")
    yield folder / f"{stem}.cdx.json"


@contextmanager
def _workshop(architecture: str, *, mirror: str) -> Iterator["_Workshop"]:
    own = next((name for name, it in MACHINES.items() if it == platform.machine()), "")
    if not own:
        raise BadInput(f"images cannot be built on {platform.machine()}, only on {[*MACHINES]}")
    with tempfile.TemporaryDirectory(prefix="edge-sidecars-images-") as name:
        folder = Path(name, "root")
        unpack(PYTHON, own, folder, mirror=mirror)
        unpack(PYTHON, architecture, folder / "build/source", mirror=mirror)
        yield _Workshop(folder, architecture)


class _Workshop:
    """This machine's root of locked packages in `folder`, with what images are made from in it."""

    def __init__(self, folder: Path, architecture: str) -> None:
        self.folder = folder
        self.architecture = architecture
        self.dockerfile = ""
        self._platforms: Sequence[str] = ()

    def take(self, checkout: Path, architecture: str) -> None:
        """The sources of the images, and the wheels of all components for the architecture."""
        locks = [checkout / f"tools/requirements/{it}.txt" for it in COMPONENTS]
        target = _platform(architecture)
        self._platforms = target.tags
        wheels = self.folder / "wheels"
        try:
            provide(locks, target, wheels)
        except NoWheels as error:
            raise BadInput(str(error)) from error
        images = checkout / "tools/images"
        self.dockerfile = (images / "Dockerfile").read_text(encoding="utf-8")
        for lock in locks:
            shutil.copy(lock, wheels)
        shutil.copy(images / "assemble.py", wheels)
        for module in (bare_root, layer):
            shutil.copy(str(module.__file__), self.folder / "build")
        for source, name in _PACKAGE.findall(self.dockerfile):
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(checkout / source, self.folder / "packages" / name, ignore=ignored)

    def root_layer(self) -> Layer:
        """The architecture's packages without programs: one for all components."""
        self._run("/build/bare_root.py", "/build/source", "/build/root")
        return self._layer("the locked packages of Debian", [("/build/root", ".")])

    def component(self, component: str, release: Release, root: Layer) -> _Built:
        """On the root its locked packages, and its own with the folders for its data."""
        labels = {"VERSION": release.version, "REVISION": release.revision}
        how = image_of(component, self.dockerfile, labels)
        shutil.rmtree(self.folder / "app", ignore_errors=True)
        variables = {"COMPONENT": component, "PLATFORMS": " ".join(self._platforms)}
        for what in ("library", "program"):
            self._run("/wheels/assemble.py", what, "/app", variables=variables)
        (self.folder / "data").mkdir(exist_ok=True)
        folders = [("/data", f"{it.lstrip('/')}@{how.owner}") for it in how.data]
        own = [("/app/src", "app/src"), ("/app/bin", "app/bin"), *folders]
        library = self._layer("the locked packages of Python", [("/app/lib", "app/lib")])
        return _Built(
            COMPONENTS[component].image,
            how.config,
            [root, library, self._layer("edge-sidecars", own)],
            self.folder / "build/root",
            self.folder / "app/lib",
        )

    def keepalived(self, checkout: Path, *, mirror: str) -> _Built:
        """Its locked packages, and on them what its Dockerfile copies."""
        context = checkout / "manifests/keepalived"
        dockerfile = (context / "container/Dockerfile").read_text(encoding="utf-8")
        how = image_of("", dockerfile, {})
        root, copied = self.folder / "build/keepalived", self.folder / "build/copied"
        unpack(debian.KEEPALIVED, self.architecture, root, mirror=mirror)
        for names, into in how.copied:
            (copied / into[1:]).mkdir(parents=True)
            for name in names:
                shutil.copy(context / name, copied / into[1:])
        for mode, pattern in how.modes:
            subprocess.run(["chmod", mode, *copied.glob(pattern[1:])], check=True)
        packages = self._layer("the locked packages of Debian", [("/build/keepalived", ".")])
        own = self._layer("edge-sidecars", [("/build/copied", ".")])
        return _Built(KEEPALIVED, how.config, [packages, own], root)

    def _layer(self, what: str, folders: Sequence[tuple[str, str]]) -> Layer:
        given = [f"{folder}={name}" for folder, name in folders]
        said = self._run("/build/layer.py", "/build/layer", *given)
        digest, plain = json.loads(said)
        return Layer((self.folder / "build/layer").read_bytes(), digest, plain, what)

    def _run(
        self, program: str, *arguments: str, variables: Mapping[str, str] | None = None
    ) -> str:
        """In the root. Not this machine's variables, which change what Python does."""
        alone = [] if os.geteuid() == 0 else ["unshare", "--map-root-user"]
        command = [*alone, "chroot", str(self.folder), _PYTHON, program, *arguments]
        environment = {**_ENVIRONMENT, **(variables or {})}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stderr[:3000])
            raise BadInput(program)
        return done.stdout


def _platform(architecture: str) -> Platform:
    """That of the locked packages."""
    lock = PYTHON.lock(architecture).read_text(encoding="ascii")
    locked = dict(it.split("=") for it in pins(lock))
    version = re.match(r"[\d.]+", locked["python3"])
    glibc = re.match(r"2\.(\d+)", locked["libc6"])
    assert version is not None
    assert glibc is not None
    return Platform(version[0], MACHINES[architecture], int(glibc[1]))
