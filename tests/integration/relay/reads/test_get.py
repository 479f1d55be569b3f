"""R1 and R6, GET by name: the newest, of any age, not older than; not found and unknown are two
things. https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list
"""

import pytest

from tests.integration.relay.oracle import assert_same_refusal
from tests.integration.relay.place import Place
from tools.harness.pods.wire.caller import Parameters
from tools.harness.relay_objects import Contents

NEWEST: Parameters = {}
ANY: Parameters = {"resourceVersion": "0"}


@pytest.mark.parametrize("query", [{}, ANY], ids=["newest", "any"])
def test_r1_a_get_is_the_object_with_its_kind(
    shared: Place, contents: Contents, query: Parameters
) -> None:
    made = contents.configmap("a", labels={"x": "y"}, key="value")
    # At version 0 the API server may answer from before now, but not behind a consistent list.
    contents.version()
    said = shared.caller().get(contents.path("configmaps", "a"), query).expect()
    assert said == made
    # From a list too, whose items lack the kind.
    shared.caller().get(contents.path("configmaps"), {"resourceVersion": contents.version()})
    said = shared.caller().get(contents.path("configmaps", "a"), query).expect()
    assert said == contents.get("configmaps", "a")


def test_r1_a_get_without_a_version_is_the_newest(shared: Place, contents: Contents) -> None:
    contents.configmap("a", key="0")
    path = contents.path("configmaps", "a")
    shared.caller().get(contents.path("configmaps"), ANY).expect()
    for number in range(1, 10):
        contents.edit("configmaps", "a", {"data": {"key": str(number)}})
        assert shared.caller().get(path).expect()["data"]["key"] == str(number)
    contents.delete("configmaps", "a")
    assert_same_refusal(shared, path, {})


def test_r1_a_get_is_not_older_than_the_version_that_was_asked_for(
    shared: Place, contents: Contents
) -> None:
    contents.configmap("a", key="0")
    shared.caller().get(contents.path("configmaps"), ANY).expect()
    path = contents.path("configmaps", "a")
    for number in range(1, 5):
        changed = contents.edit("configmaps", "a", {"data": {"key": str(number)}})
        version = changed["metadata"]["resourceVersion"]
        said = shared.caller().get(path, {"resourceVersion": version}).expect()
        assert int(said["metadata"]["resourceVersion"]) >= int(version)


@pytest.mark.parametrize("query", [{}, ANY, {"resourceVersion": "now"}], ids=str)
def test_r1_what_does_not_exist_is_not_found(
    shared: Place, contents: Contents, query: Parameters
) -> None:
    version = contents.version()
    shared.caller().get(contents.path("configmaps"), {"resourceVersion": version}).expect()
    asked: Parameters = (
        {"resourceVersion": version} if query.get("resourceVersion") == "now" else query
    )
    assert_same_refusal(shared, contents.path("configmaps", "nope"), asked)


def test_r1_a_version_that_is_no_number_is_refused(shared: Place, contents: Contents) -> None:
    contents.configmap("a")
    shared.caller().get(contents.path("configmaps"), ANY).expect()
    assert_same_refusal(shared, contents.path("configmaps", "a"), {"resourceVersion": "x"})


def test_r1_an_object_made_anew_is_the_new_one(shared: Place, contents: Contents) -> None:
    contents.configmap("a")
    shared.caller().get(contents.path("configmaps"), ANY).expect()
    for _ in range(3):
        contents.delete("configmaps", "a")
        made = contents.configmap("a")
        said = shared.caller().get(contents.path("configmaps", "a")).expect()
        assert said["metadata"]["uid"] == made["metadata"]["uid"]


def test_r1_who_writes_through_a_place_reads_there_what_was_written(
    shared: Place, contents: Contents
) -> None:
    caller = shared.caller()
    listing, path = contents.path("configmaps"), contents.path("configmaps", "a")
    caller.get(listing, ANY).expect()
    body = {"metadata": {"name": "a"}, "data": {"key": "0"}}
    caller.post(listing, body).expect(201)
    for number in range(1, 8):
        caller.patch(path, {"data": {"key": str(number)}}).expect()
        for query in (NEWEST, ANY):
            assert caller.get(path, query).expect()["data"]["key"] == str(number)
            [item] = caller.get(listing, query).expect()["items"]
            assert item["data"]["key"] == str(number)
    caller.delete(path).expect()
    for query in (NEWEST, ANY):
        caller.get(path, query).expect(404)
        assert not caller.get(listing, query).expect()["items"]
