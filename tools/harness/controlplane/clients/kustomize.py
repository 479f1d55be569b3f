"""The objects that a folder of manifests is, by the kubectl of the tests."""

from pathlib import Path
from typing import Any

import yaml

from tools.harness.controlplane.clients.kustomization import kustomize_text
from tools.harness.controlplane.fixtures import require_program

Json = dict[str, Any]


def kustomize(folder: Path) -> list[Json]:
    """In their order. Raises `NotBuilt`."""
    text = kustomize_text(folder, kubectl=require_program("kubectl"))
    # libyaml's parser: CRDs are long.
    return list(yaml.load_all(text, Loader=yaml.CSafeLoader))
