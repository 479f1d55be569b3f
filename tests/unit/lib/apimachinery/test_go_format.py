"""Texts as Go writes and reads them; the expected ones are Go 1.26's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.apimachinery.go_format import (
    MAX_PARAMETERS,
    json_text,
    parse_int64,
    parse_query,
    parse_uint64,
    quote,
)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", '""'),
        ("a b", '"a b"'),
        ('"\\', r'"\"\\"'),
        ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        ("\0\x7f", r'"\x00\x7f"'),
        ("\x85\u00a0\u2028\u200b", r'"\u0085\u00a0\u2028\u200b"'),
        ("é수😀", '"é수😀"'),
        ("\U000e0001", r'"\U000e0001"'),
    ],
)
def test_texts_are_quoted(text: str, quoted: str) -> None:
    assert quote(text) == quoted


def test_json_is_safe_inside_of_html() -> None:
    assert json_text({"a": ["<&>", "é\u2028"]}) == r'{"a":["\u003c\u0026\u003e","é\u2028"]}'


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("+7", 7),
        ("-7", -7),
        ("007", 7),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("0" * 9999 + "1", 1),
    ],
)
def test_integers_are_read(text: str, number: int) -> None:
    assert parse_int64(text) == number


@pytest.mark.parametrize("text", ["", "-", "abc", "1.0", "1e3", "0x1", "1_0", " 1", "1 ", "\u0661"])
def test_what_is_no_integer_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="invalid syntax") as refused:
        parse_int64(text)
    assert str(refused.value) == f"strconv.ParseInt: parsing {quote(text)}: invalid syntax"


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809", "1" * 9999])
def test_so_is_what_does_not_fit(text: str) -> None:
    with pytest.raises(ValueError, match="value out of range") as refused:
        parse_int64(text)
    assert str(refused.value) == f'strconv.ParseInt: parsing "{text}": value out of range'


def test_unsigned_integers_have_no_sign_and_one_bit_more() -> None:
    assert parse_uint64("18446744073709551615") == 2**64 - 1
    for text in ("+1", "-1"):
        with pytest.raises(ValueError, match=r"^strconv\.ParseUint: .*: invalid syntax$"):
            parse_uint64(text)
    with pytest.raises(ValueError, match=r"value out of range$"):
        parse_uint64("18446744073709551616")


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("", {}),
        ("a=1&b=2&a=3", {"a": ("1", "3"), "b": ("2",)}),
        ("a", {"a": ("",)}),
        ("a=b=c", {"a": ("b=c",)}),
        ("a=x+y%2Bz", {"a": ("x y+z",)}),
        ("%61=1", {"a": ("1",)}),
        # Pairs that Go refuses are left out, the others stay.
        ("a=%zz&b=%4&c;d=1&e=1", {"e": ("1",)}),
        ("a=%ff", {"a": ("\ufffd",)}),
        ("&&=1", {"": ("1",)}),
    ],
)
def test_queries_are_read(text: str, query: dict[str, tuple[str, ...]]) -> None:
    assert parse_query(text) == query


def test_of_a_query_with_too_many_parameters_none_counts() -> None:
    """As net/url: kube-apiserver then lists where `watch` is one of them."""
    assert len(parse_query("&".join(f"a{it}=1" for it in range(MAX_PARAMETERS)))) == MAX_PARAMETERS
    assert parse_query("watch=1" + "&" * MAX_PARAMETERS) == {}


@given(number=st.integers(-(2**63), 2**63 - 1))
def test_every_int64_is_read_back(number: int) -> None:
    assert parse_int64(str(number)) == number
