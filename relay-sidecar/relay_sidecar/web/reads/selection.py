"""What a client asks for: the scope of its selectors, and the representation it accepts."""

from dataclasses import dataclass
from typing import Protocol
from urllib.parse import unquote_plus

from edge_sidecars.apimachinery.lru import lru
from edge_sidecars.apimachinery.objects import Key
from edge_sidecars.apimachinery.request.request_info import (
    Form,
    ListOptions,
    Representation,
    RequestInfo,
)
from edge_sidecars.apimachinery.resources import check_fields, known_fields
from edge_sidecars.apimachinery.scope import ListScope, ResourceName
from edge_sidecars.apimachinery.selection.fields import (
    NAME,
    NAMESPACE,
    FieldRequirement,
    FieldSelector,
)
from edge_sidecars.apimachinery.selection.labels import LabelSelector
from edge_sidecars.apimachinery.selection.shards import ShardSelector
from edge_sidecars.apimachinery.status import Refused
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.streams.fanout import StreamView
from relay_sidecar.streams.stream import Stream
from relay_sidecar.upstream.messages import Upstream


@dataclass(frozen=True, slots=True)
class ClientRead:
    """A client's GET, LIST or WATCH; `wanted` is what it accepts; `is_of_node`: the node itself
    asks, or a component that it needs."""

    request: web.BaseRequest
    info: RequestInfo
    wanted: Representation
    is_of_node: bool = False

    @property
    def resource(self) -> ResourceName:
        return self.info.resource


class SelectableFields(Protocol):
    async def published(self, resource: ResourceName) -> frozenset[str] | None:
        """The selectable fields of a custom resource, None where they are unknown."""
        ...


class Selection:
    """Which objects are asked for, but for their shards: no stream is of a shard."""

    def __init__(self, schemas: SelectableFields, upstream: Upstream) -> None:
        self._schemas = schemas
        self._upstream = upstream

    async def scope(self, info: RequestInfo, options: ListOptions) -> ListScope | None:
        """What is asked for, None where its selectors can only be evaluated upstream.

        Raises `Refused` for fields by which nothing can be selected.
        """
        resource, paths = info.resource, options.fields.paths
        scope = ListScope(resource, info.namespace, options.labels, options.fields)
        if {*paths} <= {NAME, NAMESPACE}:
            return scope
        published: frozenset[str] | None = frozenset()
        if known_fields(resource) is None:
            published = await self._schemas.published(resource)
        if published is None:
            return None
        try:
            check_fields(resource, paths, published=published)
        except Refused:
            # A newer upstream may know more fields, or a schema may have got one since.
            if self._upstream.is_up:
                return None
            raise
        return scope


def view_of(
    stream: Stream, scope: ListScope, wanted: Representation, shards: ShardSelector
) -> StreamView:
    """What a client that asked for `scope` and `shards` sees of a stream that covers it."""
    return StreamView(stream.scope.residual(scope, shards=shards), metadata_version(wanted))


def by_name(info: RequestInfo) -> ListScope:
    """What a GET covers."""
    resource = info.resource
    return _by_name(resource.group, resource.version, resource.plural, *key_of(info))


@lru(4096)
def _by_name(group: str, version: str, plural: str, namespace: str, name: str) -> ListScope:
    fields = FieldSelector.of((FieldRequirement(NAME, True, name),))
    return ListScope(ResourceName(group, version, plural), namespace, LabelSelector(), fields)


def key_of(info: RequestInfo) -> Key:
    """A Namespace is in itself to the authorizer, but has none as an object."""
    is_namespace = info.resource.plural == "namespaces" and not info.resource.group
    return ("" if is_namespace else info.namespace, info.name)


def newest_target(target: str) -> str:
    """The target of a GET without the version that it has to have at least."""
    path, _, query = target.partition("?")
    pairs = [
        pair
        for pair in query.split("&")
        if unquote_plus(pair.partition("=")[0]) != "resourceVersion"
    ]
    return f"{path}?{'&'.join(pairs)}" if any(pairs) else path


def is_made_here(wanted: Representation) -> bool:
    """Whether a cached object can be shown like this."""
    return wanted.form in (Form.WHOLE, Form.METADATA)


def takes_whole(wanted: Representation) -> bool:
    """Whether something made here is an answer: whole objects replace a Table."""
    return is_made_here(wanted) or wanted.allows_whole


def metadata_version(wanted: Representation) -> str | None:
    return wanted.api_version if wanted.form is Form.METADATA else None
