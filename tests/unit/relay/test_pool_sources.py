"""What a line of /sources means, and for how long."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_sidecar.core.pool_sources import MAX_VALID, PoolSources, SourcesLine, Verdicts
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


JUDGED = {
    "node": "n1",
    "peers": [{"node": "n2"}, {"node": "n3"}, {"node": "n4"}],
    "verdicts": {"n3": "Degraded", "n5": "Silent", "n6": "NeverHeard"},
}


def test_endpoint_view_who_is_heard_and_not_judged_is_alive_and_so_is_the_node_itself() -> None:
    found = SourcesLine.parse(line(**JUDGED)).verdicts
    assert found == Verdicts(frozenset({"n1", "n2", "n4"}), frozenset({"n5"}))


def test_endpoint_view_verdicts_end_with_their_line() -> None:
    sources = PoolSources()
    assert sources.verdicts(NOW) is None
    sources.heard(SourcesLine.parse(line(**JUDGED, validSeconds=2)), NOW)
    assert sources.verdicts(NOW + 1.9) is not None
    assert sources.verdicts(NOW + 2) is None
    # An older pool-sidecar does not name the node.
    sources.heard(SourcesLine.parse(line()), NOW + 2)
    assert (sources.verdicts(NOW + 2), sources.via(NOW + 2)) == (None, "n3")


def test_endpoint_view_the_node_itself_is_never_silent() -> None:
    judged = JUDGED | {"verdicts": {"n1": "Silent"}}
    assert SourcesLine.parse(line(**judged)).verdicts == Verdicts(
        frozenset({"n1", "n2", "n3", "n4"}), frozenset()
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"node": ""},
        {"node": 7},
        {"peers": None},
        {"peers": {"node": "n2"}},
        {"verdicts": None},
        {"verdicts": ["n5"]},
    ],
    ids=str,
)
def test_endpoint_view_verdicts_that_do_not_fit_are_none_and_the_detour_stays(
    changed: dict[str, Any],
) -> None:
    found = SourcesLine.parse(line(**(JUDGED | changed)))
    assert (found.via, found.verdicts) == ("n3", None)


def test_endpoint_view_peers_that_are_none_are_left_out() -> None:
    judged = JUDGED | {"peers": [7, {}, {"node": ["n2"]}, {"node": "n4"}], "verdicts": {}}
    assert SourcesLine.parse(line(**judged)).verdicts == Verdicts(
        frozenset({"n1", "n4"}), frozenset()
    )
