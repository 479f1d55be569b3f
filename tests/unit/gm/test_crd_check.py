"""GM runs only where the API keeps which reports were taken in."""

import json
from typing import Any

import pytest

from edge_sidecars.sedna_api.core.kinds import KINDS, NODE_REPORT
from gm.controller.crd_check import MissingDefinitions, UnfitDefinitions, judge


def openapi(*, leave_out: str = "", status: dict[str, Any] | None = None) -> bytes:
    """The API group's document; `status` is the schema of each kind's status."""
    kept = {"properties": {"appliedReports": {"type": "array"}}, "type": "object"}
    schemas = {}
    for kind in (*KINDS, NODE_REPORT):
        if kind.kind == leave_out:
            continue
        schemas[f"io.sedna.v1alpha1.{kind.kind}"] = {
            "type": "object",
            "properties": {
                "spec": {"type": "object"},
                "status": kept if status is None else status,
            },
            "x-kubernetes-group-version-kind": [
                {"group": "sedna.io", "kind": kind.kind, "version": "v1alpha1"}
            ],
        }
    return json.dumps({"openapi": "3.0.0", "components": {"schemas": schemas}}).encode()


def test_our_definitions_are_fit() -> None:
    judge(openapi())


def test_a_status_that_keeps_everything_is_fit() -> None:
    judge(openapi(status={"x-kubernetes-preserve-unknown-fields": True}))


def test_sednas_own_definitions_are_refused() -> None:
    with pytest.raises(UnfitDefinitions, match=r"Dataset.*appliedReports.*manifests/crds"):
        judge(openapi(status={"properties": {"conditions": {"type": "array"}}}))


@pytest.mark.parametrize("kind", ["Dataset", "NodeReport"])
def test_what_is_missing_is_waited_for(kind: str) -> None:
    with pytest.raises(MissingDefinitions, match=kind):
        judge(openapi(leave_out=kind))


@pytest.mark.parametrize("document", [b"", b"[]", b'{"components": {"schemas": {"a": 1}}}'])
def test_what_is_no_document_says_nothing(document: bytes) -> None:
    with pytest.raises(MissingDefinitions):
        judge(document)
