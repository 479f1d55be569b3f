"""The reckoning behind check-leader, in virtual time: whatever the phases of the checks are.

keepalived starts a check each INTERVAL, takes it for failed after TIMEOUT, and gives the address up
after FALL failures in a row; check-leader demands FALL x INTERVAL + TIMEOUT of age and validity.
"""

import re
from dataclasses import dataclass
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from tools.nemesis.vip.keepalived import SHIPPED
from tools.nemesis.vip.node_observer import HOLD

# Of the elector: a lease as long as any hold that is drawn, at least.
VALIDITY = 60.0


@dataclass(frozen=True)
class Checks:
    interval: int
    timeout: int
    fall: int
    phase: float  # 0 to 1: when the first one starts, in intervals
    length: float  # 0 to 1: how long one lasts, in time-outs
    asked: float  # 0 to 1: when the elector answers, within that

    @property
    def hold(self) -> int:
        return self.fall * self.interval + self.timeout


CHECKS = st.integers(1, 4).flatmap(
    lambda interval: st.builds(
        Checks,
        interval=st.just(interval),
        timeout=st.integers(1, interval),
        fall=st.integers(1, 4),
        phase=st.floats(0, 1),
        length=st.floats(0, 1),
        asked=st.floats(0, 1),
    )
)


def released(checks: Checks, *, good_until: float) -> float:
    """When an owner gives the address up, whose elector says 200 before `good_until` only."""
    failures, started = 0, (checks.phase - 1) * checks.interval
    while True:
        ended = started + checks.length * checks.timeout
        answered = started + checks.asked * (ended - started)
        failures = 0 if answered < good_until else failures + 1
        if failures == checks.fall:
            return ended
        started += checks.interval


def taken(checks: Checks, *, leads_from: float, rise: int = 1) -> float:
    """When a check lets a new leader have the address, at the earliest."""
    started = leads_from - checks.interval + checks.phase * checks.interval
    successes = 0
    while successes < rise:
        answered = started + checks.asked * checks.length * checks.timeout
        successes = successes + 1 if answered >= leads_from + checks.hold else 0
        started += checks.interval
    return answered


def test_the_shipped_configuration_holds_for_as_long_as_tests_and_documents_say() -> None:
    text = (SHIPPED / "keepalived.conf").read_text(encoding="utf-8")
    number = dict(re.findall(r"^\$CHECK_(INTERVAL|TIMEOUT|FALL)=(\d+)$", text, re.MULTILINE))
    hold = int(number["FALL"]) * int(number["INTERVAL"]) + int(number["TIMEOUT"])
    assert hold == HOLD
    for name in ("interval", "timeout", "fall"):
        assert f"    {name} $CHECK_{name.upper()}\n" in text
    assert "${CHECK_INTERVAL} ${CHECK_TIMEOUT} ${CHECK_FALL}'" in text


@given(CHECKS, CHECKS, st.floats(0, 10))
def test_whoever_led_until_now_has_let_go_before_a_new_leader_takes_the_address(
    old: Checks, new: Checks, gap: float
) -> None:
    """The same configuration on every node, at phases and speeds of their own."""
    new = Checks(old.interval, old.timeout, old.fall, new.phase, new.length, new.asked)
    ends = 5.0
    assert released(old, good_until=ends) <= taken(new, leads_from=ends + gap)


@given(CHECKS)
def test_an_owner_that_cannot_renew_has_let_go_when_its_validity_ends(checks: Checks) -> None:
    valid_until = VALIDITY
    # A 200 needs min_remaining.
    assert released(checks, good_until=valid_until - checks.hold) <= valid_until


@given(CHECKS)
def test_an_owner_lets_go_only_when_its_elector_has_failed(checks: Checks) -> None:
    assert released(checks, good_until=5.0) >= 5.0
    assert released(checks, good_until=5.0) < inf
