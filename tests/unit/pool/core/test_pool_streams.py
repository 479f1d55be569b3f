"""What a relay says of its pool-scoped streams, and what peers are told of it."""

from typing import Any

import pytest

from pool_sidecar.core.lan_state import LanState
from pool_sidecar.core.pool_member import Link
from pool_sidecar.core.pool_streams import (
    LIVE_GRACE,
    MAX_STREAMS,
    SHOWN_GRACE,
    STREAMS_VALID,
    PoolStream,
    RelayStreams,
)


def told(**changed: Any) -> dict[str, Any]:
    stream = {"resource": "services.v1.", "state": "live", "source": "cloud", "cursor": "812345"}
    return stream | changed


def status(*streams: dict[str, Any]) -> dict[str, Any]:
    return {"link": {"ownIsUp": True}, "pool": {"streams": list(streams)}}


def observed(*streams: dict[str, Any]) -> RelayStreams:
    found = RelayStreams()
    found.observed(status(*streams), 10.0)
    return found


def test_a_stream_that_the_api_server_feeds_is_live_for_peers() -> None:
    it = observed(told())
    assert it.shared(10.0) == (PoolStream("services.v1.", True, 812345),)
    assert it.are_live(10.0)


def test_one_that_a_hub_feeds_is_live_here_and_not_for_peers() -> None:
    it = observed(told(source="n3"))
    assert it.shared(10.0) == (PoolStream("services.v1.", False, 812345),)
    assert it.are_live(10.0)


def test_peers_are_told_from_where_on_a_watch_may_begin() -> None:
    (stream,) = observed(told(window="812001")).shared(10.0)
    assert (stream.cursor, stream.window) == (812345, 812001)
    assert PoolStream.parse(stream.document()) == stream
    with pytest.raises(ValueError, match="version that is none"):
        observed(told(window=None))


@pytest.mark.parametrize(
    "stream",
    [told(state="catching up"), told(state="idle", source="", cursor=None)],
)
def test_one_that_is_not_live_makes_no_leader(stream: dict[str, Any]) -> None:
    it = observed(told(), stream)
    assert not it.are_live(10.0)
    it.observed(status(told()), 20.0)
    assert it.are_live(20.0)


def test_a_watch_that_begins_anew_costs_nobody_the_lead() -> None:
    it = observed(told())
    it.observed(status(told(state="catching up")), 10.0 + LIVE_GRACE)
    assert not any(stream.is_live for stream in it.shared(10.0 + LIVE_GRACE))
    assert it.are_live(10.0 + LIVE_GRACE)
    assert not it.are_live(10.1 + LIVE_GRACE)


def test_peers_come_in_while_a_watch_begins_anew_and_never_for_what_a_hub_feeds() -> None:
    """As when a hub has just begun to lead."""
    it = observed(told())
    assert it.are_shown(10.0)
    it.observed(status(told(state="catching up")), 10.0 + SHOWN_GRACE)
    assert it.are_shown(10.0 + SHOWN_GRACE)
    it.observed(status(told(state="catching up")), 11.0 + SHOWN_GRACE)
    assert not it.are_shown(11.0 + SHOWN_GRACE)
    assert not observed(told(source="n3")).are_shown(10.0)
    assert not RelayStreams().are_shown(10.0)


def test_what_the_relay_said_counts_for_some_seconds() -> None:
    it = observed(told())
    assert it.shared(10.0 + STREAMS_VALID)
    assert not it.shared(10.1 + STREAMS_VALID)
    assert not it.are_live(10.1 + STREAMS_VALID)
    it.void()
    assert not it.shared(10.0)


def test_a_relay_that_does_not_answer_has_none() -> None:
    it = observed(told())
    it.observed({}, 11.0)
    assert (it.shared(11.0), it.are_live(11.0)) == ((), False)


def test_a_relay_that_shows_its_peers_nothing_hinders_nobody_from_leading() -> None:
    it = RelayStreams()
    it.observed({"link": {"ownIsUp": True}, "pool": None}, 10.0)
    assert (it.shared(10.0), it.are_live(10.0)) == ((), True)
    it.observed({"link": {"ownIsUp": True}}, 10.0)
    assert it.are_live(10.0), "of a former release"


@pytest.mark.parametrize(
    "broken",
    [
        {},
        told(cursor="-1"),
        told(cursor="x"),
        told(cursor=7),
        told(resource=""),
        told(resource="r" * 254),
        told(state=None),
    ],
)
def test_what_is_no_stream_is_none(broken: dict[str, Any]) -> None:
    it = RelayStreams()
    with pytest.raises(ValueError, match=r"stream"):
        it.observed(status(told(), broken), 10.0)
    assert (it.shared(10.0), it.are_live(10.0)) == ((), False)


def test_peers_read_what_was_written_and_no_more_streams_than_there_may_be() -> None:
    streams = tuple(PoolStream(f"r{it}.v1.", it % 2 == 0, it) for it in range(MAX_STREAMS))
    state = LanState("n2", "1", Link.OWN, True, None, {}, streams)
    assert LanState.decode(state.encode()) == state
    more = (*streams, PoolStream("one-more.v1.", True, 1))
    with pytest.raises(ValueError, match=r"streams"):
        LanState.decode(LanState("n2", "1", Link.OWN, True, None, {}, more).encode())
