"""What is told at one moment: computed from `now`, each unknown null, each state with a reason."""

import json
import math
from dataclasses import replace

import pytest

from elector_sidecar.config.config import load
from elector_sidecar.core.candidacy import ElectionView
from elector_sidecar.core.handover import Intent
from elector_sidecar.core.lifecycle import LifecyclePlan
from elector_sidecar.status import ElectorStatus, describe

CONFIG = load(["--lease", "x", "--namespace", "ns", "--server", "http://h"], {}, hostname="host")
CONTEND = LifecyclePlan(intent=Intent.CONTEND, reason="", drains=False, is_over=False)
UNKNOWN = ElectionView(
    is_leader=False,
    is_contending=True,
    is_lapsed=False,
    holder="",
    is_missing=False,
    was_missing=False,
    valid_until=None,
    started_at=None,
    fencing_token=None,
    acquire_time=None,
    renew_time=None,
    lease_transitions=None,
    last_contact=None,
    free_at=math.inf,
    strategy=None,
    preferred_holder=None,
    uid=None,
)
FREE = replace(UNKNOWN, last_contact=99.0, lease_transitions=3, free_at=-math.inf)
HELD = replace(FREE, holder="other_1", free_at=110.0)
LEADER = replace(
    FREE,
    is_leader=True,
    holder="me_1",
    valid_until=112.0,
    started_at=90.0,
    fencing_token=7,
    acquire_time="2026-01-01T00:00:00.000000Z",
    renew_time="2026-01-01T00:00:08.000000Z",
)


def status(
    view: ElectionView, *, plan: LifecyclePlan = CONTEND, is_open: bool = True, now: float = 100.0
) -> ElectorStatus:
    return describe(view, now=now, identity="me_1", config=CONFIG, plan=plan, is_open=is_open)


def test_a_hold_is_the_reason_whatever_else_is_true() -> None:
    held = replace(HELD, is_contending=False, held_back_until=160.0)
    assert status(held).reason == "a hold keeps every elector out for another 60s"
    assert status(held).role == "pending"
    assert status(held, now=160.0).reason == "held by other_1"


def test_a_leaders_document() -> None:
    assert status(LEADER).document() == {
        "isLeader": True,
        "role": "leader",
        "identity": "me_1",
        "holder": "me_1",
        "holderPod": "me",
        "lease": {"namespace": "ns", "name": "x"},
        "validUntil": 112.0,
        "remainingSeconds": 12.0,
        "termSeconds": 10.0,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:08.000000Z",
        "leaseTransitions": 3,
        "fencingToken": 7,
        "lastContactSeconds": 1.0,
        "reason": "holds the Lease",
    }


def test_what_is_unknown_is_null() -> None:
    document = status(UNKNOWN).document()
    nulls = {name for name, value in document.items() if value is None}
    assert nulls == {
        *("validUntil", "termSeconds", "acquireTime", "renewTime"),
        *("leaseTransitions", "fencingToken", "lastContactSeconds"),
    }
    assert (document["role"], document["holder"], document["holderPod"]) == ("standby", "", "")
    assert document["remainingSeconds"] == 0


@pytest.mark.parametrize("view", [UNKNOWN, FREE, HELD, LEADER])
def test_the_document_is_one_line_of_json(view: ElectionView) -> None:
    text = status(view).json()
    assert b"\n" not in text
    assert json.loads(text) == status(view).document()


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (LEADER, "holds the Lease"),
        (UNKNOWN, "no contact with the API server yet"),
        (HELD, "held by other_1"),
        (FREE, "no pod holds the Lease"),
        (replace(FREE, free_at=104.0), "no pod holds the Lease; free in 4.0s unless renewed"),
        (
            replace(FREE, is_missing=True, free_at=104.0),
            "the Lease does not exist; free in 4.0s unless renewed",
        ),
        (
            replace(FREE, was_missing=True, free_at=104.0),
            "the Lease did not exist, and a leader that is cut off may still act; free in 4.0s "
            "unless renewed",
        ),
        (
            replace(HELD, holder="me_1", is_lapsed=True),
            "holds the Lease, but no renewal was acknowledged in time",
        ),
        (
            replace(HELD, strategy="OldestEmulationVersion"),
            "the Lease has spec.strategy OldestEmulationVersion: the API server chooses the holder",
        ),
    ],
)
def test_every_state_has_its_reason(view: ElectionView, reason: str) -> None:
    assert status(view).reason == reason


def test_the_plans_reason_comes_first_and_who_does_not_contend_is_pending() -> None:
    plan = LifecyclePlan(
        intent=Intent.ABSTAIN, reason="the main is away", drains=False, is_over=False
    )
    told = status(replace(HELD, is_contending=False), plan=plan)
    assert (told.role, told.reason) == ("pending", "the main is away")


@pytest.mark.parametrize(
    ("view", "is_open", "is_eligible"),
    [(UNKNOWN, True, False), (HELD, True, True), (HELD, False, False), (LEADER, True, True)],
)
def test_eligible_means_an_open_gate_and_a_first_contact(
    view: ElectionView, is_open: bool, is_eligible: bool
) -> None:
    assert status(view, is_open=is_open).is_eligible is is_eligible


def test_a_renewal_is_no_change_but_whatever_somebody_waits_for_is() -> None:
    before = status(LEADER)
    renewed = replace(LEADER, valid_until=114.0, renew_time="later", last_contact=101.0)
    assert before.is_same_state(status(renewed, now=102.0))
    for change in (
        replace(LEADER, holder="other"),
        replace(LEADER, is_leader=False),
        replace(LEADER, fencing_token=8),
        replace(LEADER, acquire_time="later"),
        replace(LEADER, lease_transitions=4),
        replace(LEADER, is_missing=True),
    ):
        assert not before.is_same_state(status(change)), change
    assert not before.is_same_state(status(LEADER, is_open=False))


def test_what_the_api_server_forbids_stands_behind_the_reason_or_for_it() -> None:
    def reason(view: ElectionView) -> str:
        told = describe(
            view,
            now=100.0,
            identity="me_1",
            config=CONFIG,
            plan=CONTEND,
            is_open=True,
            refusal="forbidden",
        )
        return told.reason

    assert reason(UNKNOWN) == "forbidden", "there was contact"
    assert reason(FREE) == "no pod holds the Lease; forbidden"
    assert reason(LEADER) == "holds the Lease; forbidden"
