"""`make images`: the four images, and how large each is over its base.

Finds or starts an engine; makes a base image where none is named and the Dockerfile's own cannot
be pulled. Exit status: 0 when all are built, 1 with a line that says what failed.
"""

import argparse
import sys
import time
import tomllib
from collections.abc import Iterable
from pathlib import Path

import docker
from docker.errors import APIError, BuildError, ImageNotFound

from images.assemble import COMPONENTS
from images.base import NoBase, base_image
from images.wheels import NoWheels, fetch, platform_of
from tests.container.engine import NoEngine, engine

ROOT = Path(__file__).parent.parent
DOCKERFILE = ROOT / "images" / "Dockerfile"
WHEELS = ROOT / "build" / "wheels"
MEGABYTE = 1_000_000


def main() -> int:
    it = argparse.ArgumentParser(prog="make images", description=(__doc__ or "").splitlines()[0])
    it.add_argument("--base", help="an image with Python; default: the Dockerfile's, or a made one")
    it.add_argument("--tag", default=release(), help="default: the release's number")
    it.add_argument("--only", choices=[*COMPONENTS], action="append", help="repeat for several")
    options = it.parse_args()
    try:
        with engine() as client:
            wanted = options.only or [*COMPONENTS]
            images = build_all(client, tag=options.tag, base=options.base, components=wanted)
            print(table(client, wanted, base=images["base"], tag=options.tag))
    except (NoEngine, NoBase, NoWheels) as error:
        _say(str(error))
        return 1
    except BuildError as error:
        _say("".join(str(line.get("stream", line)) for line in error.build_log)[-3000:])
        return 1
    return 0


def release() -> str:
    """What pyproject.toml says."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return str(tomllib.loads(text)["project"]["version"])


def lock(component: str) -> Path:
    """The component's locked packages."""
    return ROOT / "requirements" / f"{component}.txt"


def image_name(component: str, tag: str) -> str:
    """As the manifests call it, but for a registry."""
    return f"edge-sidecars/{COMPONENTS[component].program}:{tag}"


def build_all(
    client: docker.DockerClient,
    *,
    tag: str,
    base: str | None = None,
    components: Iterable[str] = COMPONENTS,
) -> dict[str, str]:
    """The name of the image of each component, and of their `base`. Raises NoBase, NoWheels,
    docker.errors.BuildError."""
    images = {"base": base or _pulled(client) or base_image(client)}
    fetch([lock(name) for name in COMPONENTS], platform_of(client, images["base"]), WHEELS)
    for name in components:
        _say(f"{name}: building")
        build(client, name, base=images["base"], tag=tag)
        images[name] = image_name(name, tag)
    return images


def build(client: docker.DockerClient, component: str, *, base: str, tag: str) -> None:
    """One image. Raises docker.errors.BuildError."""
    client.images.build(
        path=str(ROOT),
        dockerfile=str(DOCKERFILE),
        tag=image_name(component, tag),
        buildargs={"BASE_IMAGE": base, "COMPONENT": component},
        rm=True,
        forcerm=True,
    )


def table(client: docker.DockerClient, components: list[str], *, base: str, tag: str) -> str:
    """Sizes in MB of what lies over the base, as the engine counts them."""
    of_base = client.images.get(base).attrs["Size"]
    rows = [f"{'IMAGE':44} {'OVER BASE':>10} {'ALL':>8}"]
    for component in components:
        name = image_name(component, tag)
        size = client.images.get(name).attrs["Size"]
        over = (size - of_base) / MEGABYTE
        rows.append(f"{name:44} {over:>7.1f} MB {size / MEGABYTE:>5.1f} MB")
    return "\n".join(rows)


def _pulled(client: docker.DockerClient) -> str:
    """The Dockerfile's own base image; "" where it is neither there nor can be fetched."""
    line = next(
        line for line in DOCKERFILE.read_text().splitlines() if line.startswith("ARG BASE_IMAGE=")
    )
    name = line.partition("=")[2]
    try:
        client.images.get(name)
    except ImageNotFound:
        _say(f"fetching {name}")
        try:
            client.images.pull(name)
        except APIError as error:
            _say(f"it cannot be fetched ({error.explanation}): the base image is made here")
            return ""
    return name


def _say(message: str) -> None:
    print(f"[images {time.strftime('%H:%M:%S')}] {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
