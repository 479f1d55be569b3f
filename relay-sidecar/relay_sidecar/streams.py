"""All streams: which one answers a request, when one is opened, closed, forgotten.

Guarantees: one upstream list+watch per thing, whoever asks (promise R2); an answer comes from
exactly one stream; while the link is up only from one that is live. What an object's newest known
state is, it tells from everything that the relay has seen. Knows no HTTP.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Protocol

from relay_sidecar.core.floor import Floor
from relay_sidecar.core.objects import Failure, Item, Key, Page
from relay_sidecar.core.scope import ResourceName, Scope
from relay_sidecar.core.status import Refused, Status, expired, too_many
from relay_sidecar.core.store import Collection
from relay_sidecar.metrics import Counters
from relay_sidecar.stream import Stream

# Seconds for a first list, as kube-apiserver's --request-timeout: a bad link takes its time.
LONGEST_LIST = 60.0
# Seconds for which nobody asks again for what upstream has refused.
REFUSAL_TTL = 10.0
MAX_REFUSALS = 1000


class Denied(Exception):
    """Upstream did not let the relay read this: what the caller may, only upstream can say."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Unknown(Exception):
    """Nothing is known here that could answer, and upstream is out of reach."""


class Failing(Unknown):
    """Upstream can be reached, but its last answer to the stream's first list was none."""


class Upstream(Protocol):
    """What keeps streams moving; owned by the reflectors."""

    def start(self, stream: Stream) -> None: ...
    def stop(self, stream: Stream) -> None: ...
    def runs(self, stream: Stream) -> bool: ...
    def is_live(self, stream: Stream) -> bool: ...
    def confirm(self, stream: Stream) -> None: ...
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
        self, upstream: Upstream, floor: Floor, limits: Limits, counters: Counters
    ) -> None:
        self.counters = counters
        self.floor = floor
        self.limits = limits
        self._upstream = upstream
        self._streams: dict[ResourceName, dict[Scope, Stream]] = {}
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
        found.sort(key=lambda stream: stream.collection.cursor, reverse=True)
        return found

    def at_hand(self, scope: Scope) -> Stream | None:
        """The stream that answers at once: a live one, or while the link is down any."""
        found = self.covering(scope)
        if self._upstream.is_up:
            found = [stream for stream in found if self._upstream.is_live(stream)]
        return found[0] if found else None

    async def ready(self, scope: Scope, *, now: float) -> Stream:
        """The stream that answers, opened or reopened where that is needed.

        Raises `Unknown` when there is none to be had, `Failing` as soon as upstream does not manage
        to tell what there is, `Denied` when it refuses.
        """
        stream = self.at_hand(scope)
        if stream is None and self._upstream.is_up:
            refusal = self._refusals.get(scope)
            if refusal is not None and now < refusal[1]:
                raise Denied(refusal[0])
            opened = self.open(scope, now=now)
            is_known = bool(self.covering(scope))
            await opened.until(
                lambda: (
                    self._upstream.is_live(opened)
                    or opened.refusal is not None
                    or (opened.is_failing and not is_known)
                    or not self._upstream.is_up
                ),
                timeout=self.limits.open_timeout if is_known else LONGEST_LIST,
            )
            if opened.refusal is not None:
                raise Denied(opened.refusal)
            if opened.is_failing and not self.covering(scope) and self._upstream.is_up:
                raise Failing
            # Where upstream is slow, what is known is better than nothing.
            stream = self.at_hand(scope) or next(iter(self.covering(scope)), None)
        if stream is None:
            raise Unknown
        self.use(stream, now=now)
        return stream

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

    def seed(self, scope: Scope, page: Page, *, at: float, now: float) -> Stream | None:
        """A whole list that upstream gave to a client at wall time `at`. The stream that begins
        from it is to be kept at once, before it moves on; None where none does. Raises `Refused`
        where there is no room."""
        stream = self._streams.get(scope.resource, {}).get(scope)
        if stream is None and self.at_hand(scope) is None:
            stream = self._added(scope, now=now, more=len(page.items))
        if stream is not None and not stream.collection.is_synced:
            stream.replace(page, gone=expired())
            stream.confirmed_at = at
            self._upstream.start(stream)
            return stream
        if stream is None or not self._upstream.is_live(stream):
            self.open(scope, now=now)
        return None

    def restore(self, stream_scope: Scope, page: Page, *, confirmed_at: float, now: float) -> None:
        """A stream as it was when the relay ended, however many objects there are; it runs again
        when somebody asks for it."""
        stream = self._made(stream_scope, now=now)
        stream.replace(page, gone=expired())
        stream.confirmed_at = confirmed_at

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

    def close_covered(self) -> list[Stream]:
        """Stops the streams that a live wider one serves as well; their data stays. Their watchers
        move there, if it is watched as a whole: for them alone it would be wider than they need.
        Returns those stopped."""
        closed = []
        for scopes in tuple(self._streams.values()):
            # Of one name there is nothing to share.
            wide = [s for s in scopes.values() if s.scope.name is None and self.is_live(s)]
            for stream in tuple(scopes.values()):
                if self._upstream.runs(stream) and self._moves(stream, wide):
                    self._upstream.stop(stream)
                    closed.append(stream)
        return closed

    def _moves(self, stream: Stream, wide: Iterable[Stream]) -> bool:
        """Whether nobody reads it any more, but one of the others instead."""
        scope = stream.scope
        wider = [s for s in wide if s.scope.covers(scope) and not scope.covers(s.scope)]
        if not wider or stream.is_waited_for:
            return False
        return not stream.watchers or any(
            other.is_watched_whole and self.is_live(other) and stream.move_watchers(other)
            for other in wider
        )

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

    def remember(self, resource: ResourceName, item: Item, *, at: float) -> None:
        """An object that upstream answered to a GET or a write at wall time `at`."""
        place = (resource, item.key)
        known = self._seen.get(place)
        if known is not None and known[0].version > item.version:
            return
        self._seen[place] = (item, at)
        self._seen.move_to_end(place)
        while len(self._seen) > self.limits.max_seen:
            self._seen.popitem(last=False)

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
            item = stream.collection.objects.get(key)
            if item is not None and (best is None or item.version >= best[0].version):
                best = (item, stream)
        return best

    def absent_since(self, scope: Scope, key: Key) -> int | None:
        """The highest cursor at which a stream that covers `scope` does not have the object."""
        return max(
            (
                stream.collection.cursor
                for stream in self.covering(scope)
                if key not in stream.collection.objects
            ),
            default=None,
        )
