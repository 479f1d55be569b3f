"""`make images`: an image of each component and one of keepalived, and how large they are.

Finds or starts an engine; makes a base image where none is named and the Dockerfile's own cannot
be pulled. Exit status: 0 when all are built, 1 with a line that says what failed.
"""

import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import docker
from docker.errors import BuildError

from edge_sidecars.runtime.cli.parser import Parser
from edge_sidecars.runtime.process import exit_on_bad_input
from edge_sidecars.runtime.version import VERSION
from tools.harness.containers.engine.engine import NoEngine, engine
from tools.images import OWN_IMAGES
from tools.images.assemble import COMPONENTS
from tools.images.base import ROOT, NoBase, base_image, pulled, say
from tools.images.keepalived import KEEPALIVED, keepalived_image
from tools.images.wheels import NoWheels, platform_of, provide

DOCKERFILE = ROOT / "tools" / "images" / "Dockerfile"
WHEELS = ROOT / "build" / "wheels"
MEGABYTE = 1_000_000


def main() -> int:
    it = Parser(prog="make images", description=(__doc__ or "").splitlines()[0])
    it.add_argument(
        "--base",
        metavar="IMAGE",
        help="an image with Python; default: the Dockerfile's, or a made one",
    )
    it.add_argument("--tag", metavar="TAG", default=release(), help="default: the release's number")
    choices = [*COMPONENTS, KEEPALIVED]
    it.add_argument("--only", choices=choices, action="append", help="repeat for several")
    with exit_on_bad_input("make images"):
        options = it.parse_args()
    wanted = options.only or choices
    try:
        with engine() as client:
            images: dict[str, str] = {}
            components = [name for name in wanted if name != KEEPALIVED]
            if components:
                images |= build_all(
                    client, tag=options.tag, base=options.base, components=components
                )
            if KEEPALIVED in wanted:
                say("keepalived: building")
                images[KEEPALIVED] = keepalived_image(client, tag=options.tag)
            print(table(client, images))
    except (NoEngine, NoBase, NoWheels) as error:
        say(str(error))
        return 1
    except BuildError as error:
        say("".join(str(line.get("stream", line)) for line in error.build_log)[-3000:])
        return 1
    return 0


def release() -> str:
    """Its number."""
    return VERSION


def revision(source: Path) -> str:
    """The commit of a checkout; "" where git cannot tell, as of a tarball."""
    command = ["git", "-C", str(source), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def lock(component: str) -> Path:
    """The component's locked packages."""
    return ROOT / "tools" / "requirements" / f"{component}.txt"


def image_name(component: str, tag: str) -> str:
    """The name of a component's image, as the manifests call it."""
    return f"{OWN_IMAGES}/{COMPONENTS[component].image}:{tag}"


def build_all(
    client: docker.DockerClient,
    *,
    tag: str,
    base: str | None = None,
    components: Iterable[str] = tuple(COMPONENTS),
) -> dict[str, str]:
    """The name of the image of each component, and of their `base`. Raises NoBase,
    NoWheels, docker.errors.BuildError."""
    images = {"base": base or pulled(client, DOCKERFILE) or base_image(client)}
    provide([lock(name) for name in COMPONENTS], platform_of(client, images["base"]), WHEELS)
    for name in components:
        say(f"{name}: building")
        build(client, name, base=images["base"], tag=tag)
        images[name] = image_name(name, tag)
    return images


def build(
    client: docker.DockerClient,
    component: str,
    *,
    base: str,
    tag: str,
    source: Path = ROOT,
    dockerfile: Path = DOCKERFILE,
) -> None:
    """One image, of the checkout in `source`. Raises docker.errors.BuildError."""
    client.images.build(
        path=str(source),
        dockerfile=str(dockerfile),
        tag=image_name(component, tag),
        buildargs={
            "BASE_IMAGE": base,
            "VERSION": release(),
            "REVISION": revision(source),
            "COMPONENT": component,
        },
        rm=True,
        forcerm=True,
    )


def table(client: docker.DockerClient, images: Mapping[str, str]) -> str:
    """Sizes in MB, as the engine counts them, and what of it lies over `base`."""

    def size(image: str) -> float:
        return int(client.images.get(image).attrs["Size"]) / MEGABYTE

    rows = [f"{'IMAGE':44} {'OVER BASE':>10} {'ALL':>8}"]
    for component, image in images.items():
        if component == "base":
            continue
        # keepalived's is Debian's, with keepalived in it or without.
        over = "" if component == KEEPALIVED else f"{size(image) - size(images['base']):.1f} MB"
        rows.append(f"{image:44} {over:>10} {size(image):>5.1f} MB")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
