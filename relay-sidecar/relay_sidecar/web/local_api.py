"""The Kubernetes API of `--origin local`: reads come from the origin's own collections.

LIST, WATCH and GET are answered by the same code as elsewhere, from one stream per resource that
is always live; the origin answers everything else. Leases are served here: there is no other
source.
"""

from collections.abc import Sequence
from dataclasses import replace

from edge_sidecars.apimachinery.request.request_info import ListOptions, RequestInfo, representation
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.selection.fields import NAME, FieldRequirement, FieldSelector
from edge_sidecars.apimachinery.status import (
    Refused,
    bad_request,
    expired,
    not_acceptable,
    not_shown_as,
)
from edge_sidecars.apimachinery.store import ObjectChange
from edge_sidecars.local_apiserver.local_apiserver import LocalApiServer
from edge_sidecars.local_apiserver.response import Answer
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.access.admission import CALLER, Access
from relay_sidecar.streams.stream import Stream
from relay_sidecar.upstream.messages import upload_of
from relay_sidecar.web.reads.reads import Reads
from relay_sidecar.web.reads.selection import ClientRead, takes_whole
from relay_sidecar.web.responses import status_answer

# Bytes; kube-apiserver's limit of a request's body.
MAX_BODY = 3 * 1024 * 1024


class LocalApi:
    def __init__(self, access: Access, reads: Reads, origin: LocalApiServer) -> None:
        self._access = access
        self._reads = reads
        self._streams = reads.streams
        self._origin = origin
        origin.subscribe(self._changed)
        origin.on_renewal(self._renewed)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except Refused as refused:
            return status_answer(refused.status)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        request[CALLER] = await self._access.admit(request)
        info = RequestInfo.parse(request.method, request.raw_path)
        if is_read(info) and self._has(info.resource):
            wanted = representation(request.headers.get("Accept", ""))
            return await self._read(ClientRead(request, info, wanted))
        if not info.is_resource and request.method == "GET":
            found = await self._origin.document(info.path, request.headers.get("Accept", ""))
            if found is not None:
                return _response(found)
        upload = upload_of(request)
        body = b"" if upload is None else await upload.whole(limit=MAX_BODY)
        return _response(await self._origin.write(info, headers=request.headers, body=body))

    async def _read(self, read: ClientRead) -> web.StreamResponse:
        if not takes_whole(read.wanted):
            raise Refused(not_acceptable(("application/json",)))
        if not read.wanted.fits(read.info.verb):
            raise Refused(not_shown_as(list_wanted=read.wanted.of_list))
        if read.info.verb == "get":
            return await self._reads.get(read)
        options = ListOptions.parse(read.info.query)
        if read.info.verb == "watch" and len(read.info.parts) > 1:
            options = replace(options, fields=_of_one(options.fields, read.info.name))
        return await self._reads.list_or_watch(read, options)

    def _has(self, name: ResourceName) -> bool:
        """Whether it is served; its stream is then at the current version."""
        resource = self._origin.resource(name)
        if resource is None:
            return False
        collection = self._origin.collection(name)
        if not self._streams.of(name):
            now = self._reads.freshness.now()
            stream = Stream(ListScope(name), collection, self._streams.counters, now=now)
            stream.list_kind, stream.api_version = resource.list_kind, name.api_version
            self._streams.adopt(stream)
        return True

    def _changed(self, name: ResourceName, changes: Sequence[ObjectChange]) -> None:
        for stream in self._streams.of(name):
            stream.publish(changes)
            stream.nudge()

    def _renewed(self, name: ResourceName) -> None:
        """What is known of it is from another schema: clients begin anew."""
        for stream in self._streams.of(name):
            self._streams.drop(stream, expired())


def is_read(info: RequestInfo) -> bool:
    """kube-apiserver has no HEAD of a resource, though it authorizes it like a GET."""
    return (
        info.is_resource
        and info.method == "GET"
        and info.verb in ("get", "list", "watch")
        and not info.subresource
    )


def _of_one(fields: FieldSelector, name: str) -> FieldSelector:
    """Of a watch with a name in its path: k8s.io/apiserver, pkg/endpoints/handlers/get.go."""
    if fields.is_everything:
        return FieldSelector.of([FieldRequirement(NAME, is_equal=True, value=name)])
    if fields.exact(NAME) != name:
        raise Refused(bad_request("fieldSelector metadata.name doesn't match requested name"))
    return fields


def _response(answer: Answer) -> web.Response:
    return web.Response(status=answer.status, headers=answer.headers, body=answer.body)
