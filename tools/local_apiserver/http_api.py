"""The Kubernetes API over HTTP: reads from the collections, all else by `LocalApiServer`.

Owns what a request and an answer look like on a connection, and the watches that are open.
Guarantees: a watch tells each change once, in order, or ends with 410 where the window no longer
has all of them. A list is always whole: `limit` is a wish, which a server need not grant.
"""

import asyncio
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

import msgspec

from edge_sidecars.apimachinery.objects import Item
from edge_sidecars.apimachinery.request.accept import Form, Representation, representation
from edge_sidecars.apimachinery.request.list_options import ListOptions, get_version
from edge_sidecars.apimachinery.request.request_info import RequestInfo
from edge_sidecars.apimachinery.resource_version import metadata_only
from edge_sidecars.apimachinery.resources import ResourceName, check_fields
from edge_sidecars.apimachinery.scope import Predicate
from edge_sidecars.apimachinery.selection.fields import (
    NAME,
    NAMESPACE,
    FieldRequirement,
    FieldSelector,
)
from edge_sidecars.apimachinery.status import (
    Refused,
    Status,
    bad_request,
    expired,
    expired_continue,
    not_acceptable,
    not_found,
    not_shown_as,
    too_large_version,
)
from edge_sidecars.apimachinery.store import Collection, Expired, transition
from edge_sidecars.apimachinery.watch_events import INITIAL_EVENTS_END, EventType
from edge_sidecars.runtime.web import aiohttp_web as web
from tools.local_apiserver.core.api_resource import Resource
from tools.local_apiserver.local_apiserver import LocalApiServer
from tools.local_apiserver.response import JSON, Answer, of_status

# Bytes; kube-apiserver's limit of a request's body (MaxRequestBodyBytes).
MAX_BODY: Final = 3 * 1024 * 1024
# Seconds of a watch without timeoutSeconds: kube-apiserver's default of --min-request-timeout.
WATCH_TIMEOUT: Final = 1800.0
# Seconds between two bookmarks, as kube-apiserver's watch cache sends them.
BOOKMARK_INTERVAL: Final = 60.0


class HttpApi:
    def __init__(self, server: LocalApiServer) -> None:
        self._server = server
        self._watches: dict[ResourceName, set[_Watch]] = {}
        server.subscribe(lambda name, _: self._wake(name))
        server.on_renewal(self._wake)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except Refused as refused:
            return _response(of_status(refused.status))

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        info = RequestInfo.parse(request.method, request.raw_path)
        resource = self._server.resource(info.resource)
        is_read = request.method == "GET" and info.verb in ("get", "list", "watch")
        if resource is not None and is_read and not info.subresource:
            return await self._read(request, info, resource)
        if not info.is_resource and request.method == "GET":
            found = await self._server.document(info.path, request.headers.get("Accept", ""))
            if found is not None:
                return _response(found)
        body = await _body(request)
        return _response(await self._server.write(info, headers=request.headers, body=body))

    async def _read(
        self, request: web.BaseRequest, info: RequestInfo, resource: Resource
    ) -> web.StreamResponse:
        """Raises `Refused`."""
        wanted = representation(request.headers.get("Accept", ""))
        if wanted.form is Form.OTHER or (wanted.form is Form.TABLE and not wanted.allows_whole):
            raise Refused(not_acceptable(("application/json",)))
        if not wanted.fits(info.verb):
            raise Refused(not_shown_as(list_wanted=wanted.of_list))
        if info.verb == "get":
            return self._get(info, resource, wanted)
        query = info.query
        if info.verb == "watch":
            # Which the path alone may say.
            query = {**query, "watch": ["true"]}
        options = ListOptions.parse(query)
        check_fields(
            resource.name,
            options.fields.paths,
            published=resource.selectable,
            is_namespaced=resource.is_namespaced,
        )
        if len(info.parts) > 1 and options.fields.exact(NAME) not in (None, info.name):
            raise Refused(bad_request("fieldSelector metadata.name doesn't match requested name"))
        if info.verb == "list":
            return self._list(info, resource, options, wanted)
        return await self._watch(request, info, options, wanted)

    def _get(self, info: RequestInfo, resource: Resource, wanted: Representation) -> web.Response:
        collection = self._server.collection(info.resource)
        _check_version(get_version(info.query), collection)
        namespace = info.namespace if resource.is_namespaced else ""
        found = collection.objects.get((namespace, info.name))
        if found is None:
            raise Refused(not_found(info.resource.plural, info.name, group=info.resource.group))
        return web.Response(body=_shown(found.raw, wanted), headers=JSON)

    def _list(
        self, info: RequestInfo, resource: Resource, options: ListOptions, wanted: Representation
    ) -> web.Response:
        if options.continue_token:
            raise Refused(expired_continue())
        collection = self._server.collection(info.resource)
        _check_version(options.resource_version, collection)
        if options.is_exact and options.resource_version != collection.cursor:
            raise Refused(expired(options.resource_version, collection.cursor))
        kind, api_version = resource.list_kind, info.resource.api_version
        if wanted.form is Form.METADATA:
            kind, api_version = "PartialObjectMetadataList", wanted.api_version
        meta: dict[str, object] = {"resourceVersion": str(collection.cursor)}
        if not options.shards.is_everything:
            meta["shardInfo"] = {"selector": str(options.shards)}
        head = msgspec.json.encode({"kind": kind, "apiVersion": api_version, "metadata": meta})
        # kube-apiserver leaves them out of lists of its own types.
        named = b'{"kind":"%s","apiVersion":"%s",' % (
            resource.kind.encode(),
            info.resource.api_version.encode(),
        )
        items = [_shown(item.raw, wanted) for item in _selected(info, options, collection)]
        if not resource.is_custom:
            items = [b"{" + it[len(named) :] if it.startswith(named) else it for it in items]
        body = b'%s,"items":[%s]}\n' % (head[:-1], b",".join(items))
        return web.Response(body=body, headers=JSON)

    async def _watch(
        self,
        request: web.BaseRequest,
        info: RequestInfo,
        options: ListOptions,
        wanted: Representation,
    ) -> web.StreamResponse:
        watch = _Watch(info, options, wanted, self._server)
        watches = self._watches.setdefault(info.resource, set())
        watches.add(watch)
        try:
            response = web.StreamResponse(headers=JSON)
            response.enable_chunked_encoding()
            await response.prepare(request)
            await watch.run(response)
            await response.write_eof()
            return response
        finally:
            watches.discard(watch)

    def _wake(self, name: ResourceName) -> None:
        for watch in self._watches.get(name, ()):
            watch.changed.set()


class _Watch:
    """One client's. Its position is in the collection's window, which is all that waits for it."""

    def __init__(
        self,
        info: RequestInfo,
        options: ListOptions,
        wanted: Representation,
        server: LocalApiServer,
    ) -> None:
        self.changed = asyncio.Event()
        self._info, self._options, self._wanted = info, options, wanted
        self._server = server
        self._collection = server.collection(info.resource)
        if options.send_initial_events:
            _check_version(options.resource_version, self._collection)
        self._position = options.resource_version or self._collection.cursor
        self._matches = _predicate(info, options).matches

    async def run(self, response: web.StreamResponse) -> None:
        """Returns when its time is over, or nothing more can be told."""
        timeout = self._options.timeout_seconds
        try:
            async with asyncio.timeout(max(timeout, 0) if timeout else WATCH_TIMEOUT):
                if self._options.send_initial_events:
                    self._position = self._collection.cursor
                    await response.write(b"".join(self._initial()))
                while await self._told(response):
                    await self._change(response)
        except TimeoutError:
            await response.write(self._bookmark())

    async def _change(self, response: web.StreamResponse) -> None:
        """Waits for the next one; a bookmark shows meanwhile that nothing came."""
        try:
            async with asyncio.timeout(BOOKMARK_INTERVAL):
                await self.changed.wait()
        except TimeoutError:
            cursor = self._server.collection(self._info.resource).cursor
            self._position = max(self._position, cursor)
            await response.write(self._bookmark())

    async def _told(self, response: web.StreamResponse) -> bool:
        """False where this was the last that can be told."""
        self.changed.clear()
        name = self._info.resource
        is_served = self._server.resource(name) is not None
        if not is_served or self._server.collection(name) is not self._collection:
            await response.write(expired().event())
            return False
        try:
            changes = self._collection.since(self._position)
        except Expired:
            gone = expired(self._position, self._collection.window_start)
            await response.write(gone.event())
            return False
        if changes:
            self._position = changes[-1].version
        events = [transition(change, self._matches) for change in changes]
        await response.write(b"".join(self._line(*event) for event in events if event is not None))
        return True

    def _initial(self) -> Iterator[bytes]:
        for item in _selected(self._info, self._options, self._collection):
            yield self._line(EventType.ADDED, item.raw)
        yield self._bookmark(ends_initial=True)

    def _line(self, kind: EventType, raw: bytes) -> bytes:
        return b'{"type":"%s","object":%s}\n' % (kind.encode(), _shown(raw, self._wanted))

    def _bookmark(self, *, ends_initial: bool = False) -> bytes:
        """That all up to its position was told; empty where the client asked for none."""
        if not self._options.allow_bookmarks:
            return b""
        meta: dict[str, object] = {"resourceVersion": str(self._position)}
        if ends_initial:
            meta["annotations"] = {INITIAL_EVENTS_END: "true"}
        kind = {"kind": self._collection.kind, "apiVersion": self._collection.api_version}
        return self._line(EventType.BOOKMARK, msgspec.json.encode({**kind, "metadata": meta}))


def _predicate(info: RequestInfo, options: ListOptions) -> Predicate:
    fields = options.fields
    if info.resource.plural != "namespaces" and info.namespace:
        in_namespace = FieldRequirement(NAMESPACE, is_equal=True, value=info.namespace)
        fields = FieldSelector.of([*fields.requirements, in_namespace])
    if len(info.parts) > 1:
        of_name = FieldRequirement(NAME, is_equal=True, value=info.name)
        fields = FieldSelector.of([*fields.requirements, of_name])
    return Predicate.of(info.resource, options.labels, fields, options.shards)


def _selected(info: RequestInfo, options: ListOptions, collection: Collection) -> Iterator[Item]:
    """In the order of etcd's keys."""
    predicate = _predicate(info, options)
    for key in sorted(collection.objects):
        if predicate.matches(collection.objects[key]):
            yield collection.objects[key]


def _check_version(version: int | None, collection: Collection) -> None:
    if version is not None and version > collection.cursor:
        raise Refused(too_large_version(version, collection.cursor))


def _shown(raw: bytes, wanted: Representation) -> bytes:
    return metadata_only(raw, wanted.api_version) if wanted.form is Form.METADATA else raw


async def _body(request: web.BaseRequest) -> bytes:
    """Raises `Refused` for one that is too long, unread where its length is known."""
    if (request.content_length or 0) > MAX_BODY:
        raise Refused(_too_long())
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > MAX_BODY:
            raise Refused(_too_long())
    return bytes(body)


def _too_long() -> Status:
    message = f"Request entity is too large: limit is {MAX_BODY}"
    return Status(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "RequestEntityTooLarge", message)


def _response(answer: Answer) -> web.Response:
    return web.Response(status=answer.status, headers=answer.headers, body=answer.body)
