"""The clock on which permissions and ages are measured.

CLOCK_BOOTTIME runs on through suspend, where CLOCK_MONOTONIC stands still: what was allowed or
known a night ago is not fresh in the morning.
"""

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime() -> float:
    """Seconds since boot, read now: never an event loop's cached time."""
    return time.clock_gettime(_CLOCK)
