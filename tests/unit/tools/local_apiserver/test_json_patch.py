"""JSON patch and JSON merge patch, by the examples of their RFCs and kube-apiserver's quirks."""

from typing import Any

import pytest

from edge_sidecars.apimachinery.merge_patch import merge_patch
from tools.local_apiserver.core.body.json_patch import (
    OPERATIONS_LIMIT,
    BadPatch,
    Inapplicable,
    json_patch,
)
from tools.local_apiserver.core.unstructured import copied


@pytest.mark.parametrize(
    ("target", "patch", "merged"),
    [
        # RFC 7386, appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches_are_applied_as_rfc_7386_says(target: Any, patch: Any, merged: Any) -> None:
    before = copied(target)
    assert merge_patch(target, patch) == merged
    assert target == before


@pytest.mark.parametrize(
    ("target", "operations", "patched"),
    [
        # RFC 6902, appendix A
        (
            {"foo": "bar"},
            [{"op": "add", "path": "/baz", "value": "qux"}],
            {"foo": "bar", "baz": "qux"},
        ),
        (
            {"foo": ["bar", "baz"]},
            [{"op": "add", "path": "/foo/1", "value": "qux"}],
            {"foo": ["bar", "qux", "baz"]},
        ),
        ({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
        ({"foo": ["a", "b", "c"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["a", "c"]}),
        ({"baz": "qux"}, [{"op": "replace", "path": "/baz", "value": "boo"}], {"baz": "boo"}),
        (
            {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
            [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
            {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
        ),
        (
            {"foo": ["all", "grass", "cows", "eat"]},
            [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
            {"foo": ["all", "cows", "eat", "grass"]},
        ),
        (
            {"baz": "qux", "foo": ["a", 2, "c"]},
            [
                {"op": "test", "path": "/baz", "value": "qux"},
                {"op": "test", "path": "/foo/1", "value": 2},
            ],
            {"baz": "qux", "foo": ["a", 2, "c"]},
        ),
        (
            {"foo": "bar"},
            [{"op": "add", "path": "/child", "value": {"grandchild": {}}}],
            {"foo": "bar", "child": {"grandchild": {}}},
        ),
        ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
        (
            {"foo": ["bar"]},
            [{"op": "add", "path": "/foo/-", "value": ["abc", "def"]}],
            {"foo": ["bar", ["abc", "def"]]},
        ),
        (
            {"a": {"b": [1]}},
            [{"op": "copy", "from": "/a", "path": "/c"}],
            {"a": {"b": [1]}, "c": {"b": [1]}},
        ),
        # kube-apiserver's library
        ({"a": [1, 2]}, [{"op": "remove", "path": "/a/-1"}], {"a": [1]}),
        ({"a": 1}, [{"op": "test", "path": "/b", "value": None}], {"a": 1}),
        ({"a": 1}, [{"op": "replace", "path": "/a"}], {"a": None}),
        ({"a": 1}, [], {"a": 1}),
    ],
)
def test_json_patches_are_applied_as_rfc_6902_says(
    target: Any, operations: Any, patched: Any
) -> None:
    before = copied(target)
    assert json_patch(target, operations) == patched
    assert target == before


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/no/where", "value": 1},
        {"op": "remove", "path": "/no"},
        {"op": "remove", "path": ""},
        {"op": "replace", "path": "/no", "value": 1},
        {"op": "move", "from": "/no", "path": "/a"},
        {"op": "copy", "from": "/no", "path": "/a"},
        {"op": "test", "path": "/a", "value": 2},
        # JSON's true is not 1.
        {"op": "test", "path": "/a", "value": True},
        {"op": "add", "path": "/list/3", "value": 1},
        {"op": "add", "path": "/list/x", "value": 1},
        {"op": "remove", "path": "/list/-3"},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "value": 1},
        {"op": "spam", "path": "/a"},
        {"op": "replace", "path": "", "value": 1},
        {"path": "/a"},
    ],
)
def test_a_json_patch_that_does_not_fit_is_told_from_one_that_is_none(operation: Any) -> None:
    with pytest.raises(Inapplicable):
        json_patch({"a": 1, "list": [1, 2]}, [operation])


@pytest.mark.parametrize("patch", [{}, "x", None, 1, ["x"], [None]])
def test_what_is_no_json_patch_is_refused(patch: Any) -> None:
    with pytest.raises(BadPatch):
        json_patch({}, patch)


def test_a_patch_cannot_make_the_origin_work_without_end() -> None:
    with pytest.raises(BadPatch):
        json_patch({}, [{"op": "test", "path": "/a", "value": None}] * (OPERATIONS_LIMIT + 1))
    doubling: list[Any] = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 60
    with pytest.raises(Inapplicable):
        json_patch({"a": [1]}, doubling)
