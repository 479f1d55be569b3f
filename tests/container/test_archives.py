"""The archives of a release: the same twice, loaded into an engine, and run on both machines."""

import io
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.container.test_images import DATA, FLAGS, NOBODY, wait_healthy
from tools.harness.containers.engine.lab import DockerLab
from tools.harness.controlplane.fixtures import lack
from tools.images.__main__ import release, revision
from tools.images.assemble import COMPONENTS
from tools.images.base import ROOT

# Archives are built twice for two architectures, beside an engine's image.
pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(900, func_only=True)]
# Of all components the one with the most extensions in C, C++ and Rust, and with a folder for data.
COMPONENT = "relay"
REGISTRY = "registry.invalid/archives"
_BUILD = f"""
import sys
from pathlib import Path
from tools.release.images.assembly import Release, write_archives
release = Release({release()!r}, {revision(ROOT)!r}, 1_700_000_000, {REGISTRY!r})
target, architectures, components = Path(sys.argv[1]), ("amd64", "arm64"), ({COMPONENT!r},)
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
    stem = f"{COMPONENTS[COMPONENT].image}-{release()}"
    kinds = [f"{stem}-{machine}" for machine in ("amd64", "arm64")]
    assert sorted(one) == sorted(f"{it}.{suffix}" for it in kinds for suffix in ("cdx.json", "tar"))
    assert [name for name in one if one[name] != two[name]] == []


def archive_of(archives: list[Path], architecture: str) -> Path:
    return archives[0] / f"{COMPONENTS[COMPONENT].image}-{release()}-{architecture}.tar"


def test_an_engine_loads_the_image_that_it_would_build(
    archives: list[Path], docker_lab: DockerLab, images: dict[str, str]
) -> None:
    client = docker_lab.client
    [loaded] = client.images.load(archive_of(archives, "amd64").read_bytes())
    assert loaded.tags == [f"{REGISTRY}/{COMPONENTS[COMPONENT].image}:{release()}"]
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


@pytest.fixture(scope="module")
def foreign(archives: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the image for arm64."""
    root = tmp_path_factory.mktemp("arm64")
    with tarfile.open(archive_of(archives, "arm64")) as archive:

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
    assert owners.pop(DATA[COMPONENT]) == NOBODY
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


def test_the_image_for_arm64_has_each_library_that_its_extensions_link_to(foreign: Path) -> None:
    qemu = shutil.which("qemu-aarch64-static")
    if not qemu:
        lack("qemu-aarch64-static is missing: apt-get install qemu-user-static")
    [python] = (foreign / "usr/bin").glob("python3.*")
    command = [qemu, "-L", str(foreign), str(python), "-IBOO"]
    done = subprocess.run(
        [*command, "-c", _OPEN, str(foreign)],
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    machine, number = done.stdout.split()
    assert machine == "aarch64"
    assert int(number) > 50
