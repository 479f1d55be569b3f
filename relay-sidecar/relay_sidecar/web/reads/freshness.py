"""How new an answer is, what is handed out, and how long a reader waits for a stream to be ready.

An answer is never older than what the relay has handed out before (no client goes backwards in
time), unless upstream cannot be asked: then it is what is cached, with its age.
"""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Final

from edge_sidecars.apimachinery.objects import Item, Key
from edge_sidecars.apimachinery.request.request_info import Representation, RequestInfo
from edge_sidecars.apimachinery.resource_version import response_version
from edge_sidecars.apimachinery.scope import ListScope, ResourceName
from edge_sidecars.apimachinery.status import Refused, unavailable
from edge_sidecars.apimachinery.watch_events import Failure
from edge_sidecars.runtime.clock import boottime
from relay_sidecar.core.caching import FRESH, Staleness
from relay_sidecar.core.min_resource_version import MinResourceVersion
from relay_sidecar.journal.journal import Journal
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import NoRoom, Streams
from relay_sidecar.upstream.messages import Upstream
from relay_sidecar.web.reads.rounds import WholeAnswers

# Seconds for a first list, as kube-apiserver's --request-timeout: a bad link takes its time.
LONGEST_LIST = 60.0
# Seconds for a stream that follows upstream to prove that it has caught up.
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


# Seconds; monotonic reads: how long an answer may wait to be new enough.
MINIMUM_WAIT = 1.0
# Seconds; an event is behind the answer to its write by less.
MINIMUM_PATIENCE = 0.05
# Objects: names and versions of so many, compressed, are as long as some objects.
CONFIRMED_FOR_ONE: Final = 1000
# Seconds; kube-apiserver: blockTimeout of its cacher (k8s.io/apiserver/pkg/storage/cacher).
VERSION_WAIT = 3.0


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """`reads_cache`: LIST and GET without a version come from live streams too. Seconds."""

    reads_cache: bool
    read_timeout: float
    request_timeout: float
    max_watchers: int
    watch_buffer: int


@dataclass(slots=True)
class Freshness:
    """`now` is monotonic, `wall` unix time, `clock` goes on while the machine sleeps."""

    streams: Streams
    upstream: Upstream
    journal: Journal
    settings: ReadSettings
    now: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    clock: Callable[[], float] = boottime
    # Beside what clients were answered in a form that is not kept.
    whole: WholeAnswers = field(init=False)

    def __post_init__(self) -> None:
        timeout = self.settings.request_timeout
        self.whole = WholeAnswers(self.upstream, timeout=timeout, wall=self.wall)

    @property
    def minimum(self) -> MinResourceVersion:
        return self.streams.minimum

    def staleness(self, stream: Stream, *, since: float, stands_in: bool = False) -> Staleness:
        """Of an answer from this stream to a client that asked at `since` (by `clock`);
        `stands_in` for one of upstream, which was asked and did not answer: then a stream that is
        live may be so no more."""
        if not stands_in and self.streams.is_current(stream, since):
            return FRESH
        return self.since(stream.as_of)

    def since(self, confirmed_at: float) -> Staleness:
        """Of an answer that upstream confirmed last at this wall time."""
        return Staleness.since(confirmed_at, now=self.wall())

    def age(self, stream: Stream, *, since: float, stands_in: bool = False) -> dict[str, str]:
        """The headers of such an answer."""
        staleness = self.staleness(stream, since=since, stands_in=stands_in)
        return staleness.headers(now=self.wall())

    def version(self, stream: Stream, scope: ListScope) -> int:
        """The highest at which upstream is known to have held what the stream holds of the scope:
        a list of a namespace tells it, where the stream is of all."""
        found = stream.version
        if not stream.collection.is_synced:
            return found
        is_of_one = scope.name is not None and scope.namespace
        of_all = ListScope(scope.resource, scope.namespace) if is_of_one else scope
        for each in (scope, of_all) if is_of_one else (scope,):
            if stream.scope.covers(each):
                whole, part = stream.collection.fingerprint, partial(stream.fingerprint_of, each)
                found = self.minimum.states.version(each, found, whole=whole, part=part)
        return found

    async def is_new_enough(
        self, stream: Stream, scope: ListScope, *, is_of_one: bool = False
    ) -> bool:
        """Whether it has come to where the minimum is now; while upstream is offline nothing is
        newer. What is handed out meanwhile happens beside this answer, not before it. One that has
        not, asks upstream for the names of all that it holds: once, for all readers that come.
        `is_of_one`: to ask upstream for the one object takes no longer, so that this reader does
        not wait for that."""
        at = self.minimum.of(scope.resource)

        def is_so() -> bool:
            return (
                self.minimum.is_reached(
                    scope,
                    stream.collection,
                    equal_at=self.version(stream, scope),
                    at=at,
                    asked_at=stream.asked_at,
                )
                or not self.upstream.is_up
                or self.upstream.is_relayed
            )

        if is_so():
            return True
        if stream.is_stuck:
            return False
        patience = 0.0
        if self.minimum.is_awaited(stream.scope, stream.collection):
            patience = MINIMUM_PATIENCE
        if await stream.until(is_so, timeout=patience):
            return True
        # Nothing is on its way, it seems: upstream can tell whether anything is missing.
        if not is_of_one or len(stream.collection.objects) <= CONFIRMED_FOR_ONE:
            stream.confirm()
        return not is_of_one and await stream.until(is_so, timeout=MINIMUM_WAIT - patience)

    async def remember(
        self,
        resource: ResourceName,
        item: Item,
        *,
        asked_at: float = -math.inf,
        age: float = 0.0,
        is_of_node: bool = False,
    ) -> None:
        """An object that upstream has answered with, `age` seconds old, before it is handed out;
        `asked_at`: the wall time at which it was asked for the newest there is; `is_of_node`: the
        node itself asked."""
        records = self.streams.seen.remember(
            resource, item, at=self.wall() - age, asked_at=asked_at, is_of_node=is_of_node
        )
        self.handed_out(resource, item.version, item)
        if asked_at > -math.inf or not self.minimum.is_older(resource, item.key, item.version):
            kept = self.streams.seen.get(resource, item.key)
            self.minimum.show(resource, item.key, kept[0].version if kept else item.version)
        if records:
            await self.journal.commit(*records)

    async def forget(self, resource: ResourceName, key: Key) -> None:
        """Upstream says that it is gone: in each API version."""
        self.minimum.show(resource, key, 0)
        records = self.streams.seen.forget(resource, key)
        if records:
            await self.journal.commit(*records)

    def passed_on(
        self, resource: ResourceName, body: bytes, wanted: Representation, *, is_list: bool
    ) -> int | None:
        """An answer of upstream goes to a client as it is. Returns its version, if it has one."""
        version = response_version(body, wanted.form, is_list=is_list)
        if version:
            self.handed_out(resource, version)
        return version or None

    def handed_out(
        self, resource: ResourceName, version: int, source: Item | ListScope | None = None
    ) -> None:
        self.minimum.raise_to(resource, version, source)

    def not_cached(self, info: RequestInfo) -> Refused:
        """Of what cannot be answered from the cache, while upstream is out of reach."""
        name = f" {info.name}" if info.name else ""
        where = f" of namespace {info.namespace}" if info.namespace else ""
        what = f"{_spelled(info.resource)}{name}{where}"
        cause = self.upstream.cause or "it gave no answer in time"
        why = f"not known here, and upstream is out of reach: {cause}"
        limit = self.streams.evicted_for(info.resource)
        remedy = f"some were evicted for {limit}" if limit else _remedy(info.resource)
        return Refused(unavailable(f"{what}: {why}; {remedy}"))

    def patience(self, *, has_answer: bool) -> float:
        """Seconds for which upstream may think, where the relay could answer as well or cannot.

        A fifth is for making that answer; before the link's first verdict a part has gone already.
        """
        if not has_answer:
            return self.settings.request_timeout
        read_timeout = self.settings.read_timeout
        return read_timeout * (0.8 if self.streams.is_up else 0.5)


def unreachable() -> Refused:
    """Of what is not in the endpoint view."""
    return Refused(unavailable("upstream is out of reach and this is not known here"))


def _remedy(resource: ResourceName) -> str:
    """What would have kept it."""
    if resource.plural == "secrets" and not resource.group:
        return "--keep-secrets keeps Secrets that are watched by name over a restart"
    return f"--preload={_spelled(resource)} keeps it from the start"


def _spelled(resource: ResourceName) -> str:
    """As kubectl and --preload take it."""
    if not resource.group:
        return resource.plural
    return f"{resource.plural}.{resource.version}.{resource.group}"
