"""Waits until a stream can answer: opened, current, or as far as it gets in time."""

import asyncio
import math
from http import HTTPStatus

from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.watch_events import Failure
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import NoRoom, Streams

# Seconds for a first list, as kube-apiserver's --request-timeout: a bad link takes its time.
LONGEST_LIST = 60.0
# Seconds for a stream that follows upstream to prove that it has caught up: contract of the floor.
PROOF_WAIT = 1.0
# Seconds for it where opening took the time that a reader has: a round trip of a good link.
SHORTEST_PROOF = 0.1
# How often a stream is opened for one request: its history may turn out to be lost meanwhile.
OPENINGS = 2


class StreamDenied(Exception):
    """Upstream did not let the relay read this: what the caller may, only upstream can say."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class NotCached(Exception):
    """Nothing is known here that could answer, and upstream is out of reach."""


class UpstreamFailing(NotCached):
    """Upstream can be reached, but its last answer to the stream's first list was none."""


async def ready(streams: Streams, scope: ListScope, *, now: float, since: float) -> Stream:
    """The stream that answers a request of `since` (boot clock), opened or reopened where that is
    needed. It need not be current: upstream may be slow.

    Raises `NotCached` when there is none to be had, `UpstreamFailing` as soon as upstream does
    not manage to list what there is, `StreamDenied` when it refuses.
    """
    stream = streams.at_hand(scope)
    for _ in range(OPENINGS):
        if stream is not None or not streams.is_up:
            break
        stream = await _reopened(streams, scope, now=now, since=since)
    if stream is None:
        raise NotCached
    streams.use(stream, now=now)
    return stream


async def _reopened(
    streams: Streams, scope: ListScope, *, now: float, since: float
) -> Stream | None:
    """The best there is after a while; None where what there was turned out to be of a history
    that upstream lost."""
    clock = asyncio.get_running_loop().time
    until = clock() + streams.limits.open_timeout
    reopened = await opened(streams, scope, now=now, since=since)
    if not streams.is_current(reopened, since):
        # Where it fails, no reader waits for the answer: that lists work shows that its version is
        # of no use any more.
        reopened.confirm()
        # Whether upstream fails to prove it now: it may have done so a while ago.
        reopened.is_unproved = False
        await reopened.until(
            lambda: (
                streams.is_current(reopened, since)
                or not streams.is_up
                or not reopened.collection.is_synced
                or reopened.is_stuck
            ),
            timeout=min(PROOF_WAIT, max(until - clock(), SHORTEST_PROOF)),
        )
    # Where upstream is slow, what is known is better than nothing.
    found = streams.covering(scope)
    current = (stream for stream in found if streams.is_current(stream, since))
    return next(current, None) or next(iter(found), None)


async def opened(
    streams: Streams, scope: ListScope, *, now: float, since: float = math.inf
) -> Stream:
    """The stream that holds `scope`, once it follows upstream, or as far as it got; or once it
    is current. Raises as `ready`."""
    refusal = streams.refusal(scope, now=now)
    if refusal is not None:
        raise StreamDenied(refusal)
    try:
        stream = streams.open(scope, now=now)
    except NoRoom as error:
        # Upstream is asked each time instead: a limit is never worse than no relay.
        failure = Failure(HTTPStatus.TOO_MANY_REQUESTS, "TooManyRequests", str(error))
        raise StreamDenied(failure) from error
    is_known = bool(streams.covering(scope))
    await stream.until(
        lambda: (
            stream.is_open()
            or streams.is_current(stream, since)
            or stream.refusal is not None
            or stream.is_failing
            or not streams.is_up
        ),
        timeout=streams.limits.open_timeout if is_known else LONGEST_LIST,
    )
    if stream.refusal is not None:
        raise StreamDenied(stream.refusal)
    if stream.is_failing and not streams.covering(scope) and streams.is_up:
        raise UpstreamFailing
    return stream
