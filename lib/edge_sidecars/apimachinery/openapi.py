"""What an OpenAPI v3 document of a group version contains about each of its resources.

Owns: which schema is a resource's, what of it can change the bytes of objects, and by which fields
it can be selected. Guarantees: equal digests mean that API servers with these documents prune and
default the same way; words for people do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Final

import msgspec
from msgspec import Raw, Struct

from edge_sidecars.apimachinery.objects import Malformed, decode

_REFERENCE: Final = re.compile(rb'"\$ref":\s*"#/components/schemas/([^"\\]+)"')
# For people, and of no meaning for objects.
_PROSE: Final = frozenset({"description", "title", "example", "externalDocs"})
# By name, each a schema: there, any word is a name.
_NAMED_SCHEMAS: Final = frozenset({"properties", "patternProperties"})
# Values, not schemas.
_VALUES: Final = frozenset({"default", "enum"})
_DIGEST_BYTES: Final = 16

Kind = tuple[str, str, str]
"""(group, version, kind)"""


class PublishedSchema(Struct, frozen=True):
    """`fields`: those by which the resource can be selected besides name and namespace."""

    digest: bytes
    fields: frozenset[str]


class _OpenapiKindName(Struct):
    kind: str
    group: str = ""
    version: str = ""


class _Operation(Struct):
    action: str = msgspec.field(default="", name="x-kubernetes-action")
    kind: _OpenapiKindName | None = msgspec.field(
        default=None, name="x-kubernetes-group-version-kind"
    )


class _Path(Struct):
    get: _Operation | None = None


class _OpenapiComponents(Struct):
    schemas: dict[str, Raw] | None = None


class _OpenapiDocument(Struct):
    paths: dict[str, _Path] | None = None
    components: _OpenapiComponents | None = None


class _SelectableField(Struct, rename="camel"):
    field_path: str = ""


class _OfResource(Struct):
    """What a schema contains about its resource."""

    kinds: list[_OpenapiKindName] | None = msgspec.field(
        default=None, name="x-kubernetes-group-version-kind"
    )
    fields: list[_SelectableField] | None = msgspec.field(
        default=None, name="x-kubernetes-selectable-fields"
    )


class _OpenapiReference(Struct, rename="camel"):
    server_relative_url: str = msgspec.field(name="serverRelativeURL")


class _OpenapiIndex(Struct):
    paths: dict[str, _OpenapiReference]


def read_schemas(document: bytes) -> dict[str, PublishedSchema]:
    """By plural, of all resources that can be listed. Raises `Malformed`."""
    try:
        read = msgspec.json.decode(document, type=_OpenapiDocument)
        schemas = {} if read.components is None else read.components.schemas or {}
        published = _by_kind(schemas)
        return {
            plural: PublishedSchema(_digest(schemas, published[kind][0]), published[kind][1])
            for plural, kind in _listed(read.paths or {})
            if kind in published
        }
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)) from error


def read_hashes(index: bytes) -> dict[str, str]:
    """By path below /openapi/v3 ("apis/apps/v1"): what the document's ETag quotes.

    Raises `Malformed`.
    """
    return {
        path: reference.server_relative_url.partition("?hash=")[2]
        for path, reference in decode(msgspec.json.Decoder(_OpenapiIndex), index).paths.items()
    }


def _listed(paths: Mapping[str, _Path]) -> Iterator[tuple[str, Kind]]:
    for path, item in paths.items():
        if item.get is not None and item.get.action == "list" and item.get.kind is not None:
            kind = item.get.kind
            yield path.rpartition("/")[2], (kind.group, kind.version, kind.kind)


def _by_kind(schemas: Mapping[str, Raw]) -> dict[Kind, tuple[str, frozenset[str]]]:
    """The schema's name, and the fields that select."""
    found = {}
    for name, raw in schemas.items():
        resource = msgspec.json.decode(raw, type=_OfResource)
        fields = frozenset(field.field_path for field in resource.fields or ())
        for kind in resource.kinds or ():
            found[kind.group, kind.version, kind.kind] = (name, fields)
    return found


def _digest(schemas: Mapping[str, Raw], name: str) -> bytes:
    """Of a schema and all that it refers to."""
    digest = blake2b(digest_size=_DIGEST_BYTES)
    found, wanted = {name}, [name]
    while wanted:
        raw = schemas.get(wanted.pop())
        referred = set() if raw is None else {one.decode() for one in _REFERENCE.findall(raw)}
        wanted += referred - found
        found |= referred
    for one in sorted(found & schemas.keys()):
        meaning = _meaning(msgspec.json.decode(schemas[one]))
        digest.update(msgspec.json.encode([one, meaning], order="sorted"))
    return digest.digest()


def _meaning(schema: object) -> object:
    """A schema without its prose."""
    if isinstance(schema, list):
        return [_meaning(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, object] = {}
    for word, value in schema.items():
        if word in _NAMED_SCHEMAS and isinstance(value, dict):
            kept[word] = {name: _meaning(one) for name, one in value.items()}
        elif word in _VALUES:
            kept[word] = value
        elif word not in _PROSE:
            kept[word] = _meaning(value)
    return kept
