"""Answers on their way to a client: Status objects, lists, and refusals of the relay's own.

A list is sent in parts, so that a slow reader of a big one costs no memory; gzip where asked and
worth it, as kube-apiserver does. Refusals are counted, and logged with `--log-refusals`; 404, 409
and 410 are answers. Guarantee: requests for things that do not exist grow neither metrics nor log
without bound.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from time import monotonic
from typing import Final

from aiohttp import hdrs

from edge_sidecars.apimachinery.request.accept import takes_gzip
from edge_sidecars.apimachinery.request.request_info import LONGEST_PATH, RequestInfo
from edge_sidecars.apimachinery.status import Refused, Status
from edge_sidecars.runtime.log import Sparing, fields, logger
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.streams.list_encoder import PART, ListBody, Pieces
from relay_sidecar.telemetry.metrics import RelayCounters
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


# Seconds; client-go asks again after these.
RETRY_AFTER: Final = 1
# Seconds between two lines about the same kind of request.
EVERY: Final = 10.0
# Lines of all kinds in that time: more than a node's own clients give reason for.
MOST: Final = 10
ANSWERS: Final = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.GONE})


class Refusals:
    """`is_link_open`: it is not settled yet whether upstream can be reached."""

    def __init__(
        self, counters: RelayCounters, *, are_logged: bool, is_link_open: Callable[[], bool]
    ) -> None:
        self._counters = counters
        self._is_link_open = is_link_open
        self._are_logged = are_logged
        self._sparing = Sparing(every=EVERY)
        # Since the moment that is named: lines, and refusals that had none.
        self._since = 0.0
        self._told = 0
        self._untold = 0

    def answer(self, request: web.BaseRequest, status: Status) -> web.Response:
        """The refusal as it is sent. A client is to ask again only while that may help."""
        if status.code == HTTPStatus.SERVICE_UNAVAILABLE and status.retry_after is None:
            status = replace(status, retry_after=RETRY_AFTER if self._is_link_open() else None)
        self.refused(request, status)
        return status_answer(status)

    def refused(self, request: web.BaseRequest, status: Status) -> None:
        if status.code in ANSWERS:
            return
        verb, resource, name = _what(request)
        self._counters.request_refused(verb, resource, status.reason)
        if self._are_logged and self._is_told(verb, resource, status.reason):
            logger.info(
                "request refused",
                extra=fields(
                    verb=verb,
                    resource=resource,
                    name=name,
                    client=request.headers.get(hdrs.USER_AGENT, "")[:100],
                    status=status.code,
                    why=status.message,
                ),
            )

    def _is_told(self, *kind: str) -> bool:
        """At most `MOST` lines in `EVERY` seconds, whatever strangers think of."""
        now = monotonic()
        if now - self._since >= EVERY:
            if self._untold:
                logger.info("more requests were refused", extra=fields(refused=self._untold))
            self._since, self._told, self._untold = now, 0, 0
        is_told = self._told < MOST and self._sparing.allows(*kind)
        self._told += is_told
        self._untold += not is_told
        return is_told


def _what(request: web.BaseRequest) -> tuple[str, str, str]:
    """Verb, resource with its group and subresource, and namespace/name; the path's own text is
    given only where it is a resource's. Of what is long nothing is made: a stranger may send it."""
    if len(request.raw_path) > LONGEST_PATH:
        return request.method.lower()[:10], "", ""
    try:
        info = RequestInfo.parse(request.method, request.raw_path)
    except Refused:
        return request.method.lower()[:10], "", ""
    if not info.is_resource:
        return info.verb, "", ""
    resource = ".".join(filter(None, (info.resource.plural, info.resource.group)))
    if info.subresource:
        resource = f"{resource}/{info.subresource}"
    return info.verb, resource[:200], "/".join(filter(None, (info.namespace, info.name)))[:512]
