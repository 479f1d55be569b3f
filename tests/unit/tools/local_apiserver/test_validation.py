"""Values of custom resources, judged by their schema."""

from typing import Any

import pytest

from tools.local_apiserver.core.schema.pattern import BadPattern, Pattern
from tools.local_apiserver.core.schema.pruning import apply_defaults, drop_nulls, prune
from tools.local_apiserver.core.schema.schema import read_schema
from tools.local_apiserver.core.schema.validation import validate


def faults(schema: Any, value: Any) -> list[str]:
    return [str(fault) for fault in validate(value, read_schema(schema), "v")]


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "string"}, ["", "a"], [1, None, True, [], {}]),
        ({"type": "integer"}, [0, -1, 2.0], [1.5, "1", True, None]),
        ({"type": "number"}, [0, 1.5], ["1", False]),
        ({"type": "boolean"}, [True, False], [0, 1, "true"]),
        ({"type": "object"}, [{}], [[], "a"]),
        ({"type": "array"}, [[]], [{}, "a"]),
        ({"type": "string", "nullable": True}, [None, "a"], [1]),
        ({"x-kubernetes-int-or-string": True}, [1, "a"], [True, 1.5, None]),
        ({"type": "string", "enum": ["a", "b"]}, ["a"], ["c", ""]),
        # JSON's true is not 1.
        ({"enum": [1, "x"]}, [1, "x"], [True, "1"]),
        ({"type": "string", "pattern": "^a+$"}, ["a", "aaa"], ["", "ab", "a\n"]),
        ({"type": "string", "pattern": "b"}, ["abc"], ["ac"]),
        ({"type": "string", "minLength": 1, "maxLength": 2}, ["a", "üü"], ["", "abc"]),
        ({"type": "integer", "minimum": 1, "maximum": 3}, [1, 3], [0, 4]),
        (
            {"type": "number", "minimum": 1, "exclusiveMinimum": True},
            [1.1],
            [1, 0.9],
        ),
        (
            {"type": "number", "maximum": 1, "exclusiveMaximum": True},
            [0.9],
            [1, 1.1],
        ),
        ({"type": "integer", "multipleOf": 3}, [0, 9], [1]),
        ({"type": "integer", "format": "int32"}, [2**31 - 1, -(2**31)], [2**31]),
        ({"type": "integer", "format": "int64"}, [2**31], [2**63]),
        ({"type": "array", "minItems": 1, "maxItems": 2}, [[1], [1, 2]], [[], [1, 2, 3]]),
        ({"type": "array", "items": {"type": "string"}}, [["a"]], [["a", 1], [None]]),
        ({"type": "object", "minProperties": 1, "maxProperties": 1}, [{"a": 1}], [{}]),
        ({"type": "object", "required": ["a"]}, [{"a": None}], [{}, {"b": 1}]),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            [{"a": 1}],
            [{"a": "1"}],
        ),
        ({"anyOf": [{"minimum": 5}, {"enum": [1]}]}, [1, 6], [2]),
        ({"oneOf": [{"minimum": 5}, {"minimum": 7}]}, [6], [8, 1]),
        ({"allOf": [{"minimum": 5}, {"maximum": 7}]}, [6], [8, 1]),
        ({"not": {"enum": [1]}}, [2], [1]),
        (
            {"type": "array", "x-kubernetes-list-type": "set"},
            [["a", "b"], [1, True]],
            [["a", "a"]],
        ),
        (
            {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
            },
            [[{"k": 1, "v": 1}, {"k": 2, "v": 1}]],
            [[{"k": 1, "v": 1}, {"k": 1, "v": 2}]],
        ),
    ],
)
def test_a_value_is_as_its_schema_says(schema: Any, good: list[Any], bad: list[Any]) -> None:
    assert [value for value in good if faults(schema, value)] == []
    assert [value for value in bad if not faults(schema, value)] == []


@pytest.mark.parametrize(
    ("format", "good", "bad"),
    [
        ("date-time", ["2024-01-02T03:04:05Z", "2024-01-02t03:04:05.5+01:00"], ["2024-01-02", "x"]),
        ("date", ["2024-02-29"], ["2023-02-29", "24-1-1"]),
        ("duration", ["1h2m3.5s", "0", "3 days", "-1s"], ["1", "h", "1 parsec"]),
        ("ipv4", ["10.0.0.1"], ["10.0.0", "::1"]),
        ("ipv6", ["::1"], ["10.0.0.1"]),
        ("cidr", ["10.0.0.0/8", "fd00::/8"], ["10.0.0.0", "10.0.0.0/33"]),
        ("email", ["a@b.c"], ["a", "@b"]),
        ("hostname", ["example.com"], ["-a", "a_b"]),
        ("uri", ["http://example.com/x", "/path"], ["a b", "x"]),
        ("uuid", ["0e7bac49-2fda-4210-a94f-e1f258407c98"], ["0e7bac49"]),
        (
            "uuid4",
            ["0e7bac49-2fda-4210-a94f-e1f258407c98"],
            ["0e7bac492fda1210a94fe1f258407c98"],
        ),
        ("byte", ["", "YQ=="], ["?", "a"]),
        ("mac", ["00:11:22:33:44:55"], ["00:11:22:33:44"]),
        ("hexcolor", ["#fff", "ABCDEF"], ["#ff"]),
        ("rgbcolor", ["rgb(1,2,255)"], ["rgb(1,2)", "rgb(1,2,256)"]),
        ("isbn10", ["0-306-40615-2"], ["0-306-40615-3"]),
        ("isbn13", ["978-0-306-40615-7"], ["978-0-306-40615-8"]),
        ("creditcard", ["4111 1111 1111 1111"], ["4111 1111 1111 1112"]),
        ("ssn", ["111-22-3333"], ["11-22-3333"]),
        ("bsonobjectid", ["507f1f77bcf86cd799439011"], ["507f"]),
        ("k8s-short-name", ["a-b"], ["A", "a.b"]),
        ("k8s-long-name", ["a.b"], ["A"]),
        # Whatever is not known is not checked.
        ("colour", ["anything"], []),
        ("password", ["anything"], []),
    ],
)
def test_formats_are_kube_apiservers(format: str, good: list[str], bad: list[str]) -> None:
    schema = {"type": "string", "format": format}
    assert [value for value in good if faults(schema, value)] == []
    assert [value for value in bad if not faults(schema, value)] == []


def test_a_fault_names_its_field() -> None:
    inner = {"type": "object", "properties": {"b": {"type": "array", "items": {"type": "string"}}}}
    schema = {"type": "object", "properties": {"a": inner}}
    assert faults(schema, {"a": {"b": ["x", 1]}}) == [
        'v.a.b[1]: Invalid value: "integer": v.a.b[1] in body must be of type string: "integer"'
    ]


@pytest.mark.parametrize("text", ["(?=a)", r"(a)\1", "["])
def test_a_pattern_that_go_does_not_know_is_refused(text: str) -> None:
    with pytest.raises(BadPattern):
        Pattern(text)


def shaped(schema: Any, value: Any) -> tuple[Any, list[str]]:
    read = read_schema(schema)
    dropped = prune(value, read)
    drop_nulls(value, read)
    apply_defaults(value, read)
    return value, dropped


def test_what_a_schema_does_not_name_is_pruned() -> None:
    schema = {
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {}}}},
            "any": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "properties": {"strict": {"type": "object", "properties": {}}},
            },
            "embedded": {"type": "object", "x-kubernetes-embedded-resource": True},
        },
    }
    value = {
        "apiVersion": "v1",
        "kind": "K",
        "metadata": {"name": "n"},
        "list": [{"a": 1, "b": 2}],
        "any": {"x": {"y": 1}, "strict": {"z": 1}},
        "embedded": {"kind": "E", "metadata": {"name": "e"}, "spec": {}},
        "other": 1,
    }
    assert shaped(schema, value) == (
        {
            "apiVersion": "v1",
            "kind": "K",
            "metadata": {"name": "n"},
            "list": [{"a": 1}],
            "any": {"x": {"y": 1}, "strict": {}},
            "embedded": {"kind": "E", "metadata": {"name": "e"}},
        },
        ["any.strict.z", "embedded.spec", "list[0].b", "other"],
    )


def test_defaults_fill_what_is_missing_or_null() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "default": "x"},
            "b": {"type": "string", "default": "x"},
            "kept": {"type": "string", "nullable": True, "default": "x"},
            "gone": {"type": "string"},
            "inner": {
                "type": "object",
                "default": {},
                "properties": {"c": {"type": "integer", "default": 1}},
            },
        },
    }
    value, _ = shaped(schema, {"b": None, "kept": None, "gone": None})
    assert value == {"a": "x", "b": "x", "kept": None, "inner": {"c": 1}}


def test_a_default_is_nobodys_but_the_objects() -> None:
    defaulted: Any = {"type": "object", "default": {"x": []}}
    read = read_schema({"type": "object", "properties": {"a": defaulted}})
    one: Any = {}
    apply_defaults(one, read)
    one["a"]["x"].append(1)
    other: Any = {}
    apply_defaults(other, read)
    assert other == {"a": {"x": []}}


def test_a_large_schema_that_several_definitions_repeat_is_read_once() -> None:
    """As the pod templates of many CRDs: each takes megabytes otherwise."""

    def containing(*, fields: int, kept: str = "string") -> dict[str, Any]:
        inner = {f"field-{number}": {"type": kept} for number in range(fields)}
        pod = {"type": "object", "properties": inner}
        return {"type": "object", "properties": {"pod": pod}}

    (one, other, another) = (
        read_schema(containing(fields=20)).properties["pod"],
        read_schema(containing(fields=20)).properties["pod"],
        read_schema(containing(fields=20, kept="integer")).properties["pod"],
    )
    assert one is other
    assert another.properties["field-0"].type == "integer"
