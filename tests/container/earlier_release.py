"""Images of an earlier state of this project, from which those of this checkout are an upgrade.

Of the first commit that had images, where the checkout knows it. A shallow clone or an unpacked
archive does not: its own files under another version's number are the earlier state then.
"""

import shutil
import subprocess
from pathlib import Path

import docker

from tools.images.__main__ import build, image_name, release
from tools.images.base import ROOT, say
from tools.images.wheels import platform_of, provide

# "Build an image of each component from one Dockerfile, with make images".
EARLIEST = "0bcab49f1f416ab3d42ef9f616fe2db0ed24f634"
EARLIER_RELEASE = "0.0.1"
# What the Dockerfile of that commit copies, and what today's does.
EARLIEST_SOURCES = (
    *("images", "requirements", "sidecar", "kubeapi"),
    *("elector-sidecar", "relay-sidecar", "sedna-api", "gm", "lc"),
)
SOURCES = (
    *("tools/images", "tools/requirements", "lib"),
    *("elector-sidecar", "relay-sidecar", "pool-sidecar", "gm", "lc"),
)
# Those that there were then.
EARLIER_COMPONENTS = ("elector", "relay", "gm", "lc")


def build_earlier(
    client: docker.DockerClient, folder: Path, *, base: str, tag: str
) -> dict[str, str]:
    """As tools.images.__main__.build_all; `folder` is empty, and holds the sources then."""
    of = _known(folder) or _renumbered(folder)
    locks = [
        next(folder.rglob(f"requirements/{component}.txt")) for component in EARLIER_COMPONENTS
    ]
    dockerfile = next(folder.rglob("images/Dockerfile"))
    provide(locks, platform_of(client, base), folder / "build" / "wheels")
    say(f"earlier images: of {of}")
    for component in EARLIER_COMPONENTS:
        build(client, component, base=base, tag=tag, source=folder, dockerfile=dockerfile)
    return {
        "base": base,
        **{component: image_name(component, tag) for component in EARLIER_COMPONENTS},
    }


def _known(folder: Path) -> str:
    """What it is; "" where git or the commit is not there."""
    command = ["git", "-C", str(ROOT), "archive", EARLIEST, *EARLIEST_SOURCES]
    try:
        archive = subprocess.run(command, capture_output=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        return ""
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    return f"commit {EARLIEST[:7]}"


def _renumbered(folder: Path) -> str:
    for name in SOURCES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for path in folder.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(f'"{release()}"', f'"{EARLIER_RELEASE}"'), encoding="utf-8")
    return f"this checkout as {EARLIER_RELEASE}"
