"""Field selectors: escapes, meaning, and that of two the wider one is known."""

import pytest
from hypothesis import given

from edge_sidecars.apimachinery.selection.fields import FieldSelector
from edge_sidecars.apimachinery.selection.selector import BadSelector
from tests.unit.lib.apimachinery.selection import field_selectors, field_values, texts


def selects(text: str, **values: str) -> bool:
    return FieldSelector.parse(text).matches(lambda path: values.get(path, ""))


@pytest.mark.parametrize(
    ("text", "is_selected"),
    [
        ("a=x", True),
        ("a==x", True),
        ("a!=y", True),
        ("a=x,b=", True),
        ("b!=x", True),
        ("a=y", False),
        ("a!=x", False),
        ("a=x,b=x", False),
        ("a= x", False),
        (" a=x", False),
        ("", True),
        (",,", True),
    ],
)
def test_all_terms_have_to_hold_and_a_missing_field_is_empty(text: str, is_selected: bool) -> None:
    assert selects(text, a="x") is is_selected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"a=x\,y", "x,y"),
        (r"a=x\=y", "x=y"),
        (r"a=x\\", "x\\"),
        (r"a=\\\,", "\\,"),
        ("a=수", "수"),
        # Only the first operator parts a term.
        ("a!=!", "!"),
        ("a==!", "!"),
    ],
)
def test_values_are_unescaped(text: str, value: str) -> None:
    (requirement,) = FieldSelector.parse(text).requirements
    assert requirement.value == value
    assert FieldSelector.parse(str(FieldSelector.parse(text))) == FieldSelector.parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("b=1,a", "invalid selector: 'b=1,a'; can't understand 'a'"),
        ("a in (b)", "invalid selector: 'a in (b)'; can't understand 'a in (b)'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        (r"a=\b", r"invalid field selector: invalid escape sequence: \b"),
        ("a=\\", "invalid field selector: invalid escape sequence: \\"),
        # Terms are read in their order as texts.
        ("b,a=\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_what_is_malformed_is_refused_in_kube_apiservers_words(text: str, message: str) -> None:
    with pytest.raises(BadSelector) as refused:
        FieldSelector.parse(text)
    assert str(refused.value) == message


def test_a_term_without_path_and_value_is_none() -> None:
    assert FieldSelector.parse("=").is_everything
    assert FieldSelector.parse("!=,a=1") == FieldSelector.parse("a=1")
    assert not FieldSelector.parse("=x").is_everything


@pytest.mark.parametrize("text", ["b=2,a=1", "a==1,b==2", "a=1,,b=2,a=1"])
def test_one_meaning_is_one_value(text: str) -> None:
    assert FieldSelector.parse(text) == FieldSelector.parse("a=1,b=2")


def test_the_pinned_value_is_that_of_the_first_equality() -> None:
    selector = FieldSelector.parse("a=2,a=1,b!=3")
    assert selector.exact("a") == "1"
    assert selector.exact("b") is None
    assert FieldSelector.parse("a=").exact("a") == ""


@pytest.mark.parametrize(
    ("wide", "narrow"), [("", "a=1"), ("a!=2", "a=1"), ("a=1", "a=1,b=2"), ("a!=1", "a!=1,a!=2")]
)
def test_what_follows_is_covered_and_not_the_other_way(wide: str, narrow: str) -> None:
    assert FieldSelector.parse(wide).covers(FieldSelector.parse(narrow))
    assert not FieldSelector.parse(narrow).covers(FieldSelector.parse(wide))


@given(selector=field_selectors, values=field_values)
def test_the_canonical_text_means_the_same(selector: FieldSelector, values: dict[str, str]) -> None:
    read = FieldSelector.parse(str(selector))
    assert read == selector
    assert hash(read) == hash(selector)
    assert read.matches(values.__getitem__) == selector.matches(values.__getitem__)


@given(wide=field_selectors, narrow=field_selectors, values=field_values)
def test_a_covering_selector_misses_nothing(
    wide: FieldSelector, narrow: FieldSelector, values: dict[str, str]
) -> None:
    both = FieldSelector.of((*wide.requirements, *narrow.requirements))
    assert wide.covers(both)
    for covered in (narrow, both):
        if wide.covers(covered) and covered.matches(values.__getitem__):
            assert wide.matches(values.__getitem__)


@given(text=texts)
def test_whatever_is_accepted_has_a_canonical_text(text: str) -> None:
    try:
        selector = FieldSelector.parse(text)
    except BadSelector:
        return
    assert FieldSelector.parse(str(selector)) == selector
