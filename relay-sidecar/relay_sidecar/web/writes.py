"""Writes: sent once or refused, never faked; what upstream answers is remembered.

A client that writes through the relay reads its own write, whichever stream answers. A write whose
outcome is unknown is answered as such, and never sent again.
"""

from typing import Final

from msgspec import Struct
from msgspec.json import Decoder

from edge_sidecars.apimachinery.accept import accept_header
from edge_sidecars.apimachinery.objects import Key, Malformed, read_item, read_page
from edge_sidecars.apimachinery.request_info import Form, RequestInfo, representation
from edge_sidecars.apimachinery.selection.attrs import uid
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.upstream.buffered_response import BufferedResponse
from relay_sidecar.upstream.proxy import LONGEST_REQUEST
from relay_sidecar.web.reads.freshness import Freshness
from relay_sidecar.web.reads.selection import key_of
from relay_sidecar.web.upstream import Upstream


class _DeletedMetadata(Struct, rename="camel"):
    finalizers: list[str] | None = None
    deletion_grace_period_seconds: int | None = None


class _Deleted(Struct):
    metadata: _DeletedMetadata


class _Details(Struct):
    uid: str = ""


class _DeletionStatus(Struct):
    kind: str
    details: _Details | None = None


# The one value of DeleteOptions.dryRun, in JSON as in protobuf (kubectl delete --dry-run=server).
# What has it elsewhere is a deletion that is learned from the stream only.
_DRY_RUN: Final = b"All"

_DELETIONS: Final = ("delete", "deletecollection")
_DELETED: Final = Decoder(_Deleted)
_STATUS: Final = Decoder(_DeletionStatus)


class Writes:
    def __init__(self, upstream: Upstream, freshness: Freshness) -> None:
        self._upstream = upstream
        self._freshness = freshness

    async def answer(self, request: web.BaseRequest, info: RequestInfo) -> web.StreamResponse:
        """Raises `Refused` where upstream is out of reach, or its answer was lost."""
        if "dryRun" in info.query:
            return await self._upstream.forward(request)
        wanted = representation(request.headers.get("Accept", ""))
        are_many = info.verb == "deletecollection"
        asked_at = self._freshness.wall()
        fetched = await self._upstream.write(
            request,
            accept=accept_header(wanted, is_list=are_many),
            header_timeout=LONGEST_REQUEST if are_many else self._freshness.settings.write_timeout,
        )
        if fetched.status in (200, 201, 202):
            if wanted.form is Form.WHOLE:
                await self._learn(fetched, info, asked_at=asked_at)
            else:
                self._freshness.passed_on(info.resource, fetched.content, wanted, is_list=are_many)
                if info.verb == "delete":
                    # It may be there still: then upstream will say so.
                    await self._freshness.forget(info.resource, key_of(info))
        return await fetched.send(request)

    async def _learn(
        self, fetched: BufferedResponse, info: RequestInfo, *, asked_at: float
    ) -> None:
        body = fetched.content
        if info.verb in _DELETIONS and _DRY_RUN in fetched.asked:
            return
        if info.verb == "deletecollection":
            await self._learn_ends(info, body)
            return
        try:
            item = read_item(body)
        except Malformed:
            if info.verb == "delete":
                await self._learn_end(info, _dead(body))
            return
        if info.verb == "delete" and not _is_left(body):
            self._freshness.handed_out(info.resource, item.version)
            await self._learn_end(info, uid(body))
        else:
            await self._freshness.remember(info.resource, item, asked_at=asked_at)

    async def _learn_ends(self, info: RequestInfo, body: bytes) -> None:
        """Upstream answers with the objects as they were before."""
        try:
            page = read_page(body)
        except Malformed:
            return
        for item in page.items:
            if not _is_left(item.raw):
                await self._learn_end(info, uid(item.raw), item.key)

    async def _learn_end(self, info: RequestInfo, dead: str, key: Key | None = None) -> None:
        key = key or key_of(info)
        await self._freshness.forget(info.resource, key)
        if dead:
            self._freshness.minimum.deleted(info.resource, key, dead)


def _dead(body: bytes) -> str:
    """The uid in the Status of a deletion."""
    try:
        status = _STATUS.decode(body)
    except (ValueError, RecursionError):
        return ""
    return status.details.uid if status.kind == "Status" and status.details else ""


def _is_left(body: bytes) -> bool:
    """Whether a deleted object stays until its finalizers or grace period end."""
    try:
        meta = _DELETED.decode(body).metadata
    except (ValueError, RecursionError):
        return True
    return bool(meta.finalizers) or bool(meta.deletion_grace_period_seconds)
