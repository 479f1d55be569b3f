"""What label selectors mean, and that of two the wider one is known."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.apimachinery.selection.labels import LabelSelector
from edge_sidecars.apimachinery.selection.selector import BadSelector
from tests.unit.lib.apimachinery.selection import label_selectors, label_sets, texts


def selects(text: str, **labels: str) -> bool:
    return LabelSelector.parse(text).matches(labels)


@pytest.mark.parametrize("text", ["x=a", "x==a", "x in (a,b)", "x", "x!=b", "x notin (b,c)"])
def test_a_label_with_the_value_is_selected(text: str) -> None:
    assert selects(text, x="a", y="z")


@pytest.mark.parametrize("text", ["x=b", "x in (b,c)", "!x", "x!=a", "x notin (a,b)", "y", "x>0"])
def test_one_with_another_value_is_not(text: str) -> None:
    assert not selects(text, x="a")


@pytest.mark.parametrize(
    ("text", "is_selected"),
    [
        ("x!=a", True),
        ("x notin (a)", True),
        ("!x", True),
        ("x=", False),
        ("x in ()", False),
        ("x>0", False),
        ("x<9", False),
    ],
)
def test_without_the_label_only_what_excludes_selects(text: str, is_selected: bool) -> None:
    assert selects(text) is is_selected


@pytest.mark.parametrize(
    ("text", "value", "is_selected"),
    [
        ("x>1", "2", True),
        ("x>1", "1", False),
        ("x<05", "4", True),
        ("x>1", "10", True),
        ("x>1", "a", False),
        ("x>1", "", False),
        # More than an int64 is no number to Go.
        ("x>1", "9" * 19, False),
    ],
)
def test_numbers_are_compared_as_numbers(text: str, value: str, is_selected: bool) -> None:
    assert selects(text, x=value) is is_selected


def test_all_requirements_have_to_hold() -> None:
    assert selects("x=a,y!=b", x="a", y="c")
    assert not selects("x=a,y!=b", x="a", y="b")


def test_everything_selects_what_has_no_labels() -> None:
    assert LabelSelector.parse("").is_everything
    assert LabelSelector.parse(" ").is_everything
    assert selects("")


@pytest.mark.parametrize(
    ("spellings", "canonical"),
    [
        (("a=1,b", "b,a==1", "b, a in (1)", "a=1,b,a=1"), "a=1,b"),
        (("x notin (b,a)", "x notin ( a , b , a )"), "x notin (a,b)"),
        (("x!=a", "x notin (a)"), "x!=a"),
        (("x in (b,,a)", "x in (,a,b)"), "x in (,a,b)"),
        (("x=", "x in ()"), "x="),
        (("x>007", "x > 7"), "x>7"),
        (("! x",), "!x"),
    ],
)
def test_one_meaning_is_one_value_and_one_text(spellings: tuple[str, ...], canonical: str) -> None:
    assert {LabelSelector.parse(text) for text in spellings} == {LabelSelector.parse(canonical)}
    assert {str(LabelSelector.parse(text)) for text in spellings} == {canonical}


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("", "a"),
        ("a", "a=1"),
        ("a", "a>1"),
        ("a in (1,2)", "a=1"),
        ("a!=1", "a=2"),
        ("a!=1", "!a"),
        ("a!=1", "a notin (1,2)"),
        ("a!=1", "a>1"),
        ("a>1", "a>3"),
        ("a<9", "a<3"),
        ("a>1", "a in (2,3)"),
        ("a", "b,a"),
    ],
)
def test_what_follows_is_covered_and_not_the_other_way(wide: str, narrow: str) -> None:
    assert LabelSelector.parse(wide).covers(LabelSelector.parse(narrow))
    assert not LabelSelector.parse(narrow).covers(LabelSelector.parse(wide))


@pytest.mark.parametrize(
    ("one", "other"), [("a=1", "a=2"), ("a", "b"), ("a", "!a"), ("a>1", "a<9"), ("a=1", "a!=2")]
)
def test_what_does_not_follow_is_not_covered(one: str, other: str) -> None:
    assert not LabelSelector.parse(one).covers(LabelSelector.parse(other))


def test_what_remains_to_be_filtered_is_what_does_not_follow() -> None:
    narrow, wide = LabelSelector.parse("a=1,b,c"), LabelSelector.parse("a in (1),b=2")
    assert str(narrow.residual(wide)) == "c"


@given(selector=label_selectors, labels=label_sets)
def test_the_canonical_text_means_the_same(selector: LabelSelector, labels: dict[str, str]) -> None:
    read = LabelSelector.parse(str(selector))
    assert read == selector
    assert hash(read) == hash(selector)
    assert str(read) == str(selector)
    assert read.matches(labels) == selector.matches(labels)


@given(selector=label_selectors, seed=st.integers(0, 99))
def test_no_spelling_changes_the_value(selector: LabelSelector, seed: int) -> None:
    chance = random.Random(seed)
    parts = [str(requirement) for requirement in selector.requirements]
    chance.shuffle(parts)
    spelled = " , ".join(parts).replace("=", "= ").replace("(", "\t( ").replace("! =", "!=")
    assert LabelSelector.parse(spelled) == selector


@given(wide=label_selectors, narrow=label_selectors, labels=label_sets)
def test_a_covering_selector_misses_nothing(
    wide: LabelSelector, narrow: LabelSelector, labels: dict[str, str]
) -> None:
    both = LabelSelector.of((*wide.requirements, *narrow.requirements))
    assert wide.covers(both)
    for covered in (narrow, both):
        if wide.covers(covered) and covered.matches(labels):
            assert wide.matches(labels)


@given(wide=label_selectors, narrow=label_selectors, labels=label_sets)
def test_what_remains_filters_as_the_whole_would(
    wide: LabelSelector, narrow: LabelSelector, labels: dict[str, str]
) -> None:
    if wide.matches(labels):
        assert narrow.residual(wide).matches(labels) == narrow.matches(labels)


@given(text=texts)
def test_whatever_is_accepted_has_a_canonical_text(text: str) -> None:
    try:
        selector = LabelSelector.parse(text)
    except BadSelector:
        return
    assert LabelSelector.parse(str(selector)) == selector
