"""Shard selectors: what they select, what they are answered with, and which are refused."""

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
        f"shardRange(\n {UID} , '{LOW}',\r\n'{HALF}' ) ",
        f"shardRange({UID},\"{LOW}\",'{HALF}')",
    ],
)
def test_what_cel_reads_alike_is_equal(spelling: str) -> None:
    assert str(ShardSelector.parse(spelling)) == FIRST_NORMALISED


def test_ranges_keep_their_order() -> None:
    upper = f"shardRange({UID}, '{HALF}', '{END}')"
    assert str(ShardSelector.parse(f"{upper}||{FIRST}||{upper}")) == (
        f"{upper} || {FIRST_NORMALISED} || {upper}"
    )


def of(bound: str) -> str:
    return f"shardRange({UID},{bound},'{HALF}')"


@pytest.mark.parametrize(
    "spelling",
    [
        *(" ", "x", "||", f"{FIRST} ||", f"|| {FIRST}", f"{FIRST} {FIRST}", f"{FIRST}||{NAMED}"),
        *(f"{FIRST} && {FIRST}", f"({FIRST})", f"{FIRST} // all of it", f"a.{FIRST}", FIRST[:-1]),
        *(
            FIRST.replace("uid", "name"),
            FIRST.replace(".", "x"),
            FIRST.replace("')", "',)"),
            f"{FIRST};",
            f"{FIRST}\u00a0",
        ),
        *(of(bound) for bound in ("0", "'00'", "'0x'", "'0x0'", "'0x20000000000000000'")),
        *(of(bound) for bound in ("'0x000000000000000A'", f"r'{LOW}'", f"'{LOW}\"", f"'{HALF}'")),
        *(of(f"'{END}'"), FIRST.replace("'0x0", "'0X0"), "(" * 5000, " " * 100_000 + FIRST),
    ],
)
def test_what_is_not_of_the_grammar_is_left_to_the_api_server(spelling: str) -> None:
    """Also what means the same in CEL."""
    with pytest.raises(BadSelector, match=r"^invalid shard selector: "):
        ShardSelector.parse(spelling)


@given(spelling=st.sampled_from((FIRST, NAMED)), cut=texts, at=st.integers(0, 80))
def test_any_text_is_read_or_refused(spelling: str, cut: str, at: int) -> None:
    for each in (cut, spelling[:at] + cut + spelling[at:]):
        try:
            selector = ShardSelector.parse(each)
        except BadSelector:
            continue
        assert ShardSelector.parse(str(selector)) == selector
