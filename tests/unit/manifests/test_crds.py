"""The CRDs: pod templates typed as kube-apiserver says, and small enough for any kubectl."""

import json
from pathlib import Path

import pytest

from tests.unit.manifests.pod_template_schemas import (
    builtin_types,
    definitions,
    typed,
)
from tests.unit.repository.checkout import section
from tools.harness.controlplane.schemas.sedna_kinds import read
from tools.local_apiserver.core.discovery import MAJOR, MINOR

# Bytes, of the 262,144 that all annotations of an object may have together: `kubectl apply` without
# --server-side keeps the whole manifest in one.
LARGEST = 240_000


def test_the_manual_names_the_kubernetes_whose_fields_the_templates_have() -> None:
    assert f"the fields of Kubernetes {MAJOR}.{MINOR}," in section(
        "docs/reference/gm.md", "Objects"
    )


@pytest.mark.parametrize("path", definitions(), ids=lambda it: it.stem)
def test_a_crd_has_the_built_in_types_pod_templates_and_fits_into_an_annotation(path: Path) -> None:
    """Else: python -m tests.unit.manifests.pod_template_schemas"""
    text = path.read_text(encoding="utf-8")
    assert typed(text, builtin_types()) == text
    assert len(text.encode()) <= LARGEST
    (definition,) = read(path)
    assert len(json.dumps(definition).encode()) <= LARGEST
