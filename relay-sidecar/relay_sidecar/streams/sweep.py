"""The sweep: from time to time streams that have no reader are closed, and later deleted; closed is
also a stream that a wider one covers.

Knows when, not how.
"""

import asyncio
import time

from relay_sidecar.streams.stream_journal import StreamJournal
from relay_sidecar.streams.streams import Streams

# Seconds between rounds.
ROUND = 10.0


async def sweep(streams: Streams, journal: StreamJournal) -> None:
    """Until it is cancelled."""
    told: dict[object, float] = {}
    while True:
        await asyncio.sleep(min(ROUND, max(streams.limits.idle_timeout / 4, 0.1)))
        now = time.monotonic()
        streams.close_covered(now=now)
        streams.close_idle(now=now)
        # While cut off nothing could take their place, and the clock may have been wrong.
        unused = streams.unused(now=now) if streams.is_up else []
        for stream in unused:
            streams.drop(stream, None)
        await journal.deleted(*unused)
        # A minute's precision is plenty for `--retain`.
        used = [s for s in streams if s.used_at - told.get(s, -60.0) >= 60.0]
        told = {stream: told.get(stream, -60.0) for stream in streams}
        told |= {stream: stream.used_at for stream in used}
        await journal.touched(*used)
