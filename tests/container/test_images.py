"""What is in the images, and that each runs as manifests run it: as nobody, read-only, no shell."""

import io
import json
import os
import tarfile
import time
from collections.abc import Iterator
from typing import Any

import docker
import pytest
from docker.errors import ContainerError
from docker.models.containers import Container

from tools.harness.containers.engine.lab import DockerLab
from tools.images.__main__ import lock, release, revision
from tools.images.assemble import COMPONENTS, LIBRARY
from tools.images.base import ROOT

# Images are built, a control plane is started: for the first test that needs them.
pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(300, func_only=True)]
NOBODY = 65532
# MB over the base image.
LARGEST = {"elector": 45, "relay": 76, "pool": 70, "gm": 110, "lc": 110}
# With these each runs and answers, though it reaches nobody.
FLAGS = {
    "elector": ["--lease=it", "--namespace=default", "--server=http://127.0.0.1:1"],
    "relay": ["--server=http://127.0.0.1:1"],
    # The member needs a node's kubeconfig; where it listens is where the image's check asks.
    "pool": ["controller", "--server=http://127.0.0.1:1", "--listen=127.0.0.1:10553"],
    "gm": ["--mode=active-active"],
    "lc": ["--gm-address=127.0.0.1:1", "--node=n1"],
}
DATA = {
    "relay": "/var/lib/relay-sidecar",
    "pool": "/var/lib/pool-sidecar",
    "lc": "/rootfs/var/lib/sedna",
}
# Nanoseconds between two checks, and until one is given up on a busy machine.
CHECK_INTERVAL, CHECK_TIMEOUT = 2_000_000_000, 30_000_000_000
# Seconds until an engine has asked and been answered.
HEALTHY_TIMEOUT = 120.0
EACH = pytest.mark.parametrize("component", COMPONENTS)

# The top level of what is in an image, and each folder that no import needs.
_CONTENTS = """
import importlib.metadata as metadata, json, os
library = metadata.distributions(path=["/app/lib"])
folders = list(os.walk("/app"))
stdlib = os.path.dirname(os.__file__)
sources = [(root, name[:-3]) for top in ("/app/src", f"{stdlib}/asyncio", f"{stdlib}/json")
           for root, _, names in os.walk(top) for name in names if name.endswith(".py")]
programs = [it for folder in ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin")
            if os.path.isdir(folder) for it in os.listdir(folder)]
compiled = lambda root: {it.partition(".")[0] for it in os.listdir(f"{root}/__pycache__")
                         if it.endswith(".opt-2.pyc")}
print(json.dumps({
    "own": sorted(os.listdir("/app/src")),
    "programs": sorted(os.listdir("/app/bin")),
    "foreign": [it for it in programs if not it.startswith("python")],
    "locked": sorted(f"{it.name.lower().replace('_', '-')}=={it.version}" for it in library),
    "ballast": [root for root, _, _ in folders
                if root.endswith(("/tests", "/test", "/SelfTest", "/pip"))],
    "uncompiled": [f"{root}/{name}" for root, name in sources if name not in compiled(root)],
    "writable": [root for root, _, _ in folders if os.access(root, os.W_OK)],
    "uid": os.getuid(),
}))
"""


def python(docker_lab: DockerLab, image: str, code: str) -> str:
    """What a program says in a container of the image, where nothing can be written."""
    told = docker_lab.client.containers.run(
        image,
        ["-c", code],
        entrypoint=["python3"],
        read_only=True,
        network_disabled=True,
        remove=True,
        stderr=True,
    )
    return bytes(told).decode()


@pytest.fixture(scope="module")
def running(docker_lab: DockerLab, images: dict[str, str]) -> Iterator[dict[str, Container]]:
    """One container of each image; whoever looks for a shell in it finds an empty file."""
    it = {
        component: docker_lab.start(
            images[component],
            FLAGS[component],
            network_mode="none",
            # The image's own check, sooner than after half a minute.
            healthcheck={"interval": CHECK_INTERVAL, "timeout": CHECK_TIMEOUT},
            volumes=["/dev/null:/bin/sh:ro", *([DATA[component]] if component in DATA else [])],
        )
        for component in COMPONENTS
    }
    yield it
    for container in it.values():
        container.remove(force=True, v=True)


@EACH
def test_an_image_is_small(docker_lab: DockerLab, images: dict[str, str], component: str) -> None:
    def size(image: str) -> int:
        return int(docker_lab.client.images.get(image).attrs["Size"])

    over = size(images[component]) - size(images["base"])
    assert over <= LARGEST[component] * 1_000_000


@EACH
def test_an_image_says_what_it_was_made_from(
    docker_lab: DockerLab, images: dict[str, str], component: str
) -> None:
    labels = docker_lab.client.images.get(images[component]).labels
    said = {
        name.rpartition(".")[2]: text
        for name, text in labels.items()
        if name.startswith("org.opencontainers.image.")
    }
    assert said["version"] == release()
    assert said["revision"] == revision(ROOT)
    assert said["licenses"] == "Apache-2.0"
    assert said["source"].startswith("https://")


def own_packages(component: str) -> set[str]:
    """What is imported of ours in the component's image."""
    it = COMPONENTS[component]
    return {it.package, *it.beside, *(f"{LIBRARY}.{name}" for name in it.library)}


@EACH
def test_an_image_holds_its_component_and_what_that_imports(
    docker_lab: DockerLab, images: dict[str, str], component: str
) -> None:
    contents: dict[str, Any] = json.loads(python(docker_lab, images[component], _CONTENTS))
    assert contents["uid"] == NOBODY
    it = COMPONENTS[component]
    assert contents["own"] == sorted((LIBRARY, it.package, *it.beside))
    assert contents["programs"] == sorted(filter(None, (it.program, it.old_program)))
    locked = [line for line in lock(component).read_text().splitlines() if "==" in line]
    wanted = {line.split()[0].lower() for line in locked}
    assert set(contents["locked"]) <= wanted
    # What is missing is not for this Python.
    missing = {name.partition("==")[0] for name in wanted - set(contents["locked"])}
    conditional = {line.partition("==")[0] for line in locked if ";" in line}
    assert missing <= conditional
    assert contents["foreign"] == [], "a shell, or another program of the base image"
    assert contents["ballast"] == contents["writable"] == contents["uncompiled"] == []


@EACH
def test_an_image_holds_no_foreign_component(
    docker_lab: DockerLab, images: dict[str, str], component: str
) -> None:
    foreign = set().union(*map(own_packages, COMPONENTS)) - own_packages(component)
    code = (
        "import sys, importlib.util as it; sys.path[:0] = ['/app/src', '/app/lib']\n"
        f"print([name for name in {sorted(foreign)} if it.find_spec(name)])"
    )
    assert python(docker_lab, images[component], code).strip() == "[]"


@EACH
def test_each_module_of_an_image_can_be_imported(
    docker_lab: DockerLab, images: dict[str, str], component: str
) -> None:
    """Whatever is imported late is there too, but for what an extra brings."""
    own = own_packages(component)
    code = f"""
import importlib, json, pkgutil, sys
sys.path[:0] = ["/app/src", "/app/lib"]
lacking = set()
for package in {list(own)}:
    folder = "/app/src/" + package.replace(".", "/")
    for it in pkgutil.walk_packages([folder], f"{{package}}."):
        if it.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(it.name)
        except ModuleNotFoundError as error:
            lacking.add((it.name, error.name))
print(json.dumps(sorted(lacking)))
"""
    lacking = json.loads(python(docker_lab, images[component], code))
    # The extras otel, node and sealing, which an image for pods does not need;
    # and what of the shared packages is for other components.
    allowed = {"opentelemetry", "grpc", "google", "msgspec", "uvloop", "yaml"}
    for module, name in lacking:
        top = name.partition(".")[0]
        of_extras = ("opentelemetry", "cryptography", "Crypto")
        is_of_an_extra = top in of_extras
        assert is_of_an_extra or (module.startswith(f"{LIBRARY}.") and top in allowed), module


@EACH
def test_an_image_without_arguments_says_what_it_lacks_and_exits_with_2(
    docker_lab: DockerLab, images: dict[str, str], component: str
) -> None:
    with pytest.raises(ContainerError) as caught:
        docker_lab.client.containers.run(images[component], remove=True, network_disabled=True)
    assert caught.value.exit_status == 2
    program = COMPONENTS[component].program
    assert f"{program}: " in str(caught.value)


def test_the_relays_image_has_the_cipher_for_secrets(
    docker_lab: DockerLab, images: dict[str, str]
) -> None:
    container = docker_lab.client.containers.create(
        images["relay"],
        ["--server=http://127.0.0.1:1", "--keep-secrets=/key"],
        network_disabled=True,
    )
    try:
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as archive:
            key = tarfile.TarInfo("key")
            key.size, key.mode, key.uid = 32, 0o600, NOBODY
            archive.addfile(key, io.BytesIO(os.urandom(32)))
        container.put_archive("/", content.getvalue())
        container.start()
        wait_healthy(container)
    finally:
        container.remove(force=True)


def wait_healthy(container: Container) -> None:
    """Returns when the engine says so, by the image's own check."""
    deadline = time.monotonic() + HEALTHY_TIMEOUT
    health: dict[str, Any] = {}
    while time.monotonic() < deadline:
        container.reload()
        assert container.status == "running", container.logs().decode()
        health = container.attrs["State"]["Health"]
        if health["Status"] == "healthy":
            return
        time.sleep(0.5)
    pytest.fail(f"{health}: {container.logs().decode()}")


@EACH
def test_the_engine_finds_a_container_healthy(
    running: dict[str, Container], component: str
) -> None:
    wait_healthy(running[component])


@EACH
def test_the_health_check_fails_where_nobody_answers(
    docker_lab: DockerLab, images: dict[str, str], component: str
) -> None:
    with pytest.raises(ContainerError) as caught:
        docker_lab.client.containers.run(
            images[component], ["livez"], remove=True, network_disabled=True, read_only=True
        )
    assert caught.value.exit_status == 1
    assert "no answer from" in str(caught.value)


@EACH
def test_a_container_obeys_sigterm(running: dict[str, Container], component: str) -> None:
    """The program is the container's first process: no shell stands between."""
    container = running[component]
    # The kernel keeps from a first process what it has no handler for, as while it begins.
    wait_healthy(container)
    started = time.monotonic()
    container.stop(timeout=60)
    assert container.wait()["StatusCode"] == 0
    assert time.monotonic() - started < 60


def test_no_image_needs_the_engine_to_make_a_volume(
    docker_engine: docker.DockerClient, images: dict[str, str]
) -> None:
    """One that nobody asked for would hide that the data is lost with its container."""
    for component in COMPONENTS:
        assert not docker_engine.images.get(images[component]).attrs["Config"]["Volumes"]
