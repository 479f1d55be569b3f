"""Until when a main may act: both bounds of each document, and nothing by silence."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.leader_client.lead import (
    SILENT_AFTER,
    Lead,
    LeaderDocument,
)
from edge_sidecars.leader_client.proof import NotAnElectorDocument


def leading(
    remaining: float, *, valid_until: float | None = None, term: int = 1, holder: str = "me"
) -> LeaderDocument:
    return LeaderDocument(
        is_leader=True,
        holder=holder,
        remaining=remaining,
        valid_until=valid_until,
        term=term,
        reason="holds the Lease",
    )


FOLLOWING = LeaderDocument(
    is_leader=False, holder="other", remaining=0.0, valid_until=None, term=None, reason="standby"
)


def test_nobody_leads_before_a_document() -> None:
    lead = Lead()
    lead.proof.asked(1.0)
    assert not lead.is_leader(1.0)
    assert not lead.may_act(1.0, 0.0)
    assert lead.term(1.0) is None


def test_the_first_document_counts_from_when_it_was_asked_for() -> None:
    lead = Lead()
    lead.proof.asked(100.0)
    lead.heard(leading(14.0), 103.0)
    assert lead.proof.deadline == 114.0


def test_a_heartbeat_counts_from_the_arrival_of_the_one_before() -> None:
    lead = Lead()
    lead.proof.asked(100.0)
    lead.heard(leading(14.0), 100.5)
    lead.heard(leading(13.0), 101.5)
    assert lead.proof.deadline == 113.5


def test_what_lay_in_the_socket_of_a_frozen_process_prolongs_nothing() -> None:
    """Frozen from 101 to 161, it reads at once what was said at 102 and 103."""
    lead = Lead()
    lead.proof.asked(100.0)
    lead.heard(leading(14.0, valid_until=114.0), 100.5)
    lead.heard(leading(13.0, valid_until=115.0), 161.0)
    lead.heard(leading(12.0, valid_until=115.0), 161.0)
    assert not lead.is_leader(161.0)


def test_a_write_is_begun_only_if_it_ends_while_the_lead_is_proven() -> None:
    lead = Lead()
    lead.proof.asked(0.0)
    lead.heard(leading(10.0), 0.0)
    assert lead.may_act(4.9, 5.0)
    assert not lead.may_act(5.0, 5.0)
    assert lead.is_leader(5.0)
    assert not lead.is_leader(10.0)


def test_a_document_that_says_no_ends_the_lead_at_once() -> None:
    lead = Lead()
    lead.proof.asked(0.0)
    lead.heard(leading(10.0), 0.0)
    assert lead.heard(FOLLOWING, 1.0)
    assert not lead.is_leader(1.0)


def test_a_heartbeat_is_no_change_and_a_new_term_is_one() -> None:
    lead = Lead()
    lead.proof.asked(0.0)
    assert lead.heard(leading(10.0), 0.0)
    assert not lead.heard(leading(9.0), 1.0)
    assert lead.heard(leading(10.0, term=2), 2.0)
    assert lead.term(2.0) == 2


@given(
    asked=st.floats(0, 1e6),
    delays=st.lists(st.tuples(st.floats(0, 60), st.floats(0, 20), st.floats(0, 30)), max_size=8),
)
def test_no_deadline_reaches_beyond_what_the_elector_meant(
    asked: float, delays: list[tuple[float, float, float]]
) -> None:
    """Whenever a document was made after the one before it had come, the deadline is within it."""
    lead = Lead()
    lead.proof.asked(asked)
    now = asked
    for until_made, on_its_way, remaining in delays:
        made = now + until_made
        now = made + on_its_way
        lead.heard(leading(remaining), now)
        assert lead.proof.deadline <= made + remaining


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"isLeader": "true", "remainingSeconds": 3.0},
        {"isLeader": True},
        {"isLeader": True, "remainingSeconds": "14"},
        {"isLeader": True, "remainingSeconds": -1.0},
        {"isLeader": True, "remainingSeconds": math.nan},
        {"isLeader": True, "remainingSeconds": math.inf},
    ],
)
def test_what_is_no_document_of_an_elector_proves_nothing(document: dict[str, object]) -> None:
    with pytest.raises(NotAnElectorDocument):
        LeaderDocument.parse(document)


def test_an_electors_document_is_read() -> None:
    document = LeaderDocument.parse(
        {
            "isLeader": True,
            "holder": "pod-1_0af3",
            "holderPod": "pod-1",
            "validUntil": 512.5,
            "remainingSeconds": 12.25,
            "fencingToken": 7,
            "reason": "holds the Lease",
        }
    )
    assert document == LeaderDocument(True, "pod-1", 12.25, 512.5, 7, "holds the Lease")


def test_nobody_seems_to_lead_while_no_sign_of_life_is_seen() -> None:
    lead = Lead()
    assert lead.is_vacant(0.0)
    renewed = replace(FOLLOWING, renewed="10:00:01")
    lead.heard(renewed, 10.0)
    assert not lead.is_vacant(10.0 + SILENT_AFTER / 2)
    # The same document again says nothing new.
    lead.heard(renewed, 11.0)
    assert lead.is_vacant(10.1 + SILENT_AFTER)
    lead.heard(replace(renewed, renewed="10:00:03"), 12.0)
    assert not lead.is_vacant(12.0)
    lead.heard(replace(renewed, holder="next"), 20.0)
    assert not lead.is_vacant(20.0)
    lead.heard(replace(renewed, holder=""), 20.5)
    assert lead.is_vacant(20.5)
