"""The clock on which validity is measured.

CLOCK_BOOTTIME runs on through suspend, where CLOCK_MONOTONIC stands still (hazard H6); it is the
same for all containers of a machine, so a main may compare `validUntil` with its own reading.
"""

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime() -> float:
    """Seconds since boot, read now: never an event loop's cached time."""
    return time.clock_gettime(_CLOCK)
