"""Discovery, OpenAPI and version: upstream's answer while online, else the last one."""

import time
from contextlib import suppress

from aiohttp import hdrs

from edge_sidecars.apimachinery.request.accept import takes_gzip
from edge_sidecars.apimachinery.status import Refused, unavailable
from edge_sidecars.kubeapi import Unreachable
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.core.caching import Staleness
from relay_sidecar.core.link import is_failure
from relay_sidecar.upstream.documents.documents import CachedDocument, DocumentCache
from relay_sidecar.upstream.messages import BufferedResponse, ClientRequest, Upstream


class Discovery:
    """`timeout` in seconds; so long upstream may take before the cached answer is given."""

    def __init__(self, documents: DocumentCache, upstream: Upstream, *, timeout: float) -> None:
        self.documents = documents
        self._upstream = upstream
        self._timeout = timeout

    async def answer(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        """Raises `Refused` where the document is not cached."""
        fetched: BufferedResponse | None = None
        if self._upstream.is_up:
            with suppress(Unreachable):
                fetched = await self._upstream.fetch(ClientRequest(request, None, self._timeout))
        if fetched is not None and not is_failure(fetched.status, fetched.headers, fetched.content):
            await self.documents.remember(path, fetched.status, fetched.headers, fetched.body)
            return await fetched.send(request)
        document = self.documents.recall(path, request.headers.get(hdrs.ACCEPT, ""))
        if document is not None:
            return _kept(request, document)
        if fetched is not None:
            # The API server's own word: one of the servers behind it is down, not the link.
            return await fetched.send(request)
        cause = self._upstream.cause or "it gave no answer in time"
        raise Refused(unavailable(f"{path}: not known here, and upstream is out of reach: {cause}"))


def _kept(request: web.BaseRequest, document: CachedDocument) -> web.Response:
    headers: dict[str, str] = {hdrs.CONTENT_TYPE: document.content_type, hdrs.VARY: hdrs.ACCEPT}
    if document.etag:
        headers[hdrs.ETAG] = document.etag
        if document.etag in request.headers.get(hdrs.IF_NONE_MATCH, "").split(", "):
            return web.Response(status=304, headers=headers)
    now = time.time()
    headers |= Staleness.since(document.confirmed_at, now=now).headers(now=now)
    if takes_gzip(request.headers.get(hdrs.ACCEPT_ENCODING, "")):
        headers[hdrs.CONTENT_ENCODING] = "gzip"
        return web.Response(body=document.gzipped, headers=headers)
    return web.Response(body=document.body(), headers=headers)
