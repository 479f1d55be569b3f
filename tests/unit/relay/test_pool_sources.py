"""What a line of /sources means, and for how long."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_sidecar.core.pool_sources import MAX_VALID, PoolSources, SourcesLine
from tests.examples import play

NOW = 100.0


def line(**changed: Any) -> bytes:
    """As pool-sidecar writes it while a neighbour lends."""
    told = {"role": "Follower", "link": "Lent", "detour": True, "via": "n3", "validSeconds": 6}
    return json.dumps(told | changed).encode()


def test_a_line_names_the_neighbour_that_lends() -> None:
    assert SourcesLine.parse(line()) == SourcesLine("n3", 6.0)
    assert SourcesLine.parse(line(detour=False, via="")) == SourcesLine("", 6.0)


def test_a_line_holds_for_its_seconds_and_never_longer_than_six() -> None:
    sources = PoolSources()
    assert sources.via(NOW) == ""
    sources.heard(SourcesLine.parse(line(validSeconds=2)), NOW)
    assert (sources.via(NOW + 1.9), sources.via(NOW + 2)) == ("n3", "")
    sources.heard(SourcesLine.parse(line(validSeconds=3600)), NOW)
    assert (sources.via(NOW + 5.9), sources.via(NOW + MAX_VALID)) == ("n3", "")


def test_the_next_line_takes_the_place_of_the_last_one() -> None:
    sources = PoolSources()
    sources.heard(SourcesLine("n3", 6.0), NOW)
    sources.heard(SourcesLine("", 6.0), NOW + 1)
    assert sources.via(NOW + 1) == ""


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b"{}",
        line(detour="yes"),
        line(via=None),
        line(via=""),
        line(detour=False),
        line(via="n" * 254),
        line(validSeconds=0),
        line(validSeconds=-1),
        line(validSeconds="6"),
        line(validSeconds=float("nan")),
        line(validSeconds=float("inf")),
    ],
)
def test_what_is_no_line_is_refused(broken: bytes) -> None:
    with pytest.raises(ValueError, match=r"^.+$"):
        SourcesLine.parse(broken)


@given(st.binary(max_size=60) | st.recursive(st.none() | st.integers(), st.lists).map(repr))
@play(200)
def test_no_bytes_make_anything_but_a_line_or_a_refusal(garbage: bytes | str) -> None:
    try:
        found = SourcesLine.parse(garbage if isinstance(garbage, bytes) else garbage.encode())
    except ValueError:
        return
    assert 0 < found.valid_for <= MAX_VALID
