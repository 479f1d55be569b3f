"""The clock on which validity and age are measured, and waiting for so long at most.

CLOCK_BOOTTIME runs on through suspend, where CLOCK_MONOTONIC stands still (hazard H6): what was
valid a night ago is not so in the morning. It is the same for all containers of a machine, so they
may compare moments.
"""

import asyncio
import time
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime() -> float:
    """Seconds since boot, read now: never an event loop's cached time."""
    return time.clock_gettime(_CLOCK)


def boot_id() -> str:
    """Of this run of the machine, to which `boottime` belongs; "" where it does not tell."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


async def is_set(event: asyncio.Event, *, within: float | None) -> bool:
    """Returns when it is set; False if it was not within so many seconds, None: without end."""
    try:
        async with asyncio.timeout(within):
            return await event.wait()
    except TimeoutError:
        return False
