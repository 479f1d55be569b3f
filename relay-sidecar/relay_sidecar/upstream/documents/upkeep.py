"""What the relay asks for by itself, so that it can answer while it is offline: documents
(discovery, OpenAPI, version) and the streams of `--preload`.

Guarantees: One whole answer or `Unreachable`. Each answer of an API server is evidence that the
link is there. What has not changed is not sent again (ETags), nor asked for where discovery shows
that it has not. /openapi/v2 and documents of group versions that were not named are not asked for.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

import msgspec

from edge_sidecars.apimachinery.discovery import AGGREGATED, group_version_paths
from edge_sidecars.apimachinery.objects import Malformed
from edge_sidecars.apimachinery.resources import ResourceName, known_fields
from edge_sidecars.kubeapi import ApiTransport, Request, TooLong, Unreachable
from relay_sidecar.config.preload import Preload
from relay_sidecar.core.link import LinkEvidence, is_of_api_server
from relay_sidecar.streams.streams import NoRoom, Streams
from relay_sidecar.upstream.documents.documents import JSON, DocumentCache

# Bytes; /openapi/v2 of a cluster with hundreds of custom resources.
MAX_DOCUMENT = 64 * 1024 * 1024
# As kubectl asks: servers before 1.27 know the last only.
ACCEPT = ",".join((*AGGREGATED, JSON))


@dataclass(frozen=True, slots=True)
class FetchedDocument:
    """`body` in the coding that the headers tell."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class DocumentSource:
    """`met` is called with what each request met with, `authenticated` with the status of each
    answer to the relay's own credentials; `received` how many bytes came. Seconds."""

    def __init__(
        self,
        transport: ApiTransport,
        *,
        timeout: float,
        met: Callable[[LinkEvidence], None],
        authenticated: Callable[[int], None],
        received: Callable[[int], None],
    ) -> None:
        self._transport = transport
        self._timeout = timeout
        self._met = met
        self._authenticated = authenticated
        self._received = received

    async def fetch(self, path: str, headers: Mapping[str, str]) -> FetchedDocument:
        """The answer to a GET. Raises `kubeapi.Unreachable`."""
        request = Request(
            "GET",
            path,
            header_timeout=self._timeout,
            connect_timeout=self._timeout,
            headers=headers.items(),
        )
        async with self._transport.send(request) as answer:
            self._authenticated(answer.status)
            if is_of_api_server(answer.status, answer.headers):
                self._met(LinkEvidence.ANSWERED)
            try:
                body = await answer.read(limit=MAX_DOCUMENT, idle_timeout=self._timeout)
            except TooLong as error:
                raise Unreachable(f"{path}: a document {error}") from error
        self._received(len(body))
        return FetchedDocument(answer.status, answer.headers, body)


async def prefetch(
    documents: DocumentCache,
    upstream: DocumentSource,
    group_versions: Iterable[str] = (),
    resources: Iterable[ResourceName] = (),
) -> None:
    """`group_versions` ("v1", "apps/v1"): whose OpenAPI documents are wanted; `resources` are to be
    named by discovery: its aggregated form may be behind by a moment. Raises
    `kubeapi.Unreachable`."""
    await refresh(documents, upstream, "/version")
    has_changed = await _refresh_discovery(documents, upstream, "/api")
    if await _refresh_discovery(documents, upstream, "/apis") or has_changed:
        has_changed = True
    for path in {one.api_path for one in resources if not documents.names(one)}:
        await refresh(documents, upstream, path)
    # The lists of versions have no ETag, nor has OpenAPI's index: with discovery, they change.
    for path in ("/api", "/openapi/v3"):
        if has_changed or documents.recall(path, JSON) is None:
            await refresh(documents, upstream, path)
    for group_version in group_versions:
        await refresh(documents, upstream, openapi_path(group_version))


async def refresh(documents: DocumentCache, upstream: DocumentSource, path: str) -> bool:
    """Asks for plain JSON; whether it is another than before. Raises `kubeapi.Unreachable`."""
    return await _refresh(documents, upstream, path, JSON, known=(JSON,))


def openapi_path(group_version: str) -> str:
    return f"/openapi/v3/{'apis' if '/' in group_version else 'api'}/{group_version}"


async def _refresh_discovery(documents: DocumentCache, upstream: DocumentSource, root: str) -> bool:
    asked_at = time.time()
    has_changed = await _refresh(documents, upstream, root, ACCEPT, known=AGGREGATED)
    await documents.drop_unnamed(root, before=asked_at)
    if any(documents.stored(root, content_type) for content_type in AGGREGATED):
        return has_changed
    # It does not aggregate: each list by itself.
    for path in _lists(documents, root):
        if has_changed or documents.stored(path, JSON) is None:
            await refresh(documents, upstream, path)
    return has_changed


def _lists(documents: DocumentCache, root: str) -> list[str]:
    plain = documents.stored(root, JSON)
    if root == "/api":
        return ["/api/v1"]
    try:
        return [] if plain is None else group_version_paths(plain.body())
    except Malformed:
        return []


async def _refresh(
    documents: DocumentCache,
    upstream: DocumentSource,
    path: str,
    accept: str,
    *,
    known: Iterable[str],
) -> bool:
    headers = {"Accept": accept, "Accept-Encoding": "gzip"}
    stored = (documents.stored(path, content_type) for content_type in known)
    document = next((one for one in stored if one is not None and one.etag), None)
    if document is not None:
        headers["If-None-Match"] = document.etag
    answer = await upstream.fetch(path, headers)
    if answer.status == HTTPStatus.NOT_MODIFIED and document is not None:
        documents.confirm(path, document.content_type)
        return False
    return await documents.remember(path, answer.status, answer.headers, answer.body)


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
