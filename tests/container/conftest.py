"""Fixtures of a whole run: the engine, the images of this checkout, a control plane in containers.

Where no engine runs and none can be started, or nothing can be had that images stand on, tests skip
on a laptop and fail in CI (`CI=true`).
"""

import os
from collections.abc import Iterator

import docker
import pytest

from tools.harness.containers.control_plane import control_plane
from tools.harness.containers.engine.engine import NoEngine, engine
from tools.harness.containers.engine.lab import DockerLab
from tools.harness.containers.networks.network import Network
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fixtures import lack, require_program
from tools.images.__main__ import build_all
from tools.images.base import NoBase

# Not a release's: what is tested may be anything.
TAG = "test"


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[docker.DockerClient]:
    try:
        with engine() as client:
            yield client
    except NoEngine as error:
        lack(str(error))


@pytest.fixture(scope="session")
def images(docker_engine: docker.DockerClient) -> dict[str, str]:
    """The images of this checkout, built now: an id by component, since a run of another checkout
    gives the names to its own; and the name of their `base`."""
    try:
        built = build_all(docker_engine, tag=TAG)
        base = built.pop("base")
        ids = {key: str(docker_engine.images.get(name).id) for key, name in built.items()}
        return {"base": base, **ids}
    except NoBase as error:
        lack(str(error))


@pytest.fixture(scope="session")
def docker_lab(docker_engine: docker.DockerClient, images: dict[str, str]) -> Iterator[DockerLab]:
    with DockerLab(docker_engine, base=images["base"]) as it:
        yield it


@pytest.fixture(scope="session")
def cloud(docker_lab: DockerLab) -> Network:
    """Where the API server is."""
    return Network(docker_lab, f"edge-sidecars-cloud-{os.getpid()}")


@pytest.fixture(scope="session")
def watched(docker_lab: DockerLab) -> Network:
    """From where tests look at pods; no fault touches it."""
    return Network(docker_lab, f"edge-sidecars-watched-{os.getpid()}", is_closed=True)


@pytest.fixture(scope="session")
def plane(docker_lab: DockerLab, cloud: Network) -> Iterator[ControlPlane]:
    """Shared: who stops or freezes it undoes that."""
    for name in ("kube-apiserver", "etcd"):
        require_program(name)
    with control_plane(docker_lab, cloud) as it:
        yield it


@pytest.fixture
def namespace(plane: ControlPlane) -> str:
    """The name of a fresh namespace."""
    return plane.create_namespace()
