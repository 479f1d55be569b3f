"""All streams: which one answers a request, when one is opened, closed, forgotten.

Guarantees: one upstream list+watch per thing, whoever asks (promise R2); an answer comes from
exactly one stream; while the link is up only from one that is live. What an object's newest known
state is, it tells from everything that the relay has seen. Knows no HTTP.
"""

import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Protocol

from edge_sidecars.apimachinery.objects import Item, Key, Page
from edge_sidecars.apimachinery.scope import ResourceName, Scope
from edge_sidecars.apimachinery.status import Refused, Status, expired, too_many
from edge_sidecars.apimachinery.store import Collection
from edge_sidecars.apimachinery.watch_events import Failure
from relay_sidecar.core.min_resource_version import MinResourceVersion
from relay_sidecar.streams.stream import ListEvidence, Stream
from relay_sidecar.telemetry.metrics import RelayCounters

# Seconds for a first list, as kube-apiserver's --request-timeout: a bad link takes its time.
LONGEST_LIST = 60.0
# Seconds for a stream that follows upstream to prove that it has caught up: contract of the floor.
PROOF_WAIT = 1.0
# Seconds for which nobody asks again for what upstream has refused.
REFUSAL_TTL = 10.0
MAX_REFUSALS = 1000


class StreamDenied(Exception):
    """Upstream did not let the relay read this: what the caller may, only upstream can say."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class NotCached(Exception):
    """Nothing is known here that could answer, and upstream is out of reach."""


class UpstreamFailing(NotCached):
    """Upstream can be reached, but its last answer to the stream's first list was none."""


class ReflectorControl(Protocol):
    """What keeps streams moving; owned by the reflectors."""

    def start(self, stream: Stream) -> None: ...
    def stop(self, stream: Stream) -> None: ...
    def runs(self, stream: Stream) -> bool: ...
    def is_open(self, stream: Stream) -> bool: ...
    def is_live(self, stream: Stream) -> bool: ...
    def confirmed_at(self, stream: Stream) -> float: ...
    def confirm(self, stream: Stream) -> None: ...
    def told(self, stream: Stream, told: ListEvidence) -> None: ...
    def relist(self, stream: Stream, *, is_paced: bool = False) -> None: ...
    def stands_at(self, resource: ResourceName, version: int) -> None: ...
    @property
    def is_up(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """`window_*` are per stream; `max_*` for the whole relay; times are seconds."""

    max_objects: int
    max_watchers: int
    window_bytes: int
    window_events: int
    idle_timeout: float
    retain: float
    open_timeout: float
    # Objects that were read by name or written, outside of any stream.
    max_seen: int = 2000


class Streams:
    def __init__(
        self,
        upstream: ReflectorControl,
        floor: MinResourceVersion,
        limits: Limits,
        counters: RelayCounters,
    ) -> None:
        self.counters = counters
        self.floor = floor
        self.limits = limits
        self._upstream = upstream
        self._streams: dict[ResourceName, dict[Scope, Stream]] = {}
        # Those that are watched as a whole, and since when.
        self._whole_since: dict[Stream, float] = {}
        self._refusals: dict[Scope, tuple[Failure, float]] = {}
        self._seen: OrderedDict[tuple[ResourceName, Key], tuple[Item, float]] = OrderedDict()

    def __iter__(self) -> Iterator[Stream]:
        for scopes in tuple(self._streams.values()):
            yield from tuple(scopes.values())

    def of(self, resource: ResourceName) -> Iterable[Stream]:
        return tuple(self._streams.get(resource, {}).values())

    @property
    def objects(self) -> int:
        return sum(len(stream.collection.objects) for stream in self)

    @property
    def watchers(self) -> int:
        return sum(stream.watchers for stream in self)

    @property
    def is_up(self) -> bool:
        return self._upstream.is_up

    def is_live(self, stream: Stream) -> bool:
        """Nothing that happened upstream is missing, but for what is on its way."""
        return self._upstream.is_up and self._upstream.is_live(stream)

    def is_open(self, stream: Stream) -> bool:
        """What happens upstream comes here; something from before may be missing yet."""
        return self._upstream.is_up and self._upstream.is_open(stream)

    def runs(self, stream: Stream) -> bool:
        """It follows upstream, or is about to; upstream has not refused it."""
        return stream.refusal is None and self._upstream.runs(stream)

    def is_current(self, stream: Stream, since: float) -> bool:
        """Whoever has asked `since` is told nothing that was past then: it is live, or was known to
        hold what upstream held at that moment (of the clock that nobody sets) or later."""
        return self.is_live(stream) or (self._upstream.is_up and stream.known_at >= since)

    def confirmed_at(self, stream: Stream) -> float:
        """Wall time at which upstream is last known to have held what the stream holds."""
        return self._upstream.confirmed_at(stream)

    def exactly(self, scope: Scope) -> Stream | None:
        return self._streams.get(scope.resource, {}).get(scope)

    def stands_at(self, resource: ResourceName, version: int) -> None:
        """Upstream has told a version below one that it told before."""
        self._upstream.stands_at(resource, version)

    def told(self, stream: Stream, told: ListEvidence) -> None:
        """A client was given a list of just what the stream holds."""
        self._upstream.told(stream, told)

    def confirm(self, stream: Stream) -> None:
        """Upstream is asked which objects there are: see `Stream.equal_at`."""
        self._upstream.confirm(stream)

    # ── which stream ──

    def covering(self, scope: Scope) -> list[Stream]:
        """The synced streams that hold all of `scope`, the newest first."""
        scopes = self._streams.get(scope.resource, {})
        found = [
            stream
            for stream in scopes.values()
            if stream.collection.is_synced and stream.scope.covers(scope)
        ]
        found.sort(key=lambda stream: stream.version, reverse=True)
        return found

    def at_hand(self, scope: Scope) -> Stream | None:
        """The stream that answers at once: a live one, or while the link is down any."""
        found = self.covering(scope)
        if self._upstream.is_up:
            found = [stream for stream in found if self._upstream.is_live(stream)]
        return found[0] if found else None

    async def ready(self, scope: Scope, *, now: float, since: float) -> Stream:
        """The stream that answers whoever asked at `since` (of the clock that nobody sets), opened
        or reopened where that is needed. It need not be current: upstream may be slow.

        Raises `NotCached` when there is none to be had, `UpstreamFailing` as soon as upstream does
        not manage to tell what there is, `StreamDenied` when it refuses.
        """
        stream = self.at_hand(scope)
        if stream is None and self._upstream.is_up:
            opened = await self.opened(scope, now=now, since=since)
            if not self.is_current(opened, since):
                self._upstream.confirm(opened)
                await opened.until(
                    lambda: self.is_current(opened, since) or not self._upstream.is_up,
                    timeout=PROOF_WAIT,
                )
            # Where upstream is slow, what is known is better than nothing.
            found = self.covering(scope)
            current = (stream for stream in found if self.is_current(stream, since))
            stream = next(current, None) or next(iter(found), None)
        if stream is None:
            raise NotCached
        self.use(stream, now=now)
        return stream

    async def opened(self, scope: Scope, *, now: float, since: float = math.inf) -> Stream:
        """The stream that holds `scope`, once it follows upstream, or as far as it got; or once it
        is current. Raises as `ready`."""
        refusal = self._refusals.get(scope)
        if refusal is not None and now < refusal[1]:
            raise StreamDenied(refusal[0])
        opened = self.open(scope, now=now)
        is_known = bool(self.covering(scope))
        await opened.until(
            lambda: (
                self._upstream.is_open(opened)
                or self.is_current(opened, since)
                or opened.refusal is not None
                or (opened.is_failing and not is_known)
                or not self._upstream.is_up
            ),
            timeout=self.limits.open_timeout if is_known else LONGEST_LIST,
        )
        if opened.refusal is not None:
            raise StreamDenied(opened.refusal)
        if opened.is_failing and not self.covering(scope) and self._upstream.is_up:
            raise UpstreamFailing
        return opened

    def use(self, stream: Stream, *, now: float) -> None:
        """Somebody reads it: it runs, while the link is down as soon as that is back."""
        stream.used_at = now
        self._upstream.start(stream)

    def open(self, scope: Scope, *, now: float) -> Stream:
        """Lets the stream for `scope` run: a covering one that is in use, else one of its own."""
        scopes = self._streams.get(scope.resource, {})
        own = scopes.get(scope)
        if own is not None and self._upstream.runs(own):
            stream = own
        else:
            others = [s for s in scopes.values() if s is not own and s.scope.covers(scope)]
            is_used = self._in_use if own is None else self._runs
            used = next((s for s in others if is_used(s, now)), None)
            stream = used or own or self._added(scope, now=now)
        stream.used_at = now
        stream.refusal = None
        self._upstream.start(stream)
        return stream

    def _in_use(self, stream: Stream, now: float) -> bool:
        """It runs, or did when the relay ended: after a restart the first client may be one that
        wants less than the others."""
        is_recent = now - stream.used_at <= self.limits.idle_timeout
        return self._upstream.runs(stream) or (stream.collection.is_synced and is_recent)

    def _runs(self, stream: Stream, now: float) -> bool:
        return self._upstream.runs(stream)

    def seed(
        self, scope: Scope, page: Page, *, known_at: float, at: float, now: float
    ) -> Stream | None:
        """A whole list that a client asked upstream for at `known_at` (of the clock that nobody
        sets), wall time `at`. The stream that begins
        from it is to be kept at once, before it moves on; None where none does. Raises `Refused`
        where there is no room."""
        stream = self._streams.get(scope.resource, {}).get(scope)
        if stream is None and not any(map(self.is_open, self.covering(scope))):
            stream = self._added(scope, now=now, more=len(page.items))
        if stream is not None and not stream.collection.is_synced:
            stream.known(known_at=known_at, confirmed_at=at)
            stream.replace(page, gone=expired())
            self._upstream.start(stream)
            return stream
        if stream is None or not self._upstream.is_open(stream):
            self.open(scope, now=now)
        return None

    def restore(
        self, stream_scope: Scope, page: Page, *, equal_at: int, confirmed_at: float, now: float
    ) -> None:
        """A stream as it was when the relay ended, however many objects there are; it runs again
        when somebody asks for it."""
        stream = self._made(stream_scope, now=now)
        stream.replace(page, gone=expired())
        stream.confirmed_at = confirmed_at
        stream.was_equal(equal_at)

    def adopt(self, stream: Stream) -> None:
        """A stream that somebody else moves."""
        self._streams.setdefault(stream.scope.resource, {})[stream.scope] = stream

    def drop(self, stream: Stream, status: Status | None) -> None:
        """Forgets it and what it holds."""
        self._upstream.stop(stream)
        stream.is_dropped = True
        stream.end_watchers(status)
        stream.nudge()
        scopes = self._streams.get(stream.scope.resource, {})
        if scopes.get(stream.scope) is stream:
            del scopes[stream.scope]
            if not scopes:
                del self._streams[stream.scope.resource]

    def refused(self, stream: Stream, failure: Failure, *, now: float) -> bool:
        """Upstream does not let the relay read this, or there is no room for it; True when what was
        kept of it is gone."""
        self.counters.refused(str(stream.scope.resource), failure.code)
        while len(self._refusals) >= MAX_REFUSALS:
            del self._refusals[next(iter(self._refusals))]
        self._refusals[stream.scope] = (failure, now + REFUSAL_TTL)
        if failure.code == HTTPStatus.UNAUTHORIZED:
            return False  # of the token, which is to be renewed, not of the data
        self.drop(stream, expired())
        return True

    def unused(self, *, now: float) -> list[Stream]:
        """Those that nobody has read for so long that they are to be dropped."""
        return [stream for stream in self if now - stream.used_at > self.limits.retain]

    def close_idle(self, *, now: float) -> list[Stream]:
        """Stops the streams that nobody reads; their data stays. Returns those stopped."""
        closed = []
        for stream in self:
            if stream.is_read:
                stream.used_at = now
            elif self._upstream.runs(stream) and now - stream.used_at > self.limits.idle_timeout:
                self._upstream.stop(stream)
                closed.append(stream)
        return closed

    def close_covered(self, *, now: float) -> list[Stream]:
        """Stops the streams that a live wider one serves as well; their data stays. Their watchers
        move there, if it has been watched as a whole for as long as an idle stream stays open: they
        do not come back, and for them alone it would be wider than they need. Returns those
        stopped."""
        closed = []
        since = self._whole_since
        self._whole_since = {s: since.get(s, now) for s in self if s.is_watched_whole}
        for scopes in tuple(self._streams.values()):
            # Of one name there is nothing to share.
            wide = [s for s in scopes.values() if s.scope.name is None and self.is_live(s)]
            for stream in tuple(scopes.values()):
                if self._upstream.runs(stream) and self._moves(stream, wide, now):
                    self._upstream.stop(stream)
                    closed.append(stream)
        return closed

    def _moves(self, stream: Stream, wide: Iterable[Stream], now: float) -> bool:
        """Whether nobody reads it any more, but one of the others instead."""
        scope = stream.scope
        wider = [s for s in wide if s.scope.covers(scope) and not scope.covers(s.scope)]
        if not wider or stream.is_waited_for:
            return False
        return not stream.watchers or any(
            self._stays_whole(other, now) and self.is_live(other) and stream.move_watchers(other)
            for other in wider
        )

    def _stays_whole(self, stream: Stream, now: float) -> bool:
        """Whoever watches all of it has done so for long, and is likely to go on."""
        since = self._whole_since.get(stream, now)
        return stream.is_watched_whole and now - since >= self.limits.idle_timeout

    def _added(self, scope: Scope, *, now: float, more: int = 1) -> Stream:
        if self.objects + more > self.limits.max_objects:
            self.counters.refused(str(scope.resource), HTTPStatus.TOO_MANY_REQUESTS.value)
            raise Refused(
                too_many(f"the relay holds {self.objects} objects, --max-objects is reached")
            )
        return self._made(scope, now=now)

    def _made(self, scope: Scope, *, now: float) -> Stream:
        collection = Collection(
            window_bytes=self.limits.window_bytes, window_events=self.limits.window_events
        )
        stream = Stream(scope, collection, self.counters, now=now)
        stream.on_told = partial(self.floor.raise_to, scope.resource)
        self._streams.setdefault(scope.resource, {})[scope] = stream
        return stream

    # ── single objects ──

    def went_back(
        self, resource: ResourceName, version: int, but: Stream | None
    ) -> tuple[list[Stream], list[Key]]:
        """Upstream stands at `version`, and was beyond it, before it was restored from a backup:
        what was learned of the resource beyond that is of no history any more. Returns the streams
        and objects that are forgotten; `but` is one that knows."""
        self.floor.went_back(resource, version)
        keys = [
            key
            for (of, key), (item, _) in self._seen.items()
            if of == resource and item.version > version
        ]
        for key in keys:
            del self._seen[resource, key]
        streams = [s for s in self.of(resource) if s is not but and s.version > version]
        for stream in streams:
            if self._upstream.runs(stream):
                stream.forget(gone=expired())
                self._upstream.relist(stream, is_paced=True)
            else:
                self.drop(stream, expired())
        return streams, keys

    def remember(
        self, resource: ResourceName, item: Item, *, at: float, asked_at: float = -math.inf
    ) -> bool:
        """An object that upstream answered to a GET or a write at wall time `at`. `asked_at` where
        that is upstream's newest: what was known before then is older, whatever its version.
        Returns whether it is remembered, which it is not where a newer one is known."""
        place = (resource, item.key)
        known = self._seen.get(place)
        if known is not None and known[0].version > item.version and known[1] >= asked_at:
            return False
        self._seen[place] = (item, at)
        self._seen.move_to_end(place)
        while len(self._seen) > self.limits.max_seen:
            self._seen.popitem(last=False)
        return True

    def seen(self) -> Iterator[tuple[ResourceName, Item, float]]:
        """The objects that are remembered, with the wall time at which upstream told them."""
        for (resource, _), (item, at) in tuple(self._seen.items()):
            yield resource, item, at

    def forget(self, resource: ResourceName, key: Key) -> bool:
        """Whether it was remembered."""
        return self._seen.pop((resource, key), None) is not None

    def newest(self, resource: ResourceName, key: Key) -> tuple[Item, Stream | float] | None:
        """The highest version known of one object, with the stream or wall time it is from.

        None where it is unknown, or where a stream that would know is newer and has it not.
        """
        best: tuple[Item, Stream | float] | None = self._seen.get((resource, key))
        for stream in self.of(resource):
            if not stream.collection.is_synced:
                continue
            item = stream.collection.objects.get(key)
            if item is not None and (best is None or item.version >= best[0].version):
                best = (item, stream)
        return best

    def lacking(self, scope: Scope, key: Key) -> Stream | None:
        """The newest stream that covers `scope` and does not have the object."""
        found = self.covering(scope)
        return next((stream for stream in found if key not in stream.collection.objects), None)
