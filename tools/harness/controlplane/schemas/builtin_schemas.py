"""Makes the file of built-in types that `tools.local_apiserver` serves from.

Asks a real kube-apiserver for its OpenAPI documents (Kubernetes, Apache License 2.0), keeps the
types that it offers and what they refer to, and leaves the descriptions out. Run it with
`python -m tools.harness.controlplane.schemas.builtin_schemas` after a new version of kube-apiserver
was taken in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.harness.controlplane.clients.admin import AdminClient
from tools.harness.controlplane.cluster import ControlPlane

FILE = Path(__file__).parents[4] / "tools/local_apiserver/core/builtin/builtin_schemas.json"
DOCUMENTS = (
    "api/v1",
    "apis/apps/v1",
    "apis/batch/v1",
    "apis/coordination.k8s.io/v1",
    "apis/discovery.k8s.io/v1",
    "apis/events.k8s.io/v1",
    "apis/apiextensions.k8s.io/v1",
)
_API = "io.k8s.api."
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_MACHINERY = "io.k8s.apimachinery.pkg."
OFFERED = (
    *(
        f"{_API}core.v1.{kind}"
        for kind in (
            "ConfigMap",
            "Event",
            "Namespace",
            "Node",
            "Pod",
            "Secret",
            "Service",
            "ServiceAccount",
        )
    ),
    f"{_API}apps.v1.Deployment",
    f"{_API}apps.v1.ReplicaSet",
    f"{_API}batch.v1.Job",
    f"{_API}coordination.v1.Lease",
    f"{_API}discovery.v1.EndpointSlice",
    f"{_API}events.v1.Event",
    f"{_EXTENSIONS}CustomResourceDefinition",
    f"{_MACHINERY}apis.meta.v1.DeleteOptions",
)
_ANYTHING: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}
# Types whose JSON is not what their OpenAPI says, because Go marshals them by hand.
_BY_HAND: dict[str, dict[str, Any]] = {
    f"{_MACHINERY}apis.meta.v1.Time": {"type": "string", "format": "date-time"},
    f"{_MACHINERY}apis.meta.v1.MicroTime": {"type": "string", "format": "micro-time"},
    f"{_MACHINERY}apis.meta.v1.FieldsV1": {"type": "object", **_ANYTHING},
    f"{_MACHINERY}api.resource.Quantity": {"format": "quantity"},
    f"{_MACHINERY}util.intstr.IntOrString": {"x-kubernetes-int-or-string": True},
    f"{_EXTENSIONS}JSON": _ANYTHING,
    # Contains itself; the API server reads it by other means.
    f"{_EXTENSIONS}JSONSchemaProps": {"type": "object", **_ANYTHING},
}
_REFERENCE = "#/components/schemas/"


def builtin_schemas(admin: AdminClient) -> dict[str, Any]:
    """The offered types and all that they refer to, by name."""
    known: dict[str, Any] = {}
    for document in DOCUMENTS:
        status, body = admin.get(f"/openapi/v3/{document}")
        if status != 200:
            raise RuntimeError(f"{document}: {status}")
        known.update(body["components"]["schemas"])
    found: dict[str, Any] = {}
    waiting = list(OFFERED)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = _BY_HAND.get(name) or _simple(known[name])
            waiting += _references(found[name])
    return {name: found[name] for name in sorted(found)}


def _simple(schema: dict[str, Any]) -> dict[str, Any]:
    """Without descriptions; a reference that is wrapped, to carry a default, is unwrapped."""
    simple: dict[str, Any] = {}
    for word, value in schema.items():
        match word:
            case "description" | "x-kubernetes-group-version-kind" | "x-kubernetes-unions":
                pass
            case "$ref":
                simple["$ref"] = value.removeprefix(_REFERENCE)
            case "allOf":
                simple.update(_simple(value[0]))
            case "properties":
                simple[word] = {name: _simple(child) for name, child in value.items()}
            case "items" | "additionalProperties" if isinstance(value, dict):
                simple[word] = _simple(value)
            case _:
                simple[word] = value
    return simple


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for word, value in schema.items():
            if word == "$ref" and isinstance(value, str):
                yield value
            else:
                yield from _references(value)


def encoded(schemas: dict[str, Any]) -> str:
    """One type a line, so that a new version of Kubernetes is a readable diff."""
    lines = (
        f"{json.dumps(name)}:{json.dumps(schema, separators=(',', ':'))}"
        for name, schema in schemas.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    with ControlPlane() as plane:
        FILE.write_text(encoded(builtin_schemas(plane.admin)), encoding="utf-8")


if __name__ == "__main__":
    main()
