"""The built-in types, by their OpenAPI names, read when first asked for.

The file is made by `python -m tools.harness.controlplane.schemas.builtin_schemas` from
kube-apiserver's own documents (Kubernetes, Apache License 2.0); a test compares both.
"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec

from tools.local_apiserver.core.schema.schema import Schema, read_schema
from tools.local_apiserver.core.unstructured import Object

API = "io.k8s.api"
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"


@cache
def raw_types() -> Mapping[str, Object]:
    """As they stand in the file: `$ref` is a bare name."""
    content = files(__package__).joinpath("builtin_schemas.json").read_bytes()
    types: Mapping[str, Object] = msgspec.json.decode(content, type=dict)
    return types


@cache
def builtin_type(name: str) -> Schema:
    found = read_schema(raw_types()[name], builtin_type)
    # Go cannot tell a list or struct that was not sent from an empty one; the kinds' own rules
    # judge, also of what is doubled in a list.
    found.required = [
        field
        for field in found.required
        if found.properties[field].type != "array" and found.properties[field].default != {}
    ]
    for child in found.properties.values():
        child.list_type = ""
    return found


def object_meta() -> Schema:
    return builtin_type(f"{META}.ObjectMeta")
