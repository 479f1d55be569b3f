"""The grammar of label selectors. Messages are those that kube-apiserver 1.36 answers; the
integration tests hold them against a real one."""

import pytest
from hypothesis import given

from edge_sidecars.apimachinery.selection.label_parser import LabelTerm, parse_terms
from edge_sidecars.apimachinery.selection.selector import BadSelector
from tests.unit.lib.apimachinery.selection import texts

NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        ("  \t\r\n", []),
        ("\rx", [LabelTerm("x", "")]),
        ("!x", [LabelTerm("x", "!")]),
        ("! x", [LabelTerm("x", "!")]),
        ("x=", [LabelTerm("x", "=", ("",))]),
        ("x= ,z== ", [LabelTerm("x", "=", ("",)), LabelTerm("z", "==", ("",))]),
        ("x!=a", [LabelTerm("x", "!=", ("a",))]),
        ("x>1,z<5", [LabelTerm("x", ">", ("1",)), LabelTerm("z", "<", ("5",))]),
        ("foo  in\t (abc)", [LabelTerm("foo", "in", ("abc",))]),
        ("x notin\n (def,abc)", [LabelTerm("x", "notin", ("abc", "def"))]),
        ("x in ()", [LabelTerm("x", "in", ("",))]),
        ("x in (,)", [LabelTerm("x", "in", ("",))]),
        ("x in (abc,)", [LabelTerm("x", "in", ("", "abc"))]),
        ("x in (a,,a,,b)", [LabelTerm("x", "in", ("", "a", "b"))]),
        ("x,y in (a)", [LabelTerm("x", ""), LabelTerm("y", "in", ("a",))]),
        ("in in (in,notin)", [LabelTerm("in", "in", ("in", "notin"))]),
        ("notin=in", [LabelTerm("notin", "=", ("in",))]),
        ("!in", [LabelTerm("in", "!")]),
        ("example.com/a=b", [LabelTerm("example.com/a", "=", ("b",))]),
        # A NUL ends the text where a token could begin, and only parts tokens elsewhere.
        ("a\0", [LabelTerm("a", "")]),
        ("a \0,b", [LabelTerm("a", "")]),
        ("a\0,b", [LabelTerm("a", ""), LabelTerm("b", "")]),
    ],
)
def test_what_is_well_formed_is_read(text: str, terms: list[LabelTerm]) -> None:
    assert list(parse_terms(text)) == terms


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a,=", "found '=', expected: identifier after ','"),
        ("!x=a", "found '=', expected: ',' or 'end of string'"),
        ("x==a==b", "found '==', expected: ',' or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("!!a", "unable to parse requirement: found '!', expected: identifier"),
        (
            "a b",
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
        ),
        ("a!", "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b=", "unable to parse requirement: found '=', expected: ',' or ')'"),
        ("a in (,", "unable to parse requirement: found '', expected: ',', or identifier"),
        ("a=(", "unable to parse requirement: found '(', expected: identifier"),
        ("-", f'unable to parse requirement: <nil>: Invalid value: "-": {NAME_RULE}'),
        ('a"', f'unable to parse requirement: <nil>: Invalid value: "a\\"": {NAME_RULE}'),
        (
            "a=-b",
            f'unable to parse requirement: values[0][a]: Invalid value: "-b": {VALUE_RULE}',
        ),
        (
            "a in (b,-c)",
            f'unable to parse requirement: values[0][a]: Invalid value: "-c": {VALUE_RULE}',
        ),
        (
            "x>a",
            "unable to parse requirement: values[0]: Invalid value: \"a\": for 'Gt', 'Lt' "
            "operators, the value must be an integer",
        ),
        (
            "x<-",
            "unable to parse requirement: [values[0]: Invalid value: \"-\": for 'Gt', 'Lt' "
            "operators, the value must be an integer, "
            f'values[0][x]: Invalid value: "-": {VALUE_RULE}]',
        ),
    ],
)
def test_what_is_not_is_refused_in_kube_apiservers_words(text: str, message: str) -> None:
    with pytest.raises(BadSelector) as refused:
        parse_terms(text)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    "key",
    [
        "a" * 63,
        "a" * 253 + "/b",
        "1-num.2-num/3-num",
        "Uppercase_Is_OK_123",
    ],
)
def test_keys_up_to_their_limits_are_read(key: str) -> None:
    assert list(parse_terms(key)) == [LabelTerm(key, "")]


@pytest.mark.parametrize(
    ("key", "complaint"),
    [
        ("a" * 64, "name part must be no more than 63 bytes"),
        ("a" * 254 + "/b", "prefix part must be no more than 253 bytes"),
        ("/a", "prefix part must be non-empty"),
        ("a/", "name part must be non-empty; name part must consist of"),
        ("Example.com/a", "prefix part a lowercase RFC 1123 subdomain must consist of"),
        ("a/b/c", "a valid label key must consist of"),
        ("é" * 32, "name part must be no more than 63 bytes; name part must consist of"),
    ],
)
def test_keys_beyond_them_are_refused(key: str, complaint: str) -> None:
    with pytest.raises(BadSelector, match=f"^unable to parse requirement: <nil>: .*: {complaint}"):
        parse_terms(key)


def test_values_up_to_their_limit_are_read_and_longer_ones_refused() -> None:
    assert list(parse_terms("a=" + "b" * 63)) == [LabelTerm("a", "=", ("b" * 63,))]
    with pytest.raises(BadSelector) as refused:
        parse_terms("a=" + "b" * 64)
    complaint = f'values[0][a]: Invalid value: "{"b" * 64}": must be no more than 63 bytes'
    assert str(refused.value) == f"unable to parse requirement: {complaint}"


@given(text=texts)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        terms = parse_terms(text)
    except BadSelector:
        return
    assert all(term.key for term in terms)
