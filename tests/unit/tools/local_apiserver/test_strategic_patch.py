"""Strategic merge patches of built-in types; that they are kube-apiserver's, others test."""

from typing import Any

import pytest

from tools.local_apiserver.core.body.strategic_patch import (
    BadStrategicPatch,
    strategic_merge,
)
from tools.local_apiserver.core.builtin.builtin_types import builtin_type
from tools.local_apiserver.core.unstructured import copied

POD_SPEC = builtin_type("io.k8s.api.core.v1.PodSpec")
POD = builtin_type("io.k8s.api.core.v1.Pod")


def merged(target: Any, patch: Any) -> Any:
    before = copied(target), copied(patch)
    found = strategic_merge(target, patch, POD_SPEC)
    assert (target, patch) == before
    return found


def test_items_of_a_list_are_merged_by_their_key() -> None:
    target = {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}
    patch = {"containers": [{"name": "b", "image": "2"}]}
    found = merged(target, patch)
    assert {one["name"]: one["image"] for one in found["containers"]} == {"a": "1", "b": "2"}


def test_new_items_are_added_without_their_directives() -> None:
    found = merged(
        {"containers": []}, {"containers": [{"name": "a", "image": None, "$patch": "merge"}]}
    )
    assert found == {"containers": [{"name": "a"}]}


def test_items_are_deleted_by_a_directive() -> None:
    target = {"containers": [{"name": "a"}, {"name": "b"}]}
    found = merged(target, {"containers": [{"name": "a", "$patch": "delete"}]})
    assert found == {"containers": [{"name": "b"}]}


def test_a_list_is_replaced_by_a_directive() -> None:
    target = {"containers": [{"name": "a"}, {"name": "b"}]}
    patch = {"containers": [{"$patch": "replace"}, {"name": "c"}]}
    assert merged(target, patch) == {"containers": [{"name": "c"}]}


def test_a_list_without_a_key_is_replaced() -> None:
    target = {"tolerations": [{"key": "a"}, {"key": "b"}]}
    assert merged(target, {"tolerations": [{"key": "c"}]}) == {"tolerations": [{"key": "c"}]}


def test_the_order_that_the_client_names_counts() -> None:
    target = {"containers": [{"name": name} for name in "abcd"]}
    patch = {"$setElementOrder/containers": [{"name": "d"}, {"name": "b"}]}
    found = merged(target, patch)["containers"]
    assert [one["name"] for one in found] == ["a", "c", "d", "b"]


def test_scalars_are_deleted_from_a_list_of_them() -> None:
    target: Any = {"metadata": {"finalizers": ["a/b", "c/d"]}}
    patch: Any = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/b"]}}
    assert strategic_merge(target, patch, POD) == {"metadata": {"finalizers": ["c/d"]}}


def test_only_the_keys_that_are_retained_stay() -> None:
    target = {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]}
    patch = {"volumes": [{"name": "v", "$retainKeys": ["name", "emptyDir"]}]}
    assert merged(target, patch) == {"volumes": [{"name": "v", "emptyDir": {}}]}


def test_maps_are_merged_and_null_deletes() -> None:
    target = {"nodeSelector": {"a": "1", "b": "2"}, "hostname": "h"}
    patch = {"nodeSelector": {"a": None, "c": "3"}, "hostname": None}
    assert merged(target, patch) == {"nodeSelector": {"b": "2", "c": "3"}}


@pytest.mark.parametrize(
    "patch",
    [
        {"containers": [{"image": "without a key"}]},
        {"$patch": "spoil"},
        {"$setElementOrder/containers": "a"},
        {"$deleteFromPrimitiveList/args": "a"},
    ],
)
def test_directives_that_make_no_sense_are_refused(patch: Any) -> None:
    with pytest.raises(BadStrategicPatch):
        merged({"containers": [{"name": "a"}]}, patch)
