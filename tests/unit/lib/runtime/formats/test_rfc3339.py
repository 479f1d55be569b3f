"""Times as text, and back."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from edge_sidecars.runtime.formats import rfc3339

MOMENT = datetime(2023, 11, 14, 23, 13, 20, 250_000, tzinfo=timezone(timedelta(hours=1)))


@pytest.mark.parametrize(
    ("precision", "text"),
    [
        ("seconds", "2023-11-14T22:13:20Z"),
        ("milliseconds", "2023-11-14T22:13:20.250Z"),
        ("microseconds", "2023-11-14T22:13:20.250000Z"),
    ],
)
def test_a_moment_is_written_in_utc_with_the_digits_asked_for(
    precision: rfc3339.Precision, text: str
) -> None:
    assert rfc3339.stamp(MOMENT, precision) == text
    assert rfc3339.stamp_of(MOMENT.timestamp(), precision) == text


def test_microseconds_come_back_unrounded_however_far_away() -> None:
    for micros in (0, 1, 1_700_000_000_000_001, 253_402_300_799_999_999):
        found = rfc3339.parse(rfc3339.stamp_of_micros(micros))
        assert found is not None
        assert rfc3339.micros(found) == micros


def test_a_time_without_a_zone_is_none_unless_the_reader_names_one() -> None:
    assert rfc3339.parse("2023-11-14T22:13:20") is None
    assert rfc3339.parse("2023-11-14T22:13:20.25", zone=UTC) == MOMENT
    assert rfc3339.parse("2023-11-14T23:13:20.25+01:00", zone=UTC) == MOMENT
    assert rfc3339.parse("yesterday") is None
