"""What `make release` writes: every overlay, as kustomize builds it, from any registry."""

import re
import subprocess
import sys

import pytest
import yaml

from tests.unit.manifests.built import MANIFESTS
from tests.unit.repository.checkout import ROOT
from tools.harness.controlplane.fixtures import require_program
from tools.images import OWN_IMAGES
from tools.release.rendered import description, folders, rendered, with_registry

FOLDERS = dict(folders(MANIFESTS))
# Without a kustomization: `kubectl apply -f` takes these folders.
PLAIN = {"crds", "nodereport-policy"}


def text_of(name: str) -> str:
    return rendered(FOLDERS[name], kubectl=require_program("kubectl"))


def test_every_overlay_is_rendered_and_what_is_applied_beside_it() -> None:
    overlays = {it.parent.name for it in (MANIFESTS / "overlays").glob("*/kustomization.yaml")}
    assert overlays <= FOLDERS.keys()
    assert {"injection", "injection-v1beta1", "monitoring", "gm-namespace"} <= FOLDERS.keys()
    assert FOLDERS.keys() >= PLAIN


@pytest.mark.parametrize("name", sorted(PLAIN))
def test_a_folder_without_a_kustomization_is_its_files(name: str) -> None:
    objects = list(yaml.load_all(text_of(name), Loader=yaml.CSafeLoader))
    assert all(objects)
    texts = [it.read_text() for it in sorted(FOLDERS[name].glob("*.yaml"))]
    kinds = [kind for text in texts for kind in re.findall(r"^kind: (\S+)", text, re.MULTILINE)]
    assert [it["kind"] for it in objects] == kinds


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("active-active", "LCs talk to any GM; who leads decides for all."),
        (
            "injection",
            "Adds the elector or the relay to any pod by one label, without a webhook: "
            "docs/how-to/injection.md.",
        ),
    ],
)
def test_a_chart_is_described_by_the_first_sentence_of_its_kustomization(
    name: str, told: str
) -> None:
    assert description(FOLDERS[name]) == told


@pytest.mark.parametrize("name", sorted(FOLDERS.keys() - PLAIN))
def test_another_registry_changes_our_images_and_nothing_else(name: str) -> None:
    text = text_of(name)
    moved = with_registry(text, "registry.example.com:5000/edge/")
    assert moved.replace("registry.example.com:5000/edge/", f"{OWN_IMAGES}/") == text
    images = set(re.findall(r"image: (\S+)", moved))
    assert not any(it.startswith(f"{OWN_IMAGES}/") for it in images)


def test_injection_takes_its_image_from_the_registry_too() -> None:
    moved = with_registry(text_of("injection"), "registry.example.com/edge")
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
