"""What LIST, GET and WATCH share: the scope asked for, the stream that may answer, its age.

An answer is never older than what the relay has handed out before (no client goes backwards in
time), unless upstream cannot be asked: then what is known is told, with its age.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from edge_sidecars.apimachinery.lru import lru
from edge_sidecars.apimachinery.objects import Item, Key
from edge_sidecars.apimachinery.request_info import Form, ListOptions, Representation, RequestInfo
from edge_sidecars.apimachinery.resource_version import response_version
from edge_sidecars.apimachinery.resources import check_fields, known_fields
from edge_sidecars.apimachinery.scope import ResourceName, Scope
from edge_sidecars.apimachinery.selection.fields import (
    NAME,
    NAMESPACE,
    FieldRequirement,
    FieldSelector,
)
from edge_sidecars.apimachinery.selection.labels import LabelSelector
from edge_sidecars.apimachinery.status import Refused, unavailable
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.core.min_resource_version import MinResourceVersion
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.stream_journal import StreamJournal
from relay_sidecar.streams.streams import Streams
from relay_sidecar.streams.view import StreamView
from relay_sidecar.upstream.buffered_response import BufferedResponse
from relay_sidecar.web.responses import age_headers

# Seconds; contract of the floor: how long an answer may wait to be new enough.
FLOOR_WAIT = 1.0
# Seconds; an event is behind the answer to its write by less.
FLOOR_PATIENCE = 0.05
# Seconds; kube-apiserver: blockTimeout of its cacher (k8s.io/apiserver/pkg/storage/cacher).
VERSION_WAIT = 3.0


class Above(Protocol):
    """Upstream, as a request may reach it. Raises `kubeapi.Unreachable`."""

    @property
    def is_up(self) -> bool: ...

    @property
    def is_relayed(self) -> bool:
        """The API server is out of reach: upstream is another relay, which tells what it keeps."""
        ...

    async def fetch(
        self, request: web.BaseRequest, *, accept: str | None, header_timeout: float
    ) -> BufferedResponse: ...

    async def stream(
        self,
        request: web.BaseRequest,
        *,
        accept: str | None,
        header_timeout: float,
        idle_timeout: float,
        may_pass: Callable[[bytes], bool],
        passed: Callable[[bytes], None],
    ) -> web.StreamResponse | BufferedResponse:
        """As it comes, where `may_pass` says so of how it begins; else whole."""
        ...

    async def write(
        self, request: web.BaseRequest, *, accept: str | None, header_timeout: float
    ) -> BufferedResponse:
        """Raises `Refused` with what may be said of the outcome."""
        ...

    async def forward(self, request: web.BaseRequest) -> web.StreamResponse: ...


class Schemas(Protocol):
    async def published(self, resource: ResourceName) -> frozenset[str] | None:
        """The selectable fields of a custom resource, None where nobody can tell."""
        ...


@dataclass(frozen=True, slots=True)
class Settings:
    """`reads_cache`: LIST and GET without a version come from live streams too; `is_origin`: nobody
    stands above, so that what is here is never old. Seconds."""

    is_origin: bool
    reads_cache: bool
    read_timeout: float
    request_timeout: float
    write_timeout: float
    max_watchers: int
    watch_buffer: int


@dataclass(frozen=True, slots=True)
class Reading:
    streams: Streams
    floor: MinResourceVersion
    above: Above
    schemas: Schemas
    journal: StreamJournal
    settings: Settings
    now: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    # The clock that nobody sets, and that goes on while the machine sleeps.
    clock: Callable[[], float] = boottime

    async def scope(self, info: RequestInfo, options: ListOptions) -> Scope | None:
        """What is asked for, None where its selectors can only be evaluated upstream.

        Raises `Refused` for fields by which nothing can be selected.
        """
        resource, paths = info.resource, options.fields.paths
        scope = Scope(resource, info.namespace, options.labels, options.fields)
        if {*paths} <= {NAME, NAMESPACE}:
            return scope
        published: frozenset[str] | None = frozenset()
        if known_fields(resource) is None:
            published = await self.schemas.published(resource)
        if published is None:
            return None
        try:
            check_fields(resource, paths, published=published)
        except Refused:
            # A newer upstream may know more fields, or a schema may have got one since.
            if self.above.is_up:
                return None
            raise
        return scope

    def view(self, stream: Stream, scope: Scope, wanted: Representation) -> StreamView:
        return StreamView(stream.scope.only(scope), metadata_version(wanted))

    def age(self, stream: Stream, *, since: float, stands_in: bool = False) -> dict[str, str]:
        """Headers that tell whoever asked at `since` (by `clock`) how old an answer of this stream
        may be; `stands_in` for one of upstream, which was asked and did not answer: then a stream
        that is live may be so no more.
        """
        if not stands_in and self.streams.is_current(stream, since):
            return {}
        return self.age_since(self.streams.reflectors.confirmed_at(stream))

    def age_since(self, confirmed_at: float) -> dict[str, str]:
        """Headers of an answer that upstream confirmed last at this wall time."""
        if self.settings.is_origin:
            return {}
        return age_headers(confirmed_at, now=self.wall())

    async def is_new_enough(
        self, stream: Stream, scope: Scope, *, may_confirm: bool = True
    ) -> bool:
        """Whether it has come to where the floor is now; while upstream is out of reach nothing is
        newer. What others are told meanwhile happens beside this answer, not before it.
        `may_confirm`: upstream may be asked for the names of all that the stream holds."""
        at = self.floor.of(scope.resource)

        def is_so() -> bool:
            return (
                self.floor.is_reached(scope, stream.collection, equal_at=stream.equal_at, at=at)
                or not self.above.is_up
                or self.above.is_relayed
            )

        if await stream.until(is_so, timeout=FLOOR_PATIENCE):
            return True
        if not may_confirm:
            return False
        # Nothing is on its way, it seems: upstream can tell whether anything is missing.
        self.streams.reflectors.confirm(stream)
        return await stream.until(is_so, timeout=FLOOR_WAIT - FLOOR_PATIENCE)

    async def remember(
        self,
        resource: ResourceName,
        item: Item,
        *,
        asked_at: float = -math.inf,
        age: float = 0.0,
    ) -> None:
        """An object that upstream has answered with, `age` seconds old, before it is handed out;
        `asked_at`: the wall time at which it was asked for the newest there is."""
        is_new = self.streams.seen.remember(resource, item, at=self.wall() - age, asked_at=asked_at)
        self.floor.raise_to(resource, item.version)
        if is_new:
            await self.journal.object_seen(resource, item)

    async def forget(self, resource: ResourceName, key: Key) -> None:
        """Upstream says that it is gone."""
        if self.streams.seen.forget(resource, key):
            await self.journal.object_evicted(resource, key)

    def passed_on(
        self, resource: ResourceName, body: bytes, wanted: Representation, *, is_list: bool
    ) -> None:
        """An answer of upstream goes to a client as it is."""
        version = response_version(body, wanted.form, is_list=is_list)
        if version is not None:
            self.floor.raise_to(resource, version)

    def handed_out(self, resource: ResourceName, version: int) -> None:
        self.floor.raise_to(resource, version)

    def patience(self, *, has_answer: bool) -> float:
        """Seconds for which upstream may think, where the relay could answer as well or cannot.

        A fifth is for making that answer; before the link's first verdict a part has gone already.
        """
        if not has_answer:
            return self.settings.request_timeout
        read_timeout = self.settings.read_timeout
        return read_timeout * (0.8 if self.streams.is_up else 0.5)

    def unreachable(self) -> Refused:
        return Refused(unavailable("upstream is out of reach and this is not known here"))


def by_name(info: RequestInfo) -> Scope:
    """What a GET covers."""
    resource = info.resource
    return _by_name(resource.group, resource.version, resource.plural, *key_of(info))


@lru(4096)
def _by_name(group: str, version: str, plural: str, namespace: str, name: str) -> Scope:
    fields = FieldSelector.of((FieldRequirement(NAME, True, name),))
    return Scope(ResourceName(group, version, plural), namespace, LabelSelector(), fields)


def key_of(info: RequestInfo) -> Key:
    """A Namespace is in itself to the authorizer, but has none as an object."""
    is_namespace = info.resource.plural == "namespaces" and not info.resource.group
    return ("" if is_namespace else info.namespace, info.name)


def is_made_here(wanted: Representation) -> bool:
    """Whether a cached object can be shown like this."""
    return wanted.form in (Form.WHOLE, Form.METADATA)


def takes_whole(wanted: Representation) -> bool:
    """Whether something made here is an answer: whole objects stand in for a Table."""
    return is_made_here(wanted) or wanted.allows_whole


def metadata_version(wanted: Representation) -> str | None:
    return wanted.api_version if wanted.form is Form.METADATA else None


def accept_upstream(wanted: Representation, *, is_list: bool) -> str | None:
    """The same in JSON, which can be remembered; None: as the client put it."""
    version = wanted.api_version.rpartition("/")[2]
    match wanted.form:
        case Form.WHOLE:
            return "application/json"
        case Form.METADATA:
            kind = "PartialObjectMetadataList" if is_list else "PartialObjectMetadata"
        case Form.TABLE:
            kind = "Table"
        case Form.OTHER:
            return None
    return f"application/json;as={kind};v={version};g=meta.k8s.io,application/json"
