"""OpenAPI documents, as far as clients go by them: which types there are, and what may be asked.

kubectl reads v3: whether fieldValidation is offered, the types for `explain`, the merge keys of
lists for `apply`. Source of the shape: apiserver pkg/endpoints/openapi, kube-openapi pkg/handler3.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tools.local_apiserver.core.api_resource import Catalog, Resource
from tools.local_apiserver.core.builtin.builtin_types import META, raw_types
from tools.local_apiserver.core.discovery import MAJOR, MINOR
from tools.local_apiserver.core.unstructured import Json, Object

_REFERENCE = "#/components/schemas/"
_INFO: Object = {"title": "Kubernetes", "version": f"v{MAJOR}.{MINOR}.0"}
_OBJECT_META = f"{META}.ObjectMeta"
# Words of the local API server's own in the file of built-in types, which OpenAPI says otherwise.
_FORMATS: Mapping[str, Object] = {
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "micro-time": {"type": "string", "format": "date-time"},
}
_STRING: Object = {"type": "string", "uniqueItems": True}


def index(catalog: Catalog, digest: str) -> Object:
    """Where the document of each group version is; `digest` changes when any of them does."""
    paths: Object = {
        path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
        for path in _documents(catalog)
    }
    return {"paths": paths}


def _documents(catalog: Catalog) -> Sequence[str]:
    paths = {one.name.api_path.removeprefix("/") for one in catalog if one.is_served}
    return sorted(paths)


def document(catalog: Catalog, path: str) -> Object | None:
    """Of one group version; `path` such as "apis/apps/v1"."""
    found = [
        one for one in catalog if one.is_served and one.name.api_path.removeprefix("/") == path
    ]
    if not found:
        return None
    schemas: Object = {}
    paths: Object = {}
    for resource in found:
        schemas[type_name(resource)] = _own_type(resource)
        paths.update(_paths(resource))
    _add_referred(schemas)
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": paths,
        "components": {"schemas": schemas},
    }


def type_name(resource: Resource) -> str:
    """com.example.v1.Widget"""
    if resource.type_name:
        return resource.type_name
    reverse = ".".join(reversed(resource.name.group.split(".")))
    return f"{reverse}.{resource.name.version}.{resource.kind}"


def _own_type(resource: Resource) -> Object:
    name = resource.name
    kind: Object = {"group": name.group, "kind": resource.kind, "version": name.version}
    if resource.is_custom:
        shown: Object = msgspec.json.decode(resource.raw_schema, type=dict)
        own: Object = {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"allOf": [{"$ref": _REFERENCE + _OBJECT_META}]},
        }
        properties = shown.get("properties")
        shown["properties"] = {**(properties if isinstance(properties, dict) else {}), **own}
        if resource.selectable:
            shown["x-kubernetes-selectable-fields"] = [
                {"fieldPath": path} for path in resource.selectable
            ]
    else:
        shown = _shown(raw_types()[resource.type_name])
    shown["x-kubernetes-group-version-kind"] = [kind]
    return shown


def _add_referred(schemas: Object) -> None:
    waiting = list(_references(schemas))
    while waiting:
        name = waiting.pop()
        if name not in schemas:
            schemas[name] = _shown(raw_types()[name])
            waiting += _references(schemas[name])


def _references(tree: Json) -> Iterable[str]:
    if isinstance(tree, dict):
        for word, value in tree.items():
            if word == "$ref" and isinstance(value, str):
                yield value.removeprefix(_REFERENCE)
            else:
                yield from _references(value)
    elif isinstance(tree, list):
        for item in tree:
            yield from _references(item)


def _shown(schema: Object) -> Object:
    """A built-in type in OpenAPI's own words."""
    shown: Object = {}
    for word, value in schema.items():
        match word, value:
            case "$ref", str():
                shown["allOf"] = [{"$ref": _REFERENCE + value}]
            case "format", str() if value in _FORMATS:
                shown.update(_FORMATS[value])
            case "properties", dict():
                shown[word] = {
                    name: _shown(child) if isinstance(child, dict) else child
                    for name, child in value.items()
                }
            case (("items" | "additionalProperties"), dict()):
                shown[word] = _shown(value)
            case "x-kubernetes-int-or-string", _:
                shown.update({"format": "int-or-string"})
                shown["oneOf"] = [{"type": "integer"}, {"type": "string"}]
            case _:
                shown[word] = value
    return shown


def _paths(resource: Resource) -> Object:
    name = resource.name
    every = f"{name.api_path}/{name.plural}"
    within = f"{name.api_path}/namespaces/{{namespace}}/{name.plural}"
    collection = within if resource.is_namespaced else every
    one = f"{collection}/{{name}}"
    list_, get = _operation(resource, "list"), _operation(resource, "get")
    paths: Object = {every: {"get": list_}}
    paths[collection] = {
        "get": list_,
        "post": _operation(resource, "post", is_write=True),
        "delete": _operation(resource, "deletecollection"),
    }
    writes: Object = {
        "put": _operation(resource, "put", is_write=True),
        "patch": _operation(resource, "patch", is_write=True),
    }
    paths[one] = {"get": get, **writes, "delete": _operation(resource, "delete")}
    if resource.has_status:
        paths[f"{one}/status"] = {"get": get, **writes}
    return paths


def _operation(resource: Resource, action: str, *, is_write: bool = False) -> Object:
    name = resource.name
    found: Object = {
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {
            "group": name.group,
            "kind": resource.kind,
            "version": name.version,
        },
        "responses": {
            "200": {
                "description": "OK",
                "content": {
                    "application/json": {"schema": {"$ref": _REFERENCE + type_name(resource)}}
                },
            }
        },
    }
    if is_write:
        found["parameters"] = [
            {"name": parameter, "in": "query", "schema": _STRING}
            for parameter in ("dryRun", "fieldManager", "fieldValidation")
        ]
    return found


def v2() -> Object:
    """The least that is valid: types are told by v3."""
    return {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": {}}


def v2_protobuf() -> bytes:
    """The same as gnostic's openapi_v2.Document, in which client-go asks for it."""
    info = _field(1, b"Kubernetes") + _field(2, f"v{MAJOR}.{MINOR}.0".encode())
    return _field(1, b"2.0") + _field(2, info) + _field(8, b"") + _field(9, b"")


def _field(number: int, content: bytes) -> bytes:
    """Length-delimited; shorter than 128 bytes."""
    return bytes((number << 3 | 2, len(content))) + content
