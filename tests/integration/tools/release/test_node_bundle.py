"""`make release-node`: an archive that a node without a network installs, whatever was there."""

import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from edge_sidecars.runtime.version import VERSION
from tools.release.node.bundle import Target, write_bundle

pytestmark = [pytest.mark.long, pytest.mark.slow]

ROOT = Path(__file__).parents[4]


@dataclass(frozen=True)
class Node:
    """An unpacked bundle, and where it is installed."""

    bundle: Path
    place: Path

    def install(self, **environ: str) -> "subprocess.CompletedProcess[str]":
        """Where the tests' user may, in a network namespace without any interface."""
        away = ["unshare", "--net"] if os.geteuid() == 0 and shutil.which("unshare") else []
        places = {
            "PREFIX": str(self.place / "opt"),
            "BINDIR": str(self.place / "bin"),
            "PYTHON": sys.executable,
            "PIP_INDEX_URL": "http://127.0.0.1:9",
        }
        return subprocess.run(
            [*away, str(self.bundle / "install")],
            env={"PATH": os.environ["PATH"]} | places | environ,
            capture_output=True,
            text=True,
            check=False,
        )

    def run(self, program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [str(self.place / "bin" / program), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def home(self) -> Path:
        """Where this bundle goes."""
        lines = (self.bundle / "bundle").read_text().splitlines()
        facts = dict(line.split("=") for line in lines)
        return self.place / "opt" / f"{facts['BUNDLE_VERSION']}-{facts['BUNDLE_ID']}"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = Target.of_this_machine()
    folder = tmp_path_factory.mktemp("bundle")
    path = write_bundle(target, ROOT, folder / "dist")
    with tarfile.open(path) as archive:
        archive.extractall(folder, filter="data")
    return folder / target.name


@pytest.fixture
def node(bundle: Path, tmp_path: Path) -> Node:
    return Node(Path(shutil.copytree(bundle, tmp_path / "bundle")), tmp_path)


def test_a_node_without_a_network_installs_it_beside_what_runs_and_over_what_was_cut_short(
    node: Node,
) -> None:
    older = node.place / "opt" / "0.2.9-00000000" / "bin"
    older.mkdir(parents=True)
    (node.place / "bin").mkdir()
    (node.place / "bin" / "relay-sidecar").symlink_to(older / "relay-sidecar")
    half = node.home() / "bin" / "python"
    half.parent.mkdir(parents=True)
    half.write_text("half")

    done = node.install()
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("next: relay-sidecar node install --dry-run\n")
    assert node.run("relay-sidecar", "--version").stdout.split()[-1] == VERSION
    refused = node.run("relay-sidecar", "node", "install", "--kubelet-kubeconfig=/nowhere")
    assert "--kubelet-kubeconfig /nowhere does not exist" in refused.stderr
    assert "release KEY" in node.run("sticky-ipam", "help").stderr
    assert older.exists()

    kept = node.home() / "kept"
    kept.touch()
    assert node.install().returncode == 0
    assert kept.exists()


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        ("BUNDLE_PYTHON=2.7", "this bundle is for 2.7: name another one in PYTHON="),
        ("BUNDLE_MACHINE=vax", "this bundle is for vax: take the bundle for "),
    ],
)
def test_a_bundle_for_other_nodes_says_so_and_changes_nothing(
    node: Node, fact: str, said: str
) -> None:
    with (node.bundle / "bundle").open("a") as facts:
        facts.write(f"{fact}\n")
    done = node.install()
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert said in line
    assert not (node.place / "opt").exists()


def test_a_package_that_was_changed_is_not_installed(node: Node) -> None:
    (wheel,) = (node.bundle / "wheels").glob("idna-*.whl")
    wheel.write_bytes(wheel.read_bytes() + b"x")
    done = node.install()
    assert done.returncode != 0
    assert "HASH" in done.stderr
    assert not (node.place / "bin" / "relay-sidecar").exists()


def test_the_archive_of_a_release_has_the_same_bytes(bundle: Path, tmp_path: Path) -> None:
    """Which takes the wheel that the release has already."""
    (own,) = (bundle / "wheels").glob("edge_sidecars-*.whl")
    again = write_bundle(Target.of_this_machine(), ROOT, tmp_path, own=own)
    assert again.read_bytes() == (bundle.parent / "dist" / again.name).read_bytes()
