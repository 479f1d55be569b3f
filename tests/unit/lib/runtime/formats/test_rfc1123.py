"""Names that Kubernetes takes."""

import pytest

from edge_sidecars.runtime.formats.rfc1123 import (
    is_label,
    is_label_key,
    is_label_value,
    is_subdomain,
)

LABELS = ("a", "0", "a-b", "a" * 63)
SUBDOMAINS = ("a.b", "kubernetes.default.svc", "a" * 64, ".".join(["a" * 50] * 4))
NEITHER = (
    "",
    "-",
    "a-",
    "-a",
    "A",
    "a_b",
    "a.",
    ".a",
    "a..b",
    "a.-b",
    "a/b",
    "é",
    "a\n",
    "a" * 254,
)


@pytest.mark.parametrize("text", [*LABELS, *SUBDOMAINS, *NEITHER])
def test_a_label_is_a_subdomain_without_dots_of_at_most_63_characters(text: str) -> None:
    assert is_label(text) == (text in LABELS)
    assert is_subdomain(text) == (text in LABELS + SUBDOMAINS)


@pytest.mark.parametrize(
    ("text", "is_key", "is_value"),
    [
        ("role", True, True),
        ("My_Name.1", True, True),
        ("example.com/role", True, False),
        ("", False, True),
        ("Example.com/role", False, False),
        ("example.com/", False, False),
        ("/role", False, False),
        ("a/b/c", False, False),
        ("_a", False, False),
        ("a" * 63, True, True),
        ("a" * 64, False, False),
    ],
)
def test_keys_and_values_of_labels(text: str, is_key: bool, is_value: bool) -> None:
    assert (is_label_key(text), is_label_value(text)) == (is_key, is_value)
