"""A moment on somebody's clock, which arithmetic keeps apart from a duration.

The cores take `now` as a float and keep it, sums and maxima of it in their fields. Given a `Moment`
instead, every such field is one: so an explorer knows, without a list of fields, which numbers of a
core's state mean "so long ago" and which are durations.
"""

from typing import Any


class Moment(float):
    """Seconds; moment +- duration is a moment, moment - moment a duration."""

    __slots__ = ()

    def __add__(self, other: float) -> "Moment":
        return Moment(float.__add__(self, other))

    __radd__ = __add__

    def __sub__(self, other: float) -> Any:
        difference = float.__sub__(self, other)
        return difference if other.__class__ is Moment else Moment(difference)
