"""What images are built on: what a Dockerfile names, or where no registry can be reached, Debian.

Components then stand on Debian's Python and nothing that it lacks: made by mmdebstrap, from the
machine's own package sources where it is a Debian of that suite, and imported into the engine. No
shell, no package manager, no pip: what runs on it needs none. Other images of Debian packages are
made the same way. Made once; again when what it is made from has changed.
"""

import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import docker
from docker.errors import APIError, ImageNotFound

from tools.images import OWN_IMAGES

ROOT = Path(__file__).parents[2]
SUITE = "bookworm"
# libstdc++6: extensions in C++ need it, and every Debian with apt has it.
PACKAGES = ("python3", "ca-certificates", "libstdc++6")
LABEL = "edge-sidecars.made-of"
# Nothing of it is for people to read, and nothing tells of the machine that made it.
CLEAN = (
    'rm -rf "$1"/usr/share/doc/*/changelog* "$1"/usr/share/doc/*/*/ "$1"/usr/share/man '
    '"$1"/usr/share/locale "$1"/var/log/* "$1"/usr/share/info '
    '"$1"/etc/apt/sources.list* "$1"/etc/fstab "$1"/etc/hostname "$1"/etc/resolv.conf'
)
# Packages are unpacked, not configured (there is no shell in it to do that), so the file of all
# certificates is put together here, from the outside.
HOOKS = (
    'cat "$1"/usr/share/ca-certificates/mozilla/*.crt >"$1"/etc/ssl/certs/ca-certificates.crt',
    CLEAN,
)


class NoBase(Exception):
    """The base image cannot be made; the message says why."""


def pulled(client: docker.DockerClient, dockerfile: Path) -> str:
    """The Dockerfile's own base image; "" where it is neither there nor can be fetched."""
    lines = dockerfile.read_text(encoding="utf-8").splitlines()
    line = next(line for line in lines if line.startswith("ARG BASE_IMAGE="))
    name = line.partition("=")[2]
    try:
        client.images.get(name)
    except ImageNotFound:
        say(f"fetching {name}")
        try:
            client.images.pull(name)
        except APIError as error:
            say(f"it cannot be fetched ({error.explanation}): the base image is made here")
            return ""
    return name


def base_image(client: docker.DockerClient) -> str:
    """Its name, made first where it is missing. Raises NoBase."""
    name = f"{OWN_IMAGES}/base:{SUITE}"
    return debian_image(client, name, packages=PACKAGES, variant="extract", hooks=HOOKS)


def debian_image(
    client: docker.DockerClient,
    name: str,
    *,
    packages: Sequence[str],
    variant: str = "minbase",
    hooks: Sequence[str] = (),
) -> str:
    """`name`, once the engine has an image of it that is made of these packages. Raises NoBase."""
    recipe = repr((SUITE, tuple(packages), variant, tuple(hooks)))
    made_of = hashlib.sha256(recipe.encode()).hexdigest()[:16]
    try:
        if client.images.get(name).labels.get(LABEL) == made_of:
            return name
    except ImageNotFound:
        pass
    with tempfile.TemporaryDirectory(prefix="edge-sidecars-base-") as folder:
        archive = Path(folder, "root.tar")
        debootstrap(archive, packages=packages, variant=variant, hooks=hooks)
        repository, _, tag = name.partition(":")
        changes = [f"LABEL {LABEL}={made_of}"]
        client.api.import_image(str(archive), repository=repository, tag=tag, changes=changes)
    return name


def debootstrap(
    archive: Path,
    *,
    packages: Sequence[str],
    variant: str,
    hooks: Sequence[str] = (),
    options: Sequence[str] = (),
    mirror: str = "",
) -> None:
    """A file system of Debian packages, as tar. `hooks` run when they are unpacked. `mirror`:
    where from, "" for the machine's own sources. Raises NoBase."""
    command = [
        "mmdebstrap",
        "--quiet",
        f"--variant={variant}",
        f"--include={','.join(packages)}",
        *(f"--extract-hook={hook}" for hook in hooks),
        *options,
        SUITE,
        str(archive),
        *([mirror] if mirror else []),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise NoBase("mmdebstrap is missing: apt-get install mmdebstrap") from error
    if done.returncode != 0:
        raise NoBase(f"mmdebstrap failed: {done.stderr.strip()[-2000:]}")


def say(message: str) -> None:
    """A line of progress."""
    print(f"[images {time.strftime('%H:%M:%S')}] {message}", file=sys.stderr, flush=True)
