"""What a relay does by itself, so that it can answer while it is offline: it keeps the streams of
`--preload` open and discovery's documents fresh.
"""

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec

from edge_sidecars.apimachinery.resources import ResourceName, known_fields
from edge_sidecars.kubeapi import Unreachable
from relay_sidecar.config.preload import Preload
from relay_sidecar.streams.streams import NoRoom, Streams
from relay_sidecar.upstream.documents.document_source import DocumentSource, prefetch, refresh
from relay_sidecar.upstream.documents.documents import JSON, DocumentCache

# Seconds between two looks at which version of a group upstream prefers.
PRELOAD_RETRY = 0.5
# Seconds between two looks at whether a stream is wanted.
WANTED_RETRY = 1.0
# Seconds; as a stream asks that was refused.
PRELOAD_INTERVAL = 60.0
# Seconds; what has not changed costs some hundred bytes.
DOCUMENTS_INTERVAL = 300.0
# Seconds between two rounds of questions for documents, whatever is the matter.
PACE = 1.0
# Seconds for which discovery is recent enough where the link was away for a moment.
RECENT = 30.0
# Seconds for which a watch waits to learn the kind of its objects, and for which it is not asked
# for again where discovery does not name it.
KIND_WAIT = 1.0
# Of the pace, where discovery goes on not to name what is kept.
MAX_DOUBLINGS = 10


class _PreferredVersion(msgspec.Struct):
    version: str


class _PreferredGroup(msgspec.Struct, rename="camel"):
    preferred_version: _PreferredVersion


async def keep_preloaded(
    streams: Streams,
    documents: DocumentCache,
    wanted: Preload,
    *,
    is_wanted: Callable[[], bool] = lambda: True,
) -> None:
    """Keeps a stream open, once it is known which version upstream prefers: also without
    readers, and again where upstream refused it or there was no room; while `is_wanted`."""
    version = wanted.version or ("v1" if not wanted.group else _preferred(documents, wanted.group))
    while version is None:
        await asyncio.sleep(PRELOAD_RETRY)
        version = _preferred(documents, wanted.group)
    interval = min(PRELOAD_INTERVAL, max(streams.limits.idle_timeout / 4, 0.1))
    while True:
        was_wanted = is_wanted()
        if was_wanted:
            with suppress(NoRoom):
                streams.open(wanted.scope(version), now=time.monotonic())
        await asyncio.sleep(interval if was_wanted else min(interval, WANTED_RETRY))


class DocumentRefresh:
    """The documents that kubectl needs while upstream cannot be reached, as they were `interval`
    seconds before that at most; at once where a stream's resource is in none of them."""

    def __init__(
        self,
        documents: DocumentCache,
        upstream: DocumentSource,
        streams: Streams,
        *,
        interval: float = DOCUMENTS_INTERVAL,
    ) -> None:
        self._documents = documents
        self._interval = interval
        self._upstream = upstream
        self._streams = streams
        self._is_up = asyncio.Event()
        self._woken = asyncio.Event()
        # Of streams that have just begun, and whose resource discovery does not name.
        self._unnamed: set[ResourceName] = set()
        self._asked_at = -math.inf
        # Of single group versions: what asks for them now, and when they were asked for a moment
        # ago.
        self._learning: dict[str, asyncio.Task[None]] = {}
        self._learned_at: dict[str, float] = {}

    def link(self, is_up: bool) -> None:
        """The link went or came back."""
        if not is_up:
            self._is_up.clear()
            return
        self._is_up.set()
        if time.monotonic() - self._asked_at > RECENT:
            self._woken.set()

    def started(self, resource: ResourceName) -> None:
        """A stream of it follows upstream: without discovery no client can ask for it."""
        if not self._documents.names(resource):
            self._unnamed.add(resource)
            self._woken.set()

    async def learn_kind(self, resource: ResourceName) -> None:
        """Returns when the kind of a resource without objects is known, or after a while."""
        path, now = resource.api_path, time.monotonic()
        if self._documents.names(resource):
            return
        if path not in self._learning and now - self._learned_at.get(path, -math.inf) >= KIND_WAIT:
            self._learning[path] = asyncio.create_task(self._learn(path))
        if path in self._learning:
            await asyncio.wait([self._learning[path]], timeout=KIND_WAIT)

    async def _learn(self, path: str) -> None:
        try:
            with suppress(Unreachable):
                await refresh(self._documents, self._upstream, path)
        finally:
            del self._learning[path]
            self._learned_at = {
                it: at
                for it, at in {**self._learned_at, path: time.monotonic()}.items()
                if time.monotonic() - at < KIND_WAIT
            }

    def lost_history(self) -> None:
        """Upstream was restored from a backup: what it serves may be less than before."""
        self._woken.set()

    async def run(self) -> None:
        """Until it is cancelled."""
        failures = 0
        while True:
            await self._is_up.wait()
            self._woken.clear()
            self._asked_at = time.monotonic()
            wanted = self._unnamed | self._held()
            # Those of built-in ones are megabytes, and come with the API server's release.
            custom = {
                stream.scope.resource.api_version
                for stream in self._streams
                if known_fields(stream.scope.resource) is None
            }
            with suppress(Unreachable):
                await prefetch(self._documents, self._upstream, custom, wanted)
                # One that upstream refuses is not asked for again.
                self._unnamed -= wanted
            # An API server tells of a new resource a moment later than it serves it.
            failures = min(failures + 1, MAX_DOUBLINGS) if self._held() or self._unnamed else 0
            retry = PACE * 2**failures if failures else self._interval
            await self._sleep(min(retry, self._interval))

    async def _sleep(self, seconds: float) -> None:
        pace = min(PACE, seconds)
        await asyncio.sleep(pace)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds - pace):
                await self._woken.wait()

    def _held(self) -> set[ResourceName]:
        """Resources of which objects are kept, and that discovery does not name."""
        held = {stream.scope.resource for stream in self._streams if stream.collection.is_synced}
        return {resource for resource in held if not self._documents.names(resource)}


def _preferred(documents: DocumentCache, group: str) -> str | None:
    document = documents.recall(f"/apis/{group}", JSON)
    if document is None:
        return None
    try:
        return msgspec.json.decode(document.body(), type=_PreferredGroup).preferred_version.version
    except ValueError:
        return None
