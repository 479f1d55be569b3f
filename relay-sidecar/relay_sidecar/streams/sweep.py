"""The sweep: from time to time streams that have no reader are closed, and later deleted; closed is
also a stream that a wider one covers.
"""

import asyncio
import time

from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import StreamTouched
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.stream_journal import deletion_records
from relay_sidecar.streams.streams import Streams

# Seconds between rounds.
ROUND = 10.0
# Seconds; precision enough for `--retain`.
USE_PERSISTED_EVERY = 60.0


class Sweep:
    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._idle_timeout = streams.limits.idle_timeout
        # Those that are watched as a whole, and since when.
        self._whole_since: dict[Stream, float] = {}
        # By stream, those that hold all of it and more.
        self._wider: dict[Stream, list[Stream]] = {}

    async def run(self, journal: Journal) -> None:
        """Until it is cancelled."""
        streams = self._streams
        persisted: dict[Stream, float] = {}
        while True:
            await asyncio.sleep(min(ROUND, max(self._idle_timeout / 4, 0.1)))
            now = time.monotonic()
            self.close_covered(now=now)
            self.close_idle(now=now)
            streams.keep_within(now=now)
            # Offline nothing could take their place, and the clock may have been wrong.
            unused = self._unused(now) if streams.is_up else []
            for stream in unused:
                streams.drop(stream, None)
            await journal.commit(*deletion_records(unused))
            before = {stream: persisted.get(stream, -USE_PERSISTED_EVERY) for stream in streams}
            used = [s for s in streams if s.used_at - before[s] >= USE_PERSISTED_EVERY]
            persisted = before | {stream: stream.used_at for stream in used}
            at = time.time()
            await journal.commit(*(StreamTouched(stream.scope, at) for stream in used))

    def _unused(self, now: float) -> list[Stream]:
        """Those without a reader for so long that they are to be deleted."""
        retain = self._streams.limits.retain
        return [stream for stream in self._streams if now - stream.used_at > retain]

    def close_idle(self, *, now: float) -> None:
        """Stops the streams without readers; their data stays."""
        for stream in self._streams:
            if stream.is_read:
                stream.used_at = now
            elif now - stream.used_at > self._idle_timeout:
                stream.stop()

    def close_covered(self, *, now: float) -> list[Stream]:
        """Stops the streams that a live wider one serves as well; their data stays. Their watchers
        move there, if it has been watched as a whole for as long as an idle stream stays open: they
        do not come back, and for them alone it would be wider than they need. Returns those
        stopped."""
        streams, since, closed = self._streams, self._whole_since, []
        self._whole_since = {s: since.get(s, now) for s in streams if s.is_watched_whole}
        self._compare()
        for stream in streams:
            if stream.is_started and self._moves(stream, now):
                stream.stop()
                closed.append(stream)
        return closed

    def _compare(self) -> None:
        """Scopes do not change: each new stream is compared with the others, once."""
        here = set(self._streams)
        if here == self._wider.keys():
            return
        for gone in self._wider.keys() - here:
            del self._wider[gone]
        before = list(self._wider)
        for stream, wider in self._wider.items():
            self._wider[stream] = [it for it in wider if it in here]
        for new in here - self._wider.keys():
            self._wider[new] = [it for it in before if _is_wider(it, new)]
            for it in before:
                if _is_wider(new, it):
                    self._wider[it].append(new)
            before.append(new)

    def _moves(self, stream: Stream, now: float) -> bool:
        """Whether it has no readers any more: they read one of the others instead."""
        wider = [it for it in self._wider.get(stream, ()) if it.is_live()]
        if not wider or stream.is_waited_for:
            return False
        return not stream.watchers or any(
            self._stays_whole(other, now) and other.is_live() and stream.move_watchers(other)
            for other in wider
        )

    def _stays_whole(self, stream: Stream, now: float) -> bool:
        """It has been watched as a whole for long, and is likely to be so on."""
        since = self._whole_since.get(stream, now)
        return stream.is_watched_whole and now - since >= self._idle_timeout


def _is_wider(one: Stream, other: Stream) -> bool:
    """Of one name there is nothing to share."""
    scope = one.scope
    return scope.name is None and scope.covers(other.scope) and not other.scope.covers(scope)
