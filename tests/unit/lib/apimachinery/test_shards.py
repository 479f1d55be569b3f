"""Shard selectors: what they select, what they are answered with, and which are refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.apimachinery.selection.selector import BadSelector
from edge_sidecars.apimachinery.selection.shards import ShardSelector
from tests.unit.lib.apimachinery.selection import texts

UID = "object.metadata.uid"
LOW, HALF, END = "0x0000000000000000", "0x8000000000000000", "0x10000000000000000"
FIRST = f"shardRange({UID},'{LOW}','{HALF}')"
FIRST_NORMALISED = f"shardRange({UID}, '{LOW}', '{HALF}')"
NAMED = f"shardRange(object.metadata.namespace,'{LOW}','{HALF}')"
hashes = st.integers(0, 2**64 - 1)
bounds = st.lists(st.integers(0, 2**64), min_size=2, max_size=2, unique=True).map(sorted)


def text(start: int, end: int) -> str:
    return f"shardRange({UID},'0x{start:016x}','0x{end:016x}')"


def test_a_range_has_its_start_and_not_its_end() -> None:
    selector = ShardSelector.parse(text(16, 32))
    assert [at for at in range(64) if selector.admits(at)] == list(range(16, 32))
    last = ShardSelector.parse(f"shardRange({UID},'{HALF}','{END}')")
    assert last.admits(2**64 - 1)
    assert not last.admits(2**63 - 1)


@given(ranges=st.lists(bounds, min_size=1, max_size=8), hashed=hashes)
def test_any_of_the_ranges_is_enough(ranges: list[list[int]], hashed: int) -> None:
    selector = ShardSelector.parse("||".join(text(*each) for each in ranges))
    for at in (hashed, *(bound for each in ranges for bound in each if bound < 2**64)):
        assert selector.admits(at) == any(start <= at < end for start, end in ranges)


@given(ranges=st.lists(bounds, min_size=1, max_size=8))
def test_the_normalised_text_means_the_same(ranges: list[list[int]]) -> None:
    selector = ShardSelector.parse(" || ".join(text(*each) for each in ranges))
    assert ShardSelector.parse(str(selector)) == selector
    assert str(ShardSelector.parse(str(selector))) == str(selector)


def test_no_text_selects_everything() -> None:
    assert ShardSelector.parse("").is_everything
    assert ShardSelector.parse("").admits(7)
    assert str(ShardSelector.parse("")) == ""


def test_the_namespace_is_hashed_where_the_ranges_say_so() -> None:
    selector = ShardSelector.parse(NAMED)
    assert selector.matches(uid="foobar", namespace="team-00")
    assert not selector.matches(uid="team-00", namespace="foobar")
    by_uid = ShardSelector.parse(FIRST)
    assert by_uid.matches(uid="team-00", namespace="foobar")
    assert not by_uid.matches(uid="foobar", namespace="team-00")


@pytest.mark.parametrize(
    "spelling",
    [
        FIRST,
        f" \t{FIRST}\n",
        f"shardRange(\n object . metadata . uid , '{LOW}',\r\n'{HALF}' ) // all of it",
        f"shardRange({UID},\"{LOW}\",'{HALF}')",
        f"shardRange({UID},'''{LOW}''',r\"\"\"{HALF}\"\"\")",
        f"((shardRange((object.metadata).uid,('{LOW}'),'{HALF}')))",
        f"a.b.shardRange({UID},'{LOW}','{HALF}')",
    ],
)
def test_what_cel_reads_alike_is_equal(spelling: str) -> None:
    assert str(ShardSelector.parse(spelling)) == FIRST_NORMALISED


def test_ranges_keep_their_order() -> None:
    upper = f"shardRange({UID}, '{HALF}', '{END}')"
    assert str(ShardSelector.parse(f"{upper}||({FIRST}||{upper})")) == (
        f"{upper} || {FIRST_NORMALISED} || {upper}"
    )


def of(bound: str) -> str:
    return f"shardRange({UID},{bound},'{HALF}')"


# As kube-apiserver 1.36.3 with ShardedListAndWatch says it.
@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        (" ", "empty shard selector is not allowed; omit the parameter for unfiltered lists"),
        ("x", "unexpected expression kind 3; expected shardRange() call or || operator"),
        ("a.b", "unexpected expression kind 7; expected shardRange() call or || operator"),
        ("'x'", "unexpected expression kind 5; expected shardRange() call or || operator"),
        (f"{FIRST}.x", "unexpected expression kind 7; expected shardRange() call or || operator"),
        ("foo(1)", 'unsupported function "foo"; only shardRange() and || are allowed'),
        (f".{FIRST}", 'unsupported function ".shardRange"; only shardRange() and || are allowed'),
        (
            f"{FIRST}||{FIRST}&&{FIRST}",
            'unsupported function "_&&_"; only shardRange() and || are allowed',
        ),
        ("shardRange()", "shardRange() requires exactly 3 arguments, got 0"),
        (f"{UID}.shardRange('a','b')", "shardRange() requires exactly 3 arguments, got 2"),
        (
            f"{FIRST} || {NAMED}",
            'all shard ranges must use the same field, got "object.metadata.uid" and '
            '"object.metadata.namespace"',
        ),
        (
            FIRST.replace("uid", "name"),
            'unsupported field path "object.metadata.name"; supported: object.metadata.uid, '
            "object.metadata.namespace",
        ),
        (
            FIRST.replace(UID, "'x'"),
            "shardRange() first argument: expected field path (e.g. object.metadata.uid), "
            "got expression kind 5",
        ),
        (
            FIRST.replace(UID, "f(x).uid"),
            "shardRange() first argument: expected field path (e.g. object.metadata.uid), "
            "got expression kind 1",
        ),
        (of("0"), "hexStart must be a string literal, got int64"),
        (of("b'0'"), "hexStart must be a string literal, got []uint8"),
        (of(UID), "hexStart must be a string literal (e.g. '0xff'), got expression kind 7"),
        (of("'00'"), "hexStart must have '0x' prefix, got \"00\""),
        (of("'0x'"), "hexStart: hex value is required after '0x'"),
        (
            of("'0x0'"),
            'hexStart must be a 0x-prefixed 16-digit hex value, got "0x0" '
            '(did you mean "0x0000000000000000"?)',
        ),
        (
            of("'0x20000000000000000'"),
            "hexStart: 17-digit hex value must be '0x10000000000000000' (2^64), "
            'got "0x20000000000000000"',
        ),
        (
            of("'0x200000000000000000'"),
            'hexStart: hex value too long (18 chars, max 17): "200000000000000000"',
        ),
        (
            of("'0x000000000000000A'"),
            'hexStart: invalid hex character "A" in "0x000000000000000A"',
        ),
        (
            of("'0x000000000000000é'"),
            'hexStart: invalid hex character "é" in "0x000000000000000é"',
        ),
        (of(f"'{HALF}'"), f"shard range start {HALF} must be less than end {HALF}"),
    ],
)
def test_what_is_malformed_is_refused_in_the_same_words(spelling: str, message: str) -> None:
    with pytest.raises(BadSelector, match=f"^{re.escape(f'invalid shard selector: {message}')}$"):
        ShardSelector.parse(spelling)


@pytest.mark.parametrize(
    "spelling",
    [
        *("||", f"{FIRST} ||", f"|| {FIRST}", f"{FIRST} {FIRST}", f"{FIRST} | {FIRST}", "x="),
        *(FIRST[:-1], FIRST.replace("')", "',)"), f"!{FIRST}", f"{FIRST}[0]", f"{FIRST};", "[]"),
        *(
            of("'0x00\\n'"),
            of("1.5"),
            "object..uid",
            "'",
            "(" * 5000,
            "(" * 200 + FIRST + ")" * 200,
        ),
        f"{FIRST}\u00a0x",
    ],
)
def test_what_is_no_such_expression_is_a_parse_error(spelling: str) -> None:
    with pytest.raises(BadSelector, match=r"^invalid shard selector: CEL parse error: "):
        ShardSelector.parse(spelling)


@given(spelling=st.sampled_from((FIRST, NAMED)), cut=texts, at=st.integers(0, 80))
def test_any_text_is_read_or_refused(spelling: str, cut: str, at: int) -> None:
    for each in (cut, spelling[:at] + cut + spelling[at:]):
        try:
            selector = ShardSelector.parse(each)
        except BadSelector:
            continue
        assert ShardSelector.parse(str(selector)) == selector
