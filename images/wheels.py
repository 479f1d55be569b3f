"""Wheels of the locked packages for the base image's Python, fetched on this machine.

For a build that reaches no index, and for one that need not ask twice. What is fetched is held to
the hashes of requirements/*.txt, as it is again when it is installed. Pip itself is among them,
for a base image that has none; it stays in the build stage.
"""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
from packaging.requirements import Requirement

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


def platform_of(client: docker.DockerClient, image: str) -> Platform:
    """What Python there is in the image."""
    told = client.containers.run(
        image, ["-c", _ASK], entrypoint=["python3"], remove=True, network_disabled=True
    )
    return Platform(**json.loads(told))


def fetch(locks: list[Path], platform: Platform, folder: Path) -> None:
    """All wheels of the lock files into the folder; nothing for what is there. Raises NoWheels."""
    wanted = folder / ".fetched"
    state = "\n".join([repr(platform), *(lock.read_text(encoding="ascii") for lock in locks)])
    if wanted.exists() and wanted.read_text(encoding="ascii") == state:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.whl"):
        old.unlink()
    for lock in locks:
        needed = folder / f".{lock.name}"
        needed.write_text(_needed(lock.read_text(encoding="ascii"), platform), encoding="ascii")
        _download(["--require-hashes", f"--requirement={needed}"], platform, folder)
        needed.unlink()
    from importlib.metadata import version

    _download([f"pip=={version('pip')}"], platform, folder)
    wanted.write_text(state, encoding="ascii")


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
    minors = range(platform.glibc, OLDEST_GLIBC - 1, -1)
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--no-deps", "--only-binary=:all:", "--implementation=cp"),
        f"--python-version={platform.version}",
        *(f"--platform=manylinux_2_{minor}_{platform.machine}" for minor in minors),
        f"--platform=manylinux2014_{platform.machine}",
        f"--dest={folder}",
        *what,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoWheels(f"pip download failed: {done.stderr.strip()[-2000:]}")
