"""The log of conditions, and what is left of it."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.sedna_api.core.api_object import Json
from gm.core.engine.conditions import Log, capped, left, told
from gm.core.kind import Problem

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
TIMES = ("lastHeartbeatTime", "lastTransitionTime")


def log(*conditions: Json) -> Log:
    return Log.of({"conditions": list(conditions)}, now=NOW, times=TIMES)


def test_what_is_the_state_already_is_not_appended() -> None:
    found = log({"type": "Running", "status": "True"})
    assert not found.append("Running")
    assert found.append("Pending", reason="X")
    assert [it["type"] for it in found.result()] == ["Running", "Pending"]


def test_a_condition_tells_when() -> None:
    found = log()
    found.append("Running")
    assert found.result()[0] == {
        "type": "Running",
        "status": "True",
        "lastHeartbeatTime": "2026-05-04T12:00:00Z",
        "lastTransitionTime": "2026-05-04T12:00:00Z",
    }


def test_a_problem_stands_last_and_the_state_is_behind_it() -> None:
    found = log({"type": "Running"})
    assert found.stand([Problem("spec.x", "is wrong", "mend it")])
    assert found.state == {"type": "Running"}
    after = found.result()
    assert [it["type"] for it in after] == ["Running", "Failed"]
    assert after[-1]["message"] == "spec.x: is wrong: mend it"
    again = log(*after)
    assert again.state == {"type": "Running"}
    assert not again.stand([Problem("spec.x", "is wrong", "mend it")])
    assert again.result() == after


def test_a_repaired_problem_is_followed_by_the_state() -> None:
    found = log({"type": "Running"}, {"type": "Failed", "reason": "InvalidSpec", "message": "m"})
    assert found.is_repaired
    assert [it["type"] for it in found.result()] == ["Running", "Failed", "Running"]
    assert log(*found.result()).result() == found.result()


def test_a_repaired_problem_is_followed_by_the_next_state_where_there_is_one() -> None:
    found = log({"type": "Running"}, {"type": "Failed", "reason": "InvalidSpec", "message": "m"})
    found.append("Completed")
    assert [it["type"] for it in found.result()] == ["Running", "Failed", "Completed"]


def test_a_failure_of_its_own_is_a_state_and_no_problem() -> None:
    found = log({"type": "Failed", "reason": "WorkerFailed"})
    assert found.state["reason"] == "WorkerFailed"
    assert not found.is_repaired


def test_long_messages_are_cut() -> None:
    assert len(told([Problem("f" * 500, "m" * 500, "r")])) < 1024


conditions = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["Waiting", "Ready", "Starting", "Running", "Completed"]),
            "stage": st.sampled_from(["Train", "Eval", "Deploy"]),
            "round": st.integers(1, 9),
            "data": st.just("x" * 9),
        }
    ),
    max_size=60,
)


@given(conditions)
def test_the_last_ten_and_what_is_needed_are_kept_in_order(entries: list[Json]) -> None:
    kept = capped(entries)
    assert len(kept) <= 10 + 7
    assert [it["type"] for it in kept[-10:]] == [it["type"] for it in entries[-10:]]
    for stage in ("Train", "Eval", "Deploy"):
        for type_ in ("Ready", "Completed"):
            before = [it for it in entries if (it["stage"], it["type"]) == (stage, type_)]
            after = [it for it in kept if (it["stage"], it["type"]) == (stage, type_)]
            assert after[-1:] == before[-1:]
    assert sum("data" in it for it in kept) <= 6
    assert capped(kept) == kept


def test_a_pause_is_never_longer_than_itself_whatever_a_clock_says() -> None:
    assert left(10, NOW - timedelta(seconds=4), NOW) == 6
    assert left(10, NOW - timedelta(days=4), NOW) == 0
    assert left(10, NOW + timedelta(days=4), NOW) == 10
    assert left(10, None, NOW) == 0
