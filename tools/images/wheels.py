"""Wheels of the locked packages for the base image's Python, fetched once for all checkouts.

For a build that reaches no index, and for one that need not ask twice: they stay in the cache
folder, by what the lock files say. What is fetched is held to the hashes of
tools/requirements/*.txt, as it is again when it is installed. Pip itself is among them, for a base
image that has none; it stays in the build stage.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
from packaging.requirements import Requirement

PIP = Path(__file__).parents[1] / "requirements" / "pip.txt"
# The oldest glibc that wheels are built for: https://peps.python.org/pep-0600/
OLDEST_GLIBC = 17
_ASK = """
import json, os, platform, sys
print(json.dumps({
    "version": platform.python_version(),
    "machine": platform.machine(),
    "glibc": int(os.confstr("CS_GNU_LIBC_VERSION").rpartition(".")[2]),
}))
"""
# A requirement of a lock file, up to its hashes; they follow on lines of their own.
_LOCKED = re.compile(r"^([a-z0-9].*?) \\$", re.MULTILINE)


class NoWheels(Exception):
    """The packages cannot be fetched; the message is pip's last words."""


@dataclass(frozen=True)
class Platform:
    """Whose wheels: those of this Python, with a glibc 2.`glibc`."""

    version: str
    machine: str
    glibc: int

    @property
    def tags(self) -> list[str]:
        """The wheels that run there, newest glibc first."""
        minors = range(self.glibc, OLDEST_GLIBC - 1, -1)
        named = [f"manylinux_2_{minor}_{self.machine}" for minor in minors]
        return [*named, f"manylinux2014_{self.machine}"]


def platform_of(client: docker.DockerClient, image: str) -> Platform:
    """What Python there is in the image."""
    container = client.containers.create(
        image, ["-c", _ASK], entrypoint=["python3"], network_disabled=True
    )
    try:
        container.start()
        container.wait()
        return Platform(**json.loads(container.logs(stderr=False)))
    finally:
        # Also where somebody is impatient: what is asked to remove itself would stay then.
        container.remove(force=True)


def provide(locks: Sequence[Path], platform: Platform, folder: Path) -> None:
    """All wheels of the lock files in the folder, and no others. Raises NoWheels."""
    texts = [lock.read_text(encoding="ascii") for lock in locks]
    state = hashlib.sha256(
        "\n".join([repr(platform), PIP.read_text(), *texts]).encode()
    ).hexdigest()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edge-sidecars"
    cached = cache / "wheels" / state[:16]
    cached.parent.mkdir(parents=True, exist_ok=True)
    with (cached.parent / ".lock").open("w", encoding="ascii") as lock:
        # Two runs at the same time fetch once, and do not fill one folder both.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not cached.exists():
            # Whoever is interrupted leaves no half of it.
            with tempfile.TemporaryDirectory(prefix=".new-", dir=cached.parent) as new:
                whole = Path(new, "wheels")
                whole.mkdir()
                _fetch(texts, platform, whole)
                whole.rename(cached)
        _fill(folder, cached)


def _fill(folder: Path, cached: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {wheel.name for wheel in cached.iterdir()}
    there = {path.name for path in folder.iterdir()}
    for name in there - wanted:
        (folder / name).unlink()
    for name in wanted - there:
        shutil.copy(cached / name, folder)


def _fetch(locks: Sequence[str], platform: Platform, folder: Path) -> None:
    for lock in locks:
        with tempfile.NamedTemporaryFile("w", encoding="ascii", suffix=".txt") as needed:
            needed.write(_needed(lock, platform))
            needed.flush()
            _download(["--require-hashes", f"--requirement={needed.name}"], platform, folder)
    _download(["--require-hashes", f"--requirement={PIP}"], platform, folder)


def _needed(lock: str, platform: Platform) -> str:
    """The part of a lock file that applies there: pip would ask this machine's Python instead."""
    parts = _LOCKED.split(lock)
    environment: dict[str, Any] = {
        "python_full_version": platform.version,
        "python_version": ".".join(platform.version.split(".")[:2]),
    }
    kept = []
    for line, hashes in zip(parts[1::2], parts[2::2], strict=True):
        marker = Requirement(line).marker
        if marker is None or marker.evaluate(environment):
            kept.append(f"{line.partition(';')[0].strip()} \\{hashes}")
    return "".join(kept)


def _download(what: list[str], platform: Platform, folder: Path) -> None:
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--no-deps", "--only-binary=:all:", "--implementation=cp"),
        f"--python-version={platform.version}",
        *(f"--platform={it}" for it in platform.tags),
        f"--dest={folder}",
        *what,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoWheels(f"pip download failed: {done.stderr.strip()[-2000:]}")
