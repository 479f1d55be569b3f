"""What a line of /sources means, and for how long."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_sidecar.pool.sources import (
    FORMER,
    LIVE_GRACE,
    MAX_VALID,
    PoolSources,
    SourcesLine,
)
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
        line(hub="n2"),
        line(hub={"live": {}}),
        line(peers={"node": "n2"}),
        line(peers=[{"cursors": {}}]),
        line(peers=[{"node": "n2", "cursors": ["x"]}]),
        line(peers=[{"node": "n2", "live": [1]}]),
        line(peers=[{"node": "n2", "cursors": {"services.v1.": 7}}]),
        line(peers=[{"node": "n2", "cursors": {"services.v1.": "-7"}}]),
        line(peers=[{"node": "n2", "cursors": {"services.v1.": "9" * 21}}]),
        line(peers=[{"node": "n2", "windows": {"services.v1.": 7}}]),
        line(peers=[{"node": "n2", "windows": ["services.v1."]}]),
        line(peers=[{"node": f"n{number}"} for number in range(65)]),
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


# ── hubs ──

SERVICES = "services.v1."


def peer(name: str, *, is_live: bool = True) -> dict[str, Any]:
    live = [SERVICES] if is_live else []
    return {"node": name, "cursors": {SERVICES: "7"}, "live": live}


def heard(sources: PoolSources, hub: str, now: float, *peers: dict[str, Any], **more: Any) -> None:
    found = {"node": hub, "live": {}} if hub else None
    sources.heard(SourcesLine.parse(line(hub=found, peers=list(peers), **more)), now)


def test_the_hub_is_the_peer_that_leads_and_whose_stream_is_live() -> None:
    sources = PoolSources()
    heard(sources, "n2", NOW, peer("n2"), peer("n4"))
    assert sources.hubs(SERVICES, NOW) == ["n2"]
    assert sources.hubs("secrets.v1.", NOW) == []
    assert sources.hubs(SERVICES, NOW + MAX_VALID) == [], "nobody says so any more"


def test_while_its_node_leads_a_relay_reads_from_the_one_of_it_that_peers_read() -> None:
    shown, other = PoolSources(), PoolSources(reads_own=True)
    own = peer("n1") | {"windows": {SERVICES: "5"}}
    for sources in (shown, other):
        heard(sources, "", NOW, peer("n2"), role="Leader", own=own)
    assert shown.hubs(SERVICES, NOW) == [], "it is that one itself"
    assert other.hubs(SERVICES, NOW) == ["n1"]
    assert other.window("n1", SERVICES) == 5
    assert other.hubs("secrets.v1.", NOW) == []
    # Its watch begins anew; then the node leads no more, and later not lately.
    heard(other, "", NOW + 1, peer("n2"), role="Leader", own=peer("n1", is_live=False))
    assert other.hubs(SERVICES, NOW + 1) == ["n1"]
    heard(other, "n2", NOW + 2, peer("n2"), own=own)
    assert other.hubs(SERVICES, NOW + 2) == ["n2", "n1"]
    heard(other, "n2", NOW + 2 + FORMER, peer("n2"), own=own)
    assert other.hubs(SERVICES, NOW + 2 + FORMER) == ["n2"]


def test_a_node_that_may_lead_and_does_not_is_no_hub_of_its_own() -> None:
    sources = PoolSources(reads_own=True)
    heard(sources, "", NOW, own=peer("n1"))
    assert sources.hubs(SERVICES, NOW) == []


@pytest.mark.parametrize("own", [[], "n1", {}, {"node": ""}, {"node": "n1", "cursors": [1]}])
def test_a_line_about_its_own_node_that_is_none_is_refused(own: Any) -> None:
    with pytest.raises(ValueError, match="peer"):
        SourcesLine.parse(line(own=own))


def test_where_the_window_of_a_peer_begins_is_its_word() -> None:
    sources = PoolSources()
    heard(sources, "n2", NOW, peer("n2") | {"windows": {SERVICES: "5"}}, peer("n4"))
    assert sources.window("n2", SERVICES) == 5
    assert sources.window("n4", SERVICES) == 0, "one that does not say is asked"


def test_a_hub_whose_watch_begins_anew_is_one_for_some_seconds() -> None:
    sources = PoolSources()
    heard(sources, "n2", NOW, peer("n2"))
    heard(sources, "n2", NOW + 2, peer("n2", is_live=False))
    assert sources.hubs(SERVICES, NOW + LIVE_GRACE) == ["n2"]
    assert sources.hubs(SERVICES, NOW + LIVE_GRACE + 0.1) == []


def test_a_hub_that_leads_no_more_and_is_live_is_one_for_five_seconds_behind_the_next_one() -> None:
    sources = PoolSources()
    heard(sources, "n2", NOW, peer("n2"), peer("n4", is_live=False))
    heard(sources, "", NOW + 1, peer("n2"), peer("n4", is_live=False))
    assert sources.hubs(SERVICES, NOW + 1) == ["n2"]
    heard(sources, "n4", NOW + 2, peer("n2"), peer("n4"))
    assert sources.hubs(SERVICES, NOW + 2) == ["n4", "n2"]
    assert sources.hubs(SERVICES, NOW + FORMER) == ["n4", "n2"]
    heard(sources, "n4", NOW + FORMER + 0.1, peer("n2"), peer("n4"))
    assert sources.hubs(SERVICES, NOW + FORMER + 0.1) == ["n4"]


def test_a_former_hub_that_is_live_no_more_is_none() -> None:
    sources = PoolSources()
    heard(sources, "n2", NOW, peer("n2"))
    heard(sources, "", NOW + 1, peer("n2", is_live=False))
    assert sources.hubs(SERVICES, NOW + 1) == []


def test_a_hub_that_is_not_heard_any_more_is_none() -> None:
    sources = PoolSources()
    heard(sources, "n2", NOW, peer("n2"))
    heard(sources, "", NOW + 1)
    assert sources.hubs(SERVICES, NOW + 1) == []


def test_who_leads_itself_has_no_hub() -> None:
    sources = PoolSources()
    heard(sources, "n2", NOW, peer("n2"), role="Leader")
    assert sources.leads(NOW)
    assert sources.hubs(SERVICES, NOW) == []


def test_a_node_that_may_lead_is_a_candidate_while_a_line_says_so() -> None:
    sources = PoolSources()
    heard(sources, "", NOW, candidate=True)
    assert sources.is_candidate(NOW)
    assert not sources.is_candidate(NOW + MAX_VALID)
