"""Times as Kubernetes and our logs write them: RFC 3339, in UTC, with a "Z". Pure.

Owns how a moment becomes text and how a text is read. Guarantees: the digits of a second are
exactly those that were asked for, also where they are zero: none for metav1.Time, six for
metav1.MicroTime.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal, TypeAlias

Precision: TypeAlias = Literal["seconds", "milliseconds", "microseconds"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def stamp(moment: datetime, precision: Precision = "seconds") -> str:
    """`moment` has a time zone."""
    return moment.astimezone(UTC).isoformat(timespec=precision).removesuffix("+00:00") + "Z"


def stamp_now(precision: Precision = "seconds") -> str:
    return stamp(datetime.now(UTC), precision)


def stamp_of(wall: float, precision: Precision = "microseconds") -> str:
    """Of seconds since the epoch."""
    return stamp(datetime.fromtimestamp(wall, UTC), precision)


def stamp_of_micros(micros: int) -> str:
    """Of microseconds since the epoch, without a rounding."""
    return stamp(_EPOCH + micros * _MICROSECOND, "microseconds")


def micros(moment: datetime) -> int:
    """Microseconds since the epoch, without a rounding."""
    return (moment - _EPOCH) // _MICROSECOND


def parse(text: str, *, zone: tzinfo | None = None) -> datetime | None:
    """None where the text is no time; `zone` is that of a text that names none, which is no time
    either where `zone` is None."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    if found.tzinfo is None:
        return None if zone is None else found.replace(tzinfo=zone)
    return found
