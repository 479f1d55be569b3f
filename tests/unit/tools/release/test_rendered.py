"""What `make release` writes: every overlay, as kustomize builds it, from any registry."""

import re
import subprocess
import sys

import pytest
import yaml

from tests.unit.manifests.built import MANIFESTS
from tests.unit.repository.checkout import ROOT
from tools.harness.controlplane.fixtures import require_program
from tools.harness.controlplane.kustomize import kustomize, kustomize_text
from tools.release.rendered import folders, with_registry

FOLDERS = dict(folders(MANIFESTS))


def rendered(name: str) -> str:
    return kustomize_text(FOLDERS[name], kubectl=require_program("kubectl"))


def test_every_overlay_is_rendered() -> None:
    overlays = {it.parent.name for it in (MANIFESTS / "overlays").glob("*/kustomization.yaml")}
    assert overlays <= FOLDERS.keys()
    assert {"injection", "monitoring", "pool", "node"} <= FOLDERS.keys()


@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_another_registry_changes_our_images_and_nothing_else(name: str) -> None:
    text = rendered(name)
    moved = with_registry(text, "registry.example.com:5000/edge/")
    assert moved.replace("registry.example.com:5000/edge/", "edge-sidecars/") == text
    images = set(re.findall(r"image: (\S+)", moved))
    assert not any(it.startswith("edge-sidecars/") for it in images)
    assert list(yaml.safe_load_all(text)) == kustomize(FOLDERS[name])


def test_injection_takes_its_image_from_the_registry_too() -> None:
    moved = with_registry(rendered("injection"), "registry.example.com/edge")
    images = re.findall(r"edge-sidecars\.io/image: (\S+)", moved)
    assert images
    assert all(it.startswith("registry.example.com/edge/") for it in images)


def test_what_is_no_registry_is_refused_in_one_line() -> None:
    command = [sys.executable, "-m", "tools.release", "--registry", "https://example.com"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "'https://example.com'" in line
    assert "registry.example.com/edge" in line
