"""Answers on their way to a client: Status objects, single objects, and lists.

A list is sent in parts, so that a slow reader of a big one costs no memory; gzip where asked and
worth it, as kube-apiserver does. Knows nothing of where the data is from.
"""

from collections.abc import Mapping

from aiohttp import hdrs

from edge_sidecars.apimachinery.request.accept import takes_gzip
from edge_sidecars.apimachinery.status import Status
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.core.pieces import PART, Pieces
from relay_sidecar.streams.list_encoder import ListBody
from relay_sidecar.upstream.streaming import send_long

JSON = {"Content-Type": "application/json"}
# Bytes; k8s.io/apiserver: defaultGzipThresholdBytes.
GZIP_OVER = 128 * 1024


def status_answer(status: Status, extra: Mapping[str, str] | None = None) -> web.Response:
    """`extra`: headers beside those of a Status."""
    headers = {**JSON, **(extra or {})}
    if status.retry_after is not None:
        headers["Retry-After"] = str(status.retry_after)
    return web.Response(status=status.code, body=status.body(), headers=headers)


async def send_list(
    request: web.BaseRequest, body: ListBody, headers: Mapping[str, str]
) -> web.StreamResponse:
    headers = {**JSON, **headers}
    if body.length > GZIP_OVER and takes_gzip(request.headers.get(hdrs.ACCEPT_ENCODING, "")):
        headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        packed = await body.gzipped()
        return await send_long(request, web.StreamResponse(headers=headers), Pieces([packed]))
    if body.length <= PART:
        return web.Response(body=b"".join(body.parts()), headers=headers)
    body.is_asked_for()
    return await send_long(request, web.StreamResponse(headers=headers), body)
