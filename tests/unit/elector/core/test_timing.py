"""Which sets of durations are safe, and what follows from them."""

import pytest

from elector_sidecar.core.timing import Timing, UnsafeTiming


def test_a_write_is_valid_for_95_percent_of_the_duration_less_the_margin() -> None:
    assert Timing(lease_duration=15).validity == pytest.approx(15 * 0.95 - 0.25)


@pytest.mark.parametrize(
    ("lease_duration", "renew_interval", "request_timeout"),
    [(15, 2, 3), (4, 1, 1.5), (3, 1, 1), (60, 10, 5), (15, 11, 2.9)],
)
def test_a_set_that_leaves_time_for_one_renewal_is_accepted(
    lease_duration: float, renew_interval: float, request_timeout: float
) -> None:
    timing = Timing(lease_duration, renew_interval, request_timeout)
    assert timing.validity > timing.renew_interval + timing.request_timeout


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"lease_duration": 15.5}, "15.5s is not whole seconds"),
        ({"lease_duration": 2}, "2s is under 3s"),
        ({"lease_duration": 86401}, "86401s is over 86400s"),
        ({"renew_interval": 0.5}, "0.5s is under 1s"),
        ({"request_timeout": 0}, "0s is not positive"),
        # 11 + 3 + 0.25 is exactly 15 x 0.95: no time is left for the answer.
        ({"renew_interval": 11}, "11s .* = 14.25s must be under .* = 14.25s"),
        ({"lease_duration": 5}, "2s .* 3s .* = 5.25s must be under .* = 4.75s"),
    ],
)
def test_an_unsafe_set_is_refused_with_its_values(values: dict[str, float], complaint: str) -> None:
    with pytest.raises(UnsafeTiming, match=complaint):
        Timing(**values)


def test_the_tolerances_of_the_defaults_are_the_documented_ones() -> None:
    assert Timing().tolerances() == {
        "api_outage_ridden_out": "11.50s",
        "takeover_after_crash": "15.05s after the last renewal",
        "takeover_after_release": "one round trip of the watch and one write",
        "clock_rate_ratio": "0.95",
    }
