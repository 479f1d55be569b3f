"""The policies of manifests/injection are taken by the oldest API servers that they are for."""

import re
from pathlib import Path

import pytest

from tests.unit.manifests.built import MANIFESTS

# CEL's lists library, version 3: an API server takes in new objects what the release before knew,
# so these are for Kubernetes 1.35 and later (apiserver/pkg/cel/environment/base.go).
TOO_NEW = ("distinct", "first", "flatten", "last", "range", "reverse", "slice", "sort", "sortBy")


@pytest.mark.parametrize(
    "path", sorted((MANIFESTS / "injection/policies").glob("*.yaml")), ids=lambda it: it.name
)
def test_a_policy_uses_no_function_that_1_34_lacks(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.findall(rf"\b(?:{'|'.join(TOO_NEW)})\(", text) == []
