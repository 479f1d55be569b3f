"""What counts as a change of a resource's schema, and what does not."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from edge_sidecars.apimachinery.objects import Malformed
from edge_sidecars.apimachinery.openapi import read_hashes, read_schemas

Json = dict[str, Any]
PREFIX = "/apis/example.com/v1"


def kind(name: str) -> Json:
    return {"group": "example.com", "version": "v1", "kind": name}


def listed(name: str) -> Json:
    return {
        "get": {"x-kubernetes-action": "list", "x-kubernetes-group-version-kind": kind(name)},
        "post": {"x-kubernetes-action": "post", "x-kubernetes-group-version-kind": kind(name)},
    }


def schema(name: str, spec: Json) -> Json:
    return {
        "type": "object",
        "description": f"{name} is a thing",
        "properties": {
            "metadata": {"allOf": [{"$ref": "#/components/schemas/meta.v1.ObjectMeta"}]},
            "spec": spec,
        },
        "x-kubernetes-group-version-kind": [kind(name)],
    }


DOCUMENT: Json = {
    "openapi": "3.0.0",
    "paths": {
        f"{PREFIX}/": {"get": {"operationId": "getResources"}},
        f"{PREFIX}/things": listed("Thing"),
        f"{PREFIX}/namespaces/{{namespace}}/things": listed("Thing"),
        f"{PREFIX}/namespaces/{{namespace}}/things/{{name}}": {
            "get": {"x-kubernetes-action": "get", "x-kubernetes-group-version-kind": kind("Thing")}
        },
        f"{PREFIX}/others": listed("Other"),
        f"{PREFIX}/watch/things": {
            "get": {
                "x-kubernetes-action": "watchlist",
                "x-kubernetes-group-version-kind": kind("Thing"),
            }
        },
    },
    "components": {
        "schemas": {
            "com.example.v1.Thing": schema(
                "Thing",
                {
                    "type": "object",
                    "properties": {
                        "size": {"type": "integer", "default": 3, "description": "how big"},
                        "description": {"type": "string", "title": "A title"},
                        "settings": {
                            "type": "object",
                            "default": {"description": "none", "title": "x"},
                            "x-kubernetes-preserve-unknown-fields": True,
                        },
                    },
                },
            )
            | {"x-kubernetes-selectable-fields": [{"fieldPath": "spec.size"}]},
            "com.example.v1.Other": schema("Other", {"type": "object"}),
            "meta.v1.ObjectMeta": {
                "type": "object",
                "properties": {
                    "ownerReferences": {
                        "items": {"$ref": "#/components/schemas/meta.v1.OwnerReference"}
                    }
                },
            },
            "meta.v1.OwnerReference": {"type": "object", "properties": {"uid": {"type": "string"}}},
            "meta.v1.Unused": {"type": "object"},
        }
    },
}


def changed(edit: Callable[[Json], object]) -> set[str]:
    """The resources whose digests differ after an edit of the schemas."""
    document = copy.deepcopy(DOCUMENT)
    edit(document["components"]["schemas"])
    before = read_schemas(json.dumps(DOCUMENT).encode())
    after = read_schemas(json.dumps(document).encode())
    assert before.keys() == after.keys()
    return {plural for plural in before if before[plural].digest != after[plural].digest}


def spec_of(schemas: Json) -> Json:
    found: Json = schemas["com.example.v1.Thing"]["properties"]["spec"]["properties"]
    return found


def test_each_resource_that_can_be_listed_has_its_schema_and_fields() -> None:
    found = read_schemas(json.dumps(DOCUMENT).encode())
    assert found.keys() == {"things", "others"}
    assert found["things"].fields == {"spec.size"}
    assert found["others"].fields == frozenset()
    assert found["things"].digest != found["others"].digest


@pytest.mark.parametrize(
    "edit",
    [
        lambda schemas: spec_of(schemas).update(color={"type": "string"}),
        lambda schemas: spec_of(schemas).pop("size"),
        lambda schemas: spec_of(schemas).pop("description"),
        lambda schemas: spec_of(schemas)["size"].update(default=4),
        lambda schemas: spec_of(schemas)["size"].update(nullable=True),
        lambda schemas: spec_of(schemas)["description"].update(type="integer"),
        lambda schemas: spec_of(schemas)["settings"]["default"].update(description="some"),
        lambda schemas: spec_of(schemas)["settings"].pop("x-kubernetes-preserve-unknown-fields"),
        lambda schemas: schemas["com.example.v1.Thing"].pop("x-kubernetes-selectable-fields"),
    ],
)
def test_what_can_change_objects_or_their_selection_is_a_change_of_that_resource(
    edit: Callable[[Json], object],
) -> None:
    assert changed(edit) == {"things"}


@pytest.mark.parametrize(
    "edit",
    [
        lambda schemas: spec_of(schemas)["size"].update(description="how large"),
        lambda schemas: spec_of(schemas)["size"].pop("description"),
        lambda schemas: spec_of(schemas)["description"].update(title="Another title"),
        lambda schemas: schemas["com.example.v1.Thing"].update(description="new words"),
        lambda schemas: schemas["meta.v1.Unused"].update(type="string"),
        lambda schemas: schemas.update(
            {"com.example.v1.Thing": dict(reversed(schemas["com.example.v1.Thing"].items()))}
        ),
    ],
)
def test_words_for_people_and_order_are_no_change(edit: Callable[[Json], object]) -> None:
    assert changed(edit) == set()


def test_what_a_schema_refers_to_belongs_to_it() -> None:
    assert changed(
        lambda schemas: schemas["meta.v1.OwnerReference"]["properties"].update(x={"type": "string"})
    ) == {"things", "others"}


def test_a_reference_to_itself_is_followed_once() -> None:
    def edit(schemas: Json) -> None:
        spec_of(schemas)["parent"] = {"$ref": "#/components/schemas/com.example.v1.Thing"}

    assert changed(edit) == {"things"}


def test_a_reference_in_the_words_of_a_description_is_none() -> None:
    def edit(schemas: Json) -> None:
        spec_of(schemas)["size"]["description"] = '"$ref":"#/components/schemas/meta.v1.Unused"'

    assert changed(edit) == set()


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"{",
        b'{"components":[]}',
        b'{"paths":7}',
        b'{"components":{"schemas":{"a":{"x":1}}}',
    ],
)
def test_what_is_no_document_is_malformed(document: bytes) -> None:
    with pytest.raises(Malformed):
        read_schemas(document)


def test_a_document_without_resources_has_none() -> None:
    assert read_schemas(b'{"openapi":"3.0.0"}') == {}
    assert read_schemas(b'{"components":{}}') == {}


def test_the_index_tells_the_hash_of_each_document() -> None:
    urls = {
        "api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=AB12"},
        "apis/apps/v1": {"serverRelativeURL": "/openapi/v3/apis/apps/v1"},
    }
    found = read_hashes(json.dumps({"paths": urls}).encode())
    assert found == {"api/v1": "AB12", "apis/apps/v1": ""}
    with pytest.raises(Malformed):
        read_hashes(b'{"paths":[]}')
