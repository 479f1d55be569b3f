"""The archive of `make release-node`: made of the locked packages, each by its hash.

Guarantees: the same sources make the same archive, but for the order of what is fetched; an archive
is there whole or not at all.
"""

import gzip
import hashlib
import io
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from edge_sidecars.runtime.cli.values import BadInput
from edge_sidecars.runtime.version import VERSION
from tools.harness.controlplane.build import BuildError, go_environment, go_toolchain

LOCK: Final = Path("tools/requirements/node.txt")
PYTHONS: Final = ("3.11", "3.12", "3.13")
# Go's names by those of `uname -m`.
GOARCH: Final = {"aarch64": "arm64", "x86_64": "amd64"}
# PEP 600: nodes with glibc 2.28 or later (Debian 10, RHEL 8).
_PLATFORMS: Final = ("manylinux_2_17", "manylinux2014", "manylinux_2_28")
_INSTALL: Final = Path(__file__).with_name("install")


@dataclass(frozen=True)
class Target:
    """Nodes with this Python (`3.11`) on this machine (as `uname -m` says it)."""

    python: str
    machine: str

    @classmethod
    def of_this_machine(cls) -> Self:
        return cls(f"{sys.version_info[0]}.{sys.version_info[1]}", platform.machine())

    @property
    def name(self) -> str:
        return f"relay-sidecar-node-{VERSION}-python{self.python}-{self.machine}"


def write_bundle(target: Target, checkout: Path, folder: Path, *, own: Path | None = None) -> Path:
    """The archive in `folder`, with the wheel `own`, else one of the checkout. Raises `BadInput`
    with what could not be fetched or built."""
    with tempfile.TemporaryDirectory(prefix="edge-sidecars-bundle-") as name:
        wheels = Path(name) / "wheels"
        wheels.mkdir()
        own = Path(shutil.copy(own, wheels)) if own else _own_wheel(checkout, wheels)
        _fetch(target, checkout / LOCK, wheels)
        _build_plugin(target, checkout, Path(name) / "sticky-ipam")
        digest = hashlib.sha256(own.read_bytes()).hexdigest()
        own_line = f"edge-sidecars=={VERSION} --hash=sha256:{digest}\n"
        requirements = (checkout / LOCK).read_bytes() + own_line.encode()
        files = {
            "install": (_INSTALL.read_bytes(), 0o755),
            "bundle": (_facts(target, requirements).encode(), 0o644),
            "requirements.txt": (requirements, 0o644),
            "LICENSE": ((checkout / "LICENSE").read_bytes(), 0o644),
            "sticky-ipam": ((Path(name) / "sticky-ipam").read_bytes(), 0o755),
            **{f"wheels/{it.name}": (it.read_bytes(), 0o644) for it in sorted(wheels.iterdir())},
        }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{target.name}.tar.gz"
    new = path.with_name(f".{path.name}")
    new.write_bytes(_archive(target.name, files))
    new.rename(path)
    return path


def _facts(target: Target, requirements: bytes) -> str:
    """Read by `install`. The ID is of all packages: two builds of a version have folders apart."""
    facts = {
        "VERSION": VERSION,
        "ID": hashlib.sha256(requirements).hexdigest()[:8],
        "PYTHON": target.python,
        "MACHINE": target.machine,
    }
    return "".join(f"BUNDLE_{name}={value}\n" for name, value in facts.items())


def _own_wheel(checkout: Path, wheels: Path) -> Path:
    _run("pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(checkout))
    (own,) = wheels.glob("edge_sidecars-*.whl")
    return own


def _fetch(target: Target, lock: Path, wheels: Path) -> None:
    """pip too, of any Python: Debian's own has none without another package."""
    platforms = [f"--platform={it}_{target.machine}" for it in _PLATFORMS]
    only = ["--only-binary=:all:", f"--python-version={target.python}", *platforms]
    to = ["--dest", str(wheels)]
    _run("pip", "download", *only, *to, "--no-deps", "--require-hashes", "-r", str(lock))
    pinned = str(lock.parent / "pip.txt")
    _run("pip", "download", "--no-deps", *to, "--require-hashes", "-r", pinned)


def _build_plugin(target: Target, checkout: Path, output: Path) -> None:
    try:
        go = go_toolchain()
    except BuildError as error:
        raise BadInput(str(error)) from error
    environment = go_environment(go) | {"GOOS": "linux", "GOARCH": GOARCH[target.machine]}
    build = [str(go), "build", "-C", str(checkout / "relay-sidecar" / "cni"), "-mod=readonly"]
    build += ["-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", str(output), "."]
    _checked(build, environment)


def _run(module: str, *arguments: str) -> None:
    quiet = ("--quiet", "--disable-pip-version-check")
    _checked([sys.executable, "-m", module, arguments[0], *quiet, *arguments[1:]])


def _checked(command: Sequence[str], environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        errors = [line for line in said if "error" in line.lower()] or said or ["without a word"]
        raise BadInput(f"{' '.join(command[:4])} …: {errors[0]:.300}")


def _archive(name: str, files: dict[str, tuple[bytes, int]]) -> bytes:
    """tar and gzip without the time, the user and the machine that made them."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, (content, mode) in files.items():
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=0)
