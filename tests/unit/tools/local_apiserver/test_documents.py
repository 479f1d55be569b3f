"""Discovery and OpenAPI tell what is served, in a form that clients can follow."""

import json
from collections.abc import Iterator
from typing import Any

from edge_sidecars.apimachinery.openapi import read_schemas
from tools.local_apiserver.core.api_resource import Catalog
from tools.local_apiserver.core.builtin.table import builtin_resources
from tools.local_apiserver.core.crd import resources
from tools.local_apiserver.core.discovery import AGGREGATED
from tools.local_apiserver.documents import Documents
from tools.local_apiserver.response import Answer

JSON = "application/json"


def definition(**version: Any) -> Any:
    return {
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {
                "plural": "gadgets",
                "singular": "gadget",
                "kind": "Gadget",
                "listKind": "GadgetList",
                "shortNames": ["gd"],
            },
            "versions": [
                {
                    "name": name,
                    "served": name != "v1alpha1",
                    "storage": name == "v1",
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                    **version,
                }
                for name in ("v1alpha1", "v1", "v2beta1", "v2")
            ],
        },
    }


def documents(**version: Any) -> Documents:
    catalog = Catalog(builtin_resources())
    catalog.serve(resources(definition(**version)))
    return Documents(catalog)


def asked(of: Documents, path: str, accept: str = JSON) -> Any:
    found = of.answer(path, accept)
    assert isinstance(found, Answer), path
    assert found.status == 200
    return json.loads(found.body)


def test_each_path_that_discovery_names_is_there() -> None:
    of = documents()
    assert asked(of, "/api")["versions"] == ["v1"]
    for group in asked(of, "/apis")["groups"]:
        assert asked(of, f"/apis/{group['name']}")["name"] == group["name"]
        for version in group["versions"]:
            assert asked(of, f"/apis/{version['groupVersion']}")["resources"]
    assert of.answer("/apis/nowhere.example.com", JSON) is None
    assert of.answer("/apis/apps/v9", JSON) is None
    assert of.answer("/metrics", JSON) is None


def test_the_newest_stable_version_is_preferred() -> None:
    group = asked(documents(), "/apis/example.com")
    assert [one["version"] for one in group["versions"]] == ["v2", "v1", "v2beta1"]
    assert group["preferredVersion"]["version"] == "v2"


def test_resources_are_told_as_kube_apiserver_tells_them() -> None:
    of = documents(subresources={"status": {}})
    found = {one["name"]: one for one in asked(of, "/apis/example.com/v1")["resources"]}
    assert found["gadgets"]["kind"] == "Gadget"
    assert found["gadgets"]["shortNames"] == ["gd"]
    assert found["gadgets/status"]["verbs"] == ["get", "patch", "update"]
    spaces = {one["name"]: one for one in asked(of, "/api/v1")["resources"]}["namespaces"]
    assert not spaces["namespaced"]
    assert "deletecollection" not in spaces["verbs"]


def test_aggregated_discovery_tells_the_same() -> None:
    of = documents(subresources={"status": {}})
    answer = of.answer("/apis", f"{AGGREGATED},application/json")
    assert answer is not None
    assert answer.headers["Content-Type"] == AGGREGATED
    plain = {
        (group["name"], version["version"], one["name"])
        for group in asked(of, "/apis")["groups"]
        for version in group["versions"]
        for one in asked(of, f"/apis/{version['groupVersion']}")["resources"]
    }
    told = set()
    for group in asked(of, "/apis", AGGREGATED)["items"]:
        for version in group["versions"]:
            place = group["metadata"]["name"], version["version"]
            for one in version["resources"]:
                told.add((*place, one["resource"]))
                for sub in one.get("subresources", ()):
                    told.add((*place, f"{one['resource']}/{sub['subresource']}"))
    assert told == plain


def references(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == "$ref" and isinstance(value, str):
                yield value
            else:
                yield from references(value)
    elif isinstance(tree, list):
        for item in tree:
            yield from references(item)


def test_every_type_that_openapi_refers_to_is_in_its_document() -> None:
    of = documents()
    index = asked(of, "/openapi/v3")["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/example.com/v2"} <= set(index)
    for path, place in index.items():
        assert place["serverRelativeURL"].startswith(f"/openapi/v3/{path}?hash=")
        document = asked(of, f"/openapi/v3/{path}")
        names = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
        assert set(references(document)) <= names


def test_openapi_offers_field_validation_where_kubectl_looks_for_it() -> None:
    document = asked(documents(), "/openapi/v3/apis/example.com/v1")
    patch = document["paths"]["/apis/example.com/v1/namespaces/{namespace}/gadgets/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"]["kind"] == "Gadget"
    assert "fieldValidation" in [one["name"] for one in patch["parameters"]]


def test_selectable_fields_are_published_where_a_relay_looks_for_them() -> None:
    of = documents(selectableFields=[{"jsonPath": ".spec.colour"}])
    answer = of.answer("/openapi/v3/apis/example.com/v1", JSON)
    assert answer is not None
    assert read_schemas(answer.body)["gadgets"].fields == {"spec.colour"}


def test_the_digest_of_openapi_changes_with_what_is_served() -> None:
    lives: list[Any] = [{}, {}, {"subresources": {"status": {}}}]
    urls = [
        asked(documents(**version), "/openapi/v3")["paths"]["api/v1"]["serverRelativeURL"]
        for version in lives
    ]
    assert urls[0] == urls[1] != urls[2]


def test_the_old_openapi_is_there_in_both_forms() -> None:
    of = documents()
    assert asked(of, "/openapi/v2")["swagger"] == "2.0"
    answer = of.answer("/openapi/v2", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf")
    assert answer is not None
    assert answer.body.startswith(b"\x0a\x032.0")


def test_health_and_version_are_told() -> None:
    of = documents()
    for path in ("/livez", "/readyz", "/healthz"):
        answer = of.answer(path, "")
        assert answer is not None
        assert answer.body == b"ok"
    assert asked(of, "/version")["minor"] == "37"
