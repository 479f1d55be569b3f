"""P11, step by step: which record a process that starts takes at once, and which it does not."""

from dataclasses import replace

import pytest

from elector_sidecar.core.election import Election
from elector_sidecar.core.lease import (
    ANSWERS_AT_ANNOTATION,
    HOLDER_ANNOTATION,
    RESUMED_ANNOTATION,
    Lease,
    parse_lease,
)
from elector_sidecar.core.lease_writes import Candidate, WriteLease
from elector_sidecar.core.resume import AnswersAt
from elector_sidecar.core.timing import Timing
from tests.unit.elector.core.records import WALL

HERE = AnswersAt("uid-of-pod", "127.0.0.1:4040", "boot-1")
DEAD, ME = "pod_1", "pod_2"
# Since the boot of the machine.
NOW = 1000.0


def candidate(identity: str = ME, at: AnswersAt | None = HERE) -> Election:
    return Election(Candidate(identity, "default", "controller", Timing(), answers_at=at), now=NOW)


def record(
    more: dict[str, str] | None = None,
    *,
    at: AnswersAt = HERE,
    holder: str = DEAD,
    sent: float = NOW - 3,
) -> Lease:
    """As the dead process wrote it."""
    annotations = {HOLDER_ANNOTATION: holder, ANSWERS_AT_ANNOTATION: at.annotation(holder, sent)}
    return parse_lease(
        {
            "metadata": {
                "uid": "uid-1",
                "resourceVersion": "7",
                "annotations": annotations | (more or {}),
            },
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": 15,
                "acquireTime": "2026-01-01T00:00:00.000000Z",
                "renewTime": "2026-01-01T00:00:10.000000Z",
                "leaseTransitions": 4,
            },
        }
    )


def first_write(election: Election, lease: Lease, *, now: float = NOW) -> WriteLease | None:
    [read] = election.advance(now, wall=WALL + now, chance=0.0)
    election.read_answered(read.id, now, lease)
    commands = election.advance(now, wall=WALL + now, chance=0.0)
    return next((it for it in commands if isinstance(it, WriteLease)), None)


def stored(write: WriteLease, version: int) -> Lease:
    metadata = {**write.body["metadata"], "resourceVersion": str(version)}
    return parse_lease({"metadata": metadata, "spec": write.body["spec"]})


def test_it_takes_the_very_record_at_once_with_the_next_transition() -> None:
    election = candidate()
    write = first_write(election, record())
    assert write is not None
    assert write.base_version == 7
    assert write.body["metadata"]["uid"] == "uid-1"
    assert write.body["spec"]["leaseTransitions"] == 5
    assert not election.view(NOW).is_leader
    election.write_answered(write.id, NOW, stored(write, 8))
    assert election.view(NOW).fencing_token == 8
    assert election.has_resumed


def test_its_renewals_remember_that_it_resumed_and_say_where_it_answers() -> None:
    election = candidate()
    write = first_write(election, record())
    assert write is not None
    resumed = write.body["metadata"]["annotations"][RESUMED_ANNOTATION]
    assert float(resumed) == WALL + NOW
    election.write_answered(write.id, NOW, stored(write, 8))
    later = election.advance(NOW + 5, wall=WALL + NOW + 5, chance=0.0)
    [renewal] = [it for it in later if isinstance(it, WriteLease)]
    annotations = renewal.body["metadata"]["annotations"]
    assert annotations[RESUMED_ANNOTATION] == resumed
    assert annotations[ANSWERS_AT_ANNOTATION] == HERE.annotation(ME, NOW + 5)


@pytest.mark.parametrize(
    ("lease", "why_not"),
    [
        (record(at=replace(HERE, pod_uid="another")), None),
        (record(at=replace(HERE, address="127.0.0.1:4041")), "answered at 127.0.0.1:4041"),
        (record(at=replace(HERE, boot_id="boot-2")), "not heard for so long"),
        (record(sent=NOW - Timing().validity), "not heard for so long"),
        (record(sent=NOW + 1), "not heard for so long"),
        (record({RESUMED_ANNOTATION: f"{WALL + NOW - 59:.3f}"}), "resumed 59s ago"),
        (record({RESUMED_ANNOTATION: f"{WALL + NOW + 59:.3f}"}), "resumed 59s ago"),
        # Of a client-go candidate, and of an older elector, both of which keep annotations.
        (record({HOLDER_ANNOTATION: "another_1"}), None),
        (
            record({ANSWERS_AT_ANNOTATION: HERE.annotation(DEAD, NOW - 3)}, holder="other_1"),
            None,
        ),
        (record({ANSWERS_AT_ANNOTATION: "uid-of-pod"}), "answered at"),
        (record({ANSWERS_AT_ANNOTATION: "uid-of-pod 127.0.0.1:4040 boot-1 nan pod_1"}), "not h"),
    ],
)
def test_any_other_record_is_waited_for(lease: Lease, why_not: str | None) -> None:
    election = candidate()
    assert first_write(election, lease) is None
    told = election.why_not_resumed(NOW)
    assert told is None if why_not is None else told and why_not in told
    assert not election.has_resumed


def test_a_minute_later_it_may_resume_again() -> None:
    long_ago = record({RESUMED_ANNOTATION: f"{WALL + NOW - 61:.3f}"})
    assert first_write(candidate(), long_ago) is not None


def test_without_an_address_of_its_own_it_waits_and_leaves_no_trace_of_another() -> None:
    election = candidate(at=None)
    assert first_write(election, record()) is None
    later = election.advance(NOW + 20, wall=WALL + NOW + 20, chance=0.0)
    [write] = [it for it in later if isinstance(it, WriteLease)]
    assert ANSWERS_AT_ANNOTATION not in write.body["metadata"]["annotations"]
    assert RESUMED_ANNOTATION not in write.body["metadata"]["annotations"]


def test_a_late_renewal_of_the_dead_process_wins_or_loses_by_its_version() -> None:
    election = candidate()
    [read] = election.advance(NOW, wall=WALL + NOW, chance=0.0)
    election.read_answered(read.id, NOW, record())
    write, watch = election.advance(NOW, wall=WALL + NOW, chance=0.0)
    election.write_conflicted(write.id, NOW + 0.1)
    renewed = replace(record(sent=NOW - 0.5), resource_version=8)
    election.event_arrived(watch.id, NOW + 0.2, renewed)
    commands = election.advance(NOW + 0.2, wall=WALL + NOW, chance=0.0)
    [again] = [it for it in commands if isinstance(it, WriteLease)]
    assert again.base_version == 8
