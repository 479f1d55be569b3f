"""Writes the typed schemas of pod templates, and of the specs around them, into manifests/crds.

Takes them from the file of built-in types that `builtin_schemas` makes from kube-apiserver's own
documents (Kubernetes, Apache License 2.0), so that a CRD knows the fields of that one Kubernetes.
Run it with `python -m tests.unit.manifests.pod_template_schemas` after that file has
changed; a test compares both. The rest of a CRD, its comments at the head included, stays as it is.

What a pod template becomes is judged once more when the pod is made. So only names and types of
fields are taken: no defaults, which would change objects that are stored already; no enums, which
grow; no list types, by which what is stored would have to be unique. The
API server drops nulls, as it does of built-in types.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from tools.harness.controlplane.schemas.builtin_schemas import FILE as BUILTIN
from tools.harness.controlplane.schemas.sedna_kinds import MANIFESTS

Json = dict[str, Any]

POD_TEMPLATE = "io.k8s.api.core.v1.PodTemplateSpec"
_DEPLOYMENT = "io.k8s.api.apps.v1.DeploymentSpec"
_JOB = "io.k8s.api.batch.v1.JobSpec"
# The type whose fields, besides the template, stand in an object beside ours: by the path to it.
AROUND = {
    ("featureextractionservices", "spec"): _DEPLOYMENT,
    ("objectsearchservices", "spec", "reidWorkers"): _DEPLOYMENT,
    ("objecttrackingservices", "spec", "reidWorkers"): _DEPLOYMENT,
    ("reidjobs", "spec"): _JOB,
    ("videoanalyticsjobs", "spec"): _JOB,
}
_NODE_NAME = "The node that the worker runs on."
_WORDS = ("type", "format", "required", "x-kubernetes-int-or-string")
# A number, or text with a unit; a schema cannot say "number or string" otherwise.
_QUANTITY = {"x-kubernetes-preserve-unknown-fields": True}
_WIDTH = 98


class _Line(dict[str, Any]):
    """Written in one line, however long."""


class _Dumper(yaml.SafeDumper):
    """Lists are indented, and every value is written where it stands."""

    lines: list[str]

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:
        return True


def _mark(dumper: _Dumper, line: _Line) -> yaml.Node:
    """PyYAML would fold the line: `_dumped` puts it in the place of the mark."""
    dumper.lines.append(json.dumps(line, separators=(",", ": ")))
    return dumper.represent_scalar("tag:yaml.org,2002:str", f"{_MARK}{len(dumper.lines) - 1}")


_MARK = "line-of-json-"
_Dumper.add_representer(_Line, _mark)


class Types:
    """The built-in types by name, with all that they refer to in place."""

    def __init__(self, raw: Json) -> None:
        self._raw = raw

    def schema(self, name: str) -> Json:
        return self._inlined(self._raw[name])

    def _inlined(self, raw: Json) -> Json:
        if reference := raw.get("$ref"):
            return self._inlined(self._raw[reference])
        if raw.get("format") == "quantity":
            return dict(_QUANTITY)
        schema: Json = {word: raw[word] for word in _WORDS if word in raw}
        if raw.get("x-kubernetes-preserve-unknown-fields"):
            schema["x-kubernetes-preserve-unknown-fields"] = True
        for word in ("items", "additionalProperties"):
            if isinstance(raw.get(word), dict):
                schema[word] = self._inlined(raw[word])
        if "properties" in raw:
            schema["properties"] = {
                name: self._inlined(child) for name, child in raw["properties"].items()
            }
        return schema


def pod_template(types: Types, description: str) -> Json:
    """One line for each field of a pod's spec, so that a new Kubernetes is a readable diff."""
    found = types.schema(POD_TEMPLATE)["properties"]
    fields = found["spec"]["properties"]
    fields["nodeName"]["description"] = _NODE_NAME
    # No pod may be created with them.
    del fields["ephemeralContainers"]
    return {
        "type": "object",
        "description": description,
        "properties": {
            "metadata": _Line(found["metadata"]),
            "spec": {
                "type": "object",
                "required": found["spec"]["required"],
                "properties": {name: _Line(fields[name]) for name in sorted(fields)},
            },
        },
    }


def _typed(schema: Json, types: Types, path: tuple[str, ...]) -> None:
    """In place: templates, and the fields around them."""
    properties = schema.get("properties", {})
    if around := AROUND.get(path):
        schema.pop("x-kubernetes-preserve-unknown-fields", None)
        found = types.schema(around)["properties"]
        own = {name: properties[name] for name in ("model", "kafkaSupport") if name in properties}
        fields = {name: _Line(found[name]) for name in sorted(found) if name != "template"}
        properties = schema["properties"] = own | fields | {"template": properties["template"]}
    for name, child in properties.items():
        if name == "template":
            properties[name] = pod_template(types, child["description"])
        elif name == "hpa":
            # By hand, after k8s.io/api/autoscaling/v2, whose types are not among the built-in ones.
            child["properties"] = {key: _Line(it) for key, it in child["properties"].items()}
        elif not isinstance(child, _Line):
            _typed(child, types, (*path, name))
    if isinstance(schema.get("items"), dict):
        _typed(schema["items"], types, path)


def typed(definition: str, types: Types) -> str:
    """The text of a CRD with schemas as they follow from the types."""
    head = "".join(it for it in definition.splitlines(keepends=True) if it.startswith("#"))
    body = yaml.load(definition, Loader=yaml.CSafeLoader)
    root = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    if "spec" in root:
        _typed(root["spec"], types, (body["spec"]["names"]["plural"], "spec"))
    return head + _dumped(body)


def _dumped(body: Json) -> str:
    lines: list[str] = []
    dumper = type("_Dump", (_Dumper,), {"lines": lines})
    text = yaml.dump(body, Dumper=dumper, sort_keys=False, width=_WIDTH, allow_unicode=True)
    return re.sub(rf"\b{_MARK}(\d+)$", lambda it: lines[int(it[1])], text, flags=re.M)


def builtin_types() -> Types:
    return Types(json.loads(BUILTIN.read_text(encoding="utf-8")))


def definitions() -> list[Path]:
    return sorted(MANIFESTS.glob("*.yaml"))


def main() -> None:
    types = builtin_types()
    for path in definitions():
        path.write_text(typed(path.read_text(encoding="utf-8"), types), encoding="utf-8")


if __name__ == "__main__":
    main()
