"""When a term begins, how long it lasts, and which writes prove it (P2, P3)."""

from elector_sidecar.core.lease_writes import OpenWrites, Purpose, WriteLease
from elector_sidecar.core.term import AppliedWrite, LeadershipTerm, extended, is_valid

VALIDITY = 14.0
TERM = LeadershipTerm(started_at=100, valid_until=110, acquire_time="then", fencing_token=7)


def write(
    number: int, *, stamp: str = "t", base: int = 1, purpose: Purpose = Purpose.ACQUIRE_OR_RENEW
) -> WriteLease:
    return WriteLease(
        id=number,
        purpose=purpose,
        body={},
        stamp=stamp,
        sent_at=float(number),
        base_version=base,
        creates=False,
    )


def proven(sent_at: float, *, version: int = 9) -> AppliedWrite:
    return AppliedWrite(sent_at=sent_at, resource_version=version, acquire_time="now")


def test_a_term_begins_with_the_proof_and_ends_by_the_sending_of_the_write() -> None:
    term = extended(None, 103, proven(100), validity=VALIDITY)
    assert term == LeadershipTerm(
        started_at=103, valid_until=114, acquire_time="now", fencing_token=9
    )


def test_a_proof_within_the_term_makes_the_same_term_longer() -> None:
    term = extended(TERM, 105, proven(104), validity=VALIDITY)
    assert term == LeadershipTerm(
        started_at=100, valid_until=118, acquire_time="then", fencing_token=7
    )


def test_an_older_proof_does_not_make_a_term_shorter() -> None:
    assert extended(TERM, 105, proven(94), validity=VALIDITY) == TERM


def test_after_a_lapse_another_term_begins_with_another_token() -> None:
    term = extended(TERM, 111, proven(109, version=12), validity=VALIDITY)
    assert term == LeadershipTerm(
        started_at=111, valid_until=123, acquire_time="now", fencing_token=12
    )


def test_a_proof_that_comes_after_its_own_validity_begins_nothing() -> None:
    assert extended(None, 114, proven(100), validity=VALIDITY) is None
    assert extended(TERM, 114, proven(100), validity=VALIDITY) is None


def test_a_late_proof_leaves_a_running_term_as_it_is() -> None:
    assert extended(TERM, 109, proven(95), validity=VALIDITY) == TERM


def test_a_term_is_valid_before_its_end_and_not_at_it() -> None:
    assert is_valid(TERM, 109.999)
    assert not is_valid(TERM, 110)
    assert not is_valid(None, 0)


def test_a_stamp_shows_an_open_write_even_after_its_answer_was_given_up() -> None:
    attempts = OpenWrites()
    attempts.add(write(1, stamp="a"))
    attempts.add(write(2, stamp="b"))
    attempts.lost(1, forget_before=0)
    assert attempts.stamped("a") == write(1, stamp="a")
    assert attempts.stamped("b") == write(2, stamp="b")
    assert attempts.stamped("c") is None
    assert attempts.stamped(None) is None


def test_an_answered_write_is_settled() -> None:
    attempts = OpenWrites()
    attempts.add(write(1, stamp="a"))
    assert attempts.landed(1) == write(1, stamp="a")
    assert attempts.landed(1) is None
    assert attempts.stamped("a") is None
    assert not attempts.may_apply(1)


def test_a_write_that_was_given_up_may_still_apply_to_its_version_and_to_no_other() -> None:
    attempts = OpenWrites()
    attempts.add(write(1, base=5))
    assert attempts.may_apply(5)
    attempts.lost(1, forget_before=0)
    assert attempts.may_apply(5)
    assert not attempts.may_apply(6)


def test_a_newer_version_settles_what_was_given_up() -> None:
    attempts = OpenWrites()
    attempts.add(write(1, stamp="a"))
    attempts.lost(1, forget_before=0)
    attempts.forget_doubtful()
    assert attempts.stamped("a") is None


def test_what_was_given_up_is_remembered_only_as_long_as_it_could_prove_something() -> None:
    """A candidate that is cut off for days gives up a write each second."""
    attempts = OpenWrites()
    for number in range(1, 1000):
        attempts.add(write(number, stamp=str(number)))
        attempts.lost(number, forget_before=number - VALIDITY)
    assert attempts.stamped("999") is not None
    assert attempts.stamped("986") is not None
    assert attempts.stamped("984") is None


def test_a_release_proves_no_term_by_its_stamp() -> None:
    attempts = OpenWrites()
    attempts.add(write(1, stamp="a", purpose=Purpose.RELEASE))
    assert attempts.stamped("a") is None
    attempts.lost(1, forget_before=0)
    assert attempts.stamped("a") is None


def test_only_writes_on_this_version_can_still_apply_to_it() -> None:
    attempts = OpenWrites()
    attempts.add(write(1, base=5))
    attempts.add(write(2, base=6))
    assert [one.id for one in attempts.flying(6)] == [2]
