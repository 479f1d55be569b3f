"""A schema as it is asked many times: read once from OpenAPI v3 into attributes.

Owns the reading. Does not judge: `shape` decodes, prunes and defaults by it, `validation` judges
values. Built-in types are described by the same words, with `$ref` (a bare name) and Kubernetes'
own formats.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from weakref import WeakValueDictionary

import msgspec

from tools.local_apiserver.core.schema.pattern import Pattern
from tools.local_apiserver.core.unstructured import (
    Json,
    Object,
    items,
    mapping,
    objects,
    text,
    texts,
)


@dataclass(slots=True, eq=False)
class Rules:
    """What a value of the right type must satisfy (JSON schema's value validations)."""

    enum: list[Json] | None = None
    pattern: Pattern | None = None
    format: str = ""
    minimum: float | None = None
    maximum: float | None = None
    is_minimum_exclusive: bool = False
    is_maximum_exclusive: bool = False
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    all_of: Sequence["Schema"] = ()
    any_of: Sequence["Schema"] = ()
    one_of: Sequence["Schema"] = ()
    none_of: "Schema | None" = None


@dataclass(slots=True, eq=False, weakref_slot=True)
class Schema:
    """One node; `type` is "" where any is allowed. Not changed after it was read.

    `additional` is the schema of an object's unnamed properties, None where there are none.
    """

    type: str = ""
    properties: dict[str, "Schema"] = field(default_factory=dict)
    additional: "Schema | None" = None
    items: "Schema | None" = None
    required: Sequence[str] = ()
    rules: Rules | None = None
    has_default: bool = False
    default: Json = None
    is_nullable: bool = False
    is_int_or_string: bool = False
    is_embedded_resource: bool = False
    keeps_unknown: bool = False
    list_type: str = ""
    list_map_keys: Sequence[str] = ()
    merge_key: str = ""
    patch_strategy: Sequence[str] = ()

    @property
    def is_map(self) -> bool:
        """Whether it is an object of any names, as opposed to a struct."""
        return self.type == "object" and self.additional is not None


Resolve = Callable[[str], Schema]
# From so many properties on, a CRD's schema is looked for among those that were read: CRDs repeat a
# pod's and a container's in each of their templates.
_WORTH_SHARING = 16
_SHARED: WeakValueDictionary[bytes, Schema] = WeakValueDictionary()


def read_schema(raw: Object, resolve: Resolve | None = None) -> Schema:
    """The schema in JSON form; `resolve` finds what `$ref` names. Equal ones of CRDs may be one.

    Raises `BadPattern` where a pattern is no RE2 expression.
    """
    if resolve is not None or len(mapping(raw, "properties")) < _WORTH_SHARING:
        return _read(raw, resolve)
    digest = blake2b(msgspec.json.encode(raw)).digest()
    found = _SHARED.get(digest)
    if found is None:
        found = _SHARED[digest] = _read(raw, resolve)
    return found


def _read(raw: Object, resolve: Resolve | None) -> Schema:
    if resolve is not None and (name := text(raw, "$ref")):
        found = replace(resolve(name))
    else:
        found = _shape(raw, resolve)
        found.rules = _rules(raw, resolve)
    if "default" in raw:
        found.has_default, found.default = True, raw["default"]
    found.list_type = text(raw, "x-kubernetes-list-type")
    found.list_map_keys = texts(raw, "x-kubernetes-list-map-keys")
    found.merge_key = text(raw, "x-kubernetes-patch-merge-key")
    found.patch_strategy = text(raw, "x-kubernetes-patch-strategy").split(",")
    return found


def _shape(raw: Object, resolve: Resolve | None) -> Schema:
    found = Schema(type=text(raw, "type"))
    found.properties = {
        name: read_schema(child, resolve)
        for name, child in mapping(raw, "properties").items()
        if isinstance(child, dict)
    }
    additional = raw.get("additionalProperties")
    if isinstance(additional, dict):
        found.additional = read_schema(additional, resolve)
    elif additional is True:
        found.additional = Schema(keeps_unknown=True)
    if isinstance(child := raw.get("items"), dict):
        found.items = read_schema(child, resolve)
    found.required = texts(raw, "required")
    found.is_nullable = raw.get("nullable") is True
    found.is_int_or_string = raw.get("x-kubernetes-int-or-string") is True
    found.is_embedded_resource = raw.get("x-kubernetes-embedded-resource") is True
    found.keeps_unknown = raw.get("x-kubernetes-preserve-unknown-fields") is True
    return found


def _rules(raw: Object, resolve: Resolve | None) -> Rules | None:
    if raw.keys().isdisjoint(_RULE_WORDS):
        return None
    none_of = raw.get("not")
    return Rules(
        enum=items(raw, "enum") if "enum" in raw else None,
        pattern=Pattern(text(raw, "pattern")) if text(raw, "pattern") else None,
        format=text(raw, "format"),
        minimum=_number(raw, "minimum"),
        maximum=_number(raw, "maximum"),
        is_minimum_exclusive=raw.get("exclusiveMinimum") is True,
        is_maximum_exclusive=raw.get("exclusiveMaximum") is True,
        multiple_of=_number(raw, "multipleOf"),
        min_length=_count(raw, "minLength"),
        max_length=_count(raw, "maxLength"),
        min_items=_count(raw, "minItems"),
        max_items=_count(raw, "maxItems"),
        min_properties=_count(raw, "minProperties"),
        max_properties=_count(raw, "maxProperties"),
        all_of=_each(raw, "allOf", resolve),
        any_of=_each(raw, "anyOf", resolve),
        one_of=_each(raw, "oneOf", resolve),
        none_of=read_schema(none_of, resolve) if isinstance(none_of, dict) else None,
    )


_OF_TEXT = {"enum", "pattern", "format", "minLength", "maxLength"}
_OF_NUMBERS = {"minimum", "maximum", "multipleOf"}
_OF_SIZE = {"minItems", "maxItems", "minProperties", "maxProperties"}
_JUNCTORS = {"allOf", "anyOf", "oneOf", "not"}
_RULE_WORDS = _OF_TEXT | _OF_NUMBERS | _OF_SIZE | _JUNCTORS


def _each(raw: Object, word: str, resolve: Resolve | None) -> Sequence[Schema]:
    return [read_schema(child, resolve) for child in objects(raw, word)]


def _number(raw: Object, word: str) -> float | None:
    found = raw.get(word)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return found


def _count(raw: Object, word: str) -> int | None:
    found = _number(raw, word)
    return None if found is None else int(found)
