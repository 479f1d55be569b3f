"""The archives of a release: the same twice, loaded into an engine, and run on both machines."""

import io
import json
import os
import shutil
import ssl
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.container.test_images import DATA, FLAGS, NOBODY, wait_healthy
from tools.harness.containers.engine.lab import DockerLab
from tools.harness.containers.networks.network import Network
from tools.harness.containers.vip import LEASE_DURATION, TAG, VipPods
from tools.harness.controlplane.clients.answer import boottime
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fixtures import lack
from tools.images.__main__ import release, revision
from tools.images.assemble import COMPONENTS
from tools.images.base import ROOT
from tools.images.keepalived import KEEPALIVED, keepalived_image
from tools.release.images.debian import KEEPALIVED as KEEPALIVED_PACKAGES
from tools.release.images.debian import MACHINES, PYTHON, pins

# Archives are built twice for two architectures, beside an engine's image.
pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(900, func_only=True)]
# Of all components the one with the most extensions in C, C++ and Rust, and with a folder for data.
COMPONENT = "relay"
IMAGES = {COMPONENTS[COMPONENT].image: PYTHON, KEEPALIVED: KEEPALIVED_PACKAGES}
REGISTRY = "registry.invalid/archives"
_BUILD = f"""
import sys
from pathlib import Path
from tools.release.images.assembly import Release, write_archives
release = Release({release()!r}, {revision(ROOT)!r}, 1_700_000_000, {REGISTRY!r})
target, architectures, components = Path(sys.argv[1]), {[*MACHINES]}, {[COMPONENT, KEEPALIVED]}
for it in write_archives(
    release, Path(), target, architectures=architectures, components=components
):
    print(it.name)
"""
# ELF's e_machine: EM_AARCH64.
_ELF, _AARCH64 = b"\x7fELF", 183
# Opens each extension of each package and of Python, with all that it links to.
_OPEN = """
import ctypes, os, platform, sys
from pathlib import Path
root = Path(sys.argv[1])
found = [*root.glob("app/lib/**/*.so"), *root.glob("usr/lib/python3.*/lib-dynload/*.so")]
for it in found:
    ctypes.CDLL(str(it), mode=os.RTLD_NOW)
print(platform.machine(), len(found))
"""


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two folders with the archives, made in other places, under another umask and zone of time."""
    if not shutil.which("mmdebstrap"):
        lack("mmdebstrap is missing: apt-get install mmdebstrap")
    folders = []
    for umask, zone in ((0o022, "UTC"), (0o077, "Asia/Tokyo")):
        folder = tmp_path_factory.mktemp("archives")
        home = tmp_path_factory.mktemp(f"build-{umask}")
        # As mmdebstrap's own user needs it, which is another one where it is not root.
        home.chmod(0o755)
        variables = {"TMPDIR": str(home), "TZ": zone, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        variables["HOME"] = str(Path.home())
        done = subprocess.run(
            [sys.executable, "-c", _BUILD, str(folder)],
            cwd=ROOT,
            env=variables,
            umask=umask,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        folders.append(folder)
    return folders


def test_two_builds_have_the_same_bytes(archives: list[Path]) -> None:
    one, two = ({it.name: it.read_bytes() for it in folder.iterdir()} for folder in archives)
    kinds = [f"{image}-{release()}-{machine}" for image in IMAGES for machine in MACHINES]
    assert sorted(one) == sorted(f"{it}.{suffix}" for it in kinds for suffix in ("cdx.json", "tar"))
    assert [name for name in one if one[name] != two[name]] == []


@pytest.mark.parametrize("architecture", MACHINES)
@pytest.mark.parametrize("image", IMAGES)
def test_what_is_listed_of_debian_is_what_is_locked(
    archives: list[Path], image: str, architecture: str
) -> None:
    listed = json.loads(archive_of(archives, image, architecture, "cdx.json").read_text("utf-8"))
    debian = [it for it in listed["components"] if it["purl"].startswith("pkg:deb/")]
    found = {f"{it['name']}={it['version']}" for it in debian}
    assert found == set(pins(IMAGES[image].lock(architecture).read_text("ascii")))


def archive_of(archives: list[Path], image: str, architecture: str, suffix: str = "tar") -> Path:
    return archives[0] / f"{image}-{release()}-{architecture}.{suffix}"


def test_an_engine_loads_the_image_that_it_would_build(
    archives: list[Path], docker_lab: DockerLab, images: dict[str, str]
) -> None:
    client = docker_lab.client
    image = COMPONENTS[COMPONENT].image
    [loaded] = client.images.load(archive_of(archives, image, "amd64").read_bytes())
    assert loaded.tags == [f"{REGISTRY}/{image}:{release()}"]
    built = client.images.get(images[COMPONENT]).attrs["Config"]
    given = loaded.attrs["Config"]
    for key in ("Entrypoint", "Env", "ExposedPorts", "Healthcheck", "User", "WorkingDir", "Labels"):
        assert given[key] == built[key], key
    container = docker_lab.start(
        loaded.tags[0],
        FLAGS[COMPONENT],
        network_mode="none",
        volumes=[DATA[COMPONENT]],
    )
    try:
        wait_healthy(container)
    finally:
        container.remove(force=True, v=True)


def test_an_address_goes_from_leader_to_leader_by_the_archive_of_keepalived(
    archives: list[Path],
    docker_lab: DockerLab,
    images: dict[str, str],
    plane: ControlPlane,
    cloud: Network,
    watched: Network,
) -> None:
    client = docker_lab.client
    [loaded] = client.images.load(archive_of(archives, KEEPALIVED, "amd64").read_bytes())
    assert loaded.tags == [f"{REGISTRY}/{KEEPALIVED}:{release()}"]
    built = client.images.get(keepalived_image(client, tag=TAG)).attrs["Config"]
    for key in ("Cmd", "Entrypoint", "Env", "User", "WorkingDir"):
        assert loaded.attrs["Config"][key] == built[key], key
    with VipPods(
        docker_lab,
        {**images, "keepalived": loaded.tags[0]},
        plane=plane,
        namespace=plane.create_namespace("vip"),
        networks=(cloud, watched),
        count=2,
    ) as pods:
        old, since = pods.settled(), boottime()
        old.elector.container.kill("SIGTERM")
        pods.node_observer.hand_over(old.name, since=since, timeout=LEASE_DURATION + 10)
        assert pods.node_observer.findings() == []


@pytest.fixture(scope="module", params=IMAGES)
def foreign(
    request: pytest.FixtureRequest, archives: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The files of an image for arm64."""
    root = tmp_path_factory.mktemp("arm64")
    with tarfile.open(archive_of(archives, request.param, "arm64")) as archive:

        def content(name: str) -> bytes:
            file = archive.extractfile(name)
            assert file is not None
            return file.read()

        [saved] = json.loads(content("manifest.json"))
        owners: dict[str, int] = {}
        for name in saved["Layers"]:
            with tarfile.open(fileobj=io.BytesIO(content(name))) as layer:
                owners |= {f"/{it.name}": it.uid for it in layer}
                layer.extractall(root, filter="tar")
    assert request.param == KEEPALIVED or owners.pop(DATA[COMPONENT]) == NOBODY
    assert set(owners.values()) == {0}
    return root


def test_each_program_and_library_for_arm64_is_for_arm64(foreign: Path) -> None:
    found = {
        str(it.relative_to(foreign)): int.from_bytes(head[18:20], "little")
        for it in foreign.rglob("*")
        if it.is_file() and not it.is_symlink()
        if (head := it.read_bytes()[:20])[:4] == _ELF
    }
    assert len(found) > 50
    assert {name: it for name, it in found.items() if it != _AARCH64} == {}


def test_an_image_has_nothing_of_the_machine_that_made_it_and_nothing_to_read(
    foreign: Path,
) -> None:
    made = ("etc/apt/sources.list", "etc/fstab", "etc/hostname", "etc/resolv.conf")
    assert [it for it in (*made, "usr/share/man", "build") if (foreign / it).exists()] == []
    assert not any((foreign / "dev").glob("*"))


@pytest.mark.parametrize("foreign", [COMPONENTS[COMPONENT].image], indirect=True)
def test_the_image_for_arm64_has_each_library_that_its_extensions_link_to(foreign: Path) -> None:
    [python] = (foreign / "usr/bin").glob("python3.*")
    machine, number = output(foreign, python, "-IBOO", "-c", _OPEN, str(foreign)).split()
    assert machine == "aarch64"
    assert int(number) > 50


@pytest.mark.parametrize("foreign", [COMPONENTS[COMPONENT].image], indirect=True)
def test_an_image_trusts_the_authorities_that_debian_trusts(foreign: Path) -> None:
    trusted = foreign / "usr/lib/ssl/cert.pem"
    assert os.readlink(trusted) == "/etc/ssl/certs/ca-certificates.crt"
    context = ssl.create_default_context(cafile=foreign / "etc/ssl/certs/ca-certificates.crt")
    assert context.cert_store_stats()["x509_ca"] > 100


@pytest.mark.parametrize("foreign", [KEEPALIVED], indirect=True)
def test_keepalived_and_its_check_for_arm64_have_their_libraries(foreign: Path) -> None:
    for program in ("usr/sbin/keepalived", "usr/bin/curl"):
        output(foreign, foreign / program, "--version")


def output(root: Path, program: Path, *arguments: str) -> str:
    """Of a program for arm64."""
    qemu = shutil.which("qemu-aarch64-static")
    if not qemu:
        lack("qemu-aarch64-static is missing: apt-get install qemu-user-static")
    done = subprocess.run(
        [qemu, "-L", str(root), str(program), *arguments],
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
