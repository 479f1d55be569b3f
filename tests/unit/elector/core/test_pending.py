"""What people see of a Lease: what is asked of it, and the candidates that its record names."""

from dataclasses import replace

from elector_sidecar.core.history import TermRecord
from elector_sidecar.core.moves.pending import known_candidates, pending
from tests.unit.elector.core.records import WALL
from tests.unit.elector.core.test_moves import TO_OTHER, record

TERMS = (
    TermRecord("pod-3_x", "2026-11-28T20:00:00Z", "2026-11-28T21:00:00Z", "released"),
    TermRecord("pod-3_y", "2026-11-28T21:00:01Z", "2026-11-28T21:30:00Z", "released"),
    TermRecord("pod-2_b", "2026-11-28T21:30:01Z"),
)


def _known(*, holder: str = "pod-2_b", **said: str) -> dict[str, dict[str, object]]:
    lease = record(1, holder, **said)
    found = known_candidates(lease, TERMS, own="pod-1", own_priority=7, is_eligible=True)
    return {it.pop("pod"): it for it in found}


def test_the_pod_itself_is_first_and_knows_its_priority_and_whether_it_is_eligible() -> None:
    found = _known()
    assert list(found) == ["pod-1", "pod-2", "pod-3"]
    nothing = {"leads": False, "named": False, "ledUntil": None}
    assert found["pod-1"] == {"own": True, "priority": 7, "eligible": True, **nothing}


def test_the_leader_has_the_priority_of_the_lease_and_an_unknown_eligibility() -> None:
    leader = _known(priority="3")["pod-2"]
    assert (leader["leads"], leader["priority"], leader["eligible"]) == (True, 3, None)


def test_a_leader_of_another_program_has_no_priority() -> None:
    lease = replace(record(1, "pod-2_b", priority="3"), marked_holder="")
    [_, leader] = known_candidates(lease, (), own="pod-1", own_priority=0, is_eligible=False)
    assert leader["priority"] is None


def test_a_pod_that_led_is_known_by_the_end_of_its_last_term() -> None:
    assert _known()["pod-3"]["ledUntil"] == "2026-11-28T21:30:00Z"


def test_the_successor_that_a_switchover_names_is_known() -> None:
    found = _known(switchover=TO_OTHER.text().replace("pod-2", "pod-9"))
    assert found["pod-9"]["named"] is True
    assert not any(it["named"] for name, it in found.items() if name != "pod-9")


def test_without_a_lease_the_pod_knows_itself() -> None:
    found = known_candidates(None, (), own="pod-1", own_priority=0, is_eligible=False)
    assert [(it["pod"], it["leads"]) for it in found] == [("pod-1", False)]
    assert pending(None) == {"switchover": None, "hold": None, "problem": ""}


def test_what_asks_nothing_is_a_problem_and_names_no_candidate() -> None:
    lease = record(1, "pod-2_b", switchover="now")
    assert "is not JSON" in pending(lease)["problem"]
    assert "now" not in _known(switchover="now")


def test_a_switchover_and_a_hold_are_shown_with_their_end() -> None:
    hold = '{"id":"h","until":"2026-11-28T23:00:00Z"}'
    found = pending(record(1, "pod-2_b", switchover=TO_OTHER.text(), hold=hold))
    assert found["hold"] == {"until": "2026-11-28T23:00:00Z"}
    assert found["switchover"]["to"] == "pod-2"
    assert TO_OTHER.until == WALL + 60
    assert found["switchover"]["until"] in TO_OTHER.text()
