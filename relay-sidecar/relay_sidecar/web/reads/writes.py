"""What a write through the relay tells, and what it leaves unknown.

Upstream's answer is learned from before it is handed out, so that who writes reads its own write,
whichever stream answers. Guarantee: where the answer does not tell what the object is now, what is
kept of it counts as old until upstream was asked since.
"""

from typing import Final

from msgspec import Struct
from msgspec.json import Decoder

from edge_sidecars.apimachinery.objects import Key, Malformed, read_item, read_page
from edge_sidecars.apimachinery.request.request_info import Form, Representation, RequestInfo
from edge_sidecars.apimachinery.scope import ResourceName
from edge_sidecars.apimachinery.selection.attrs import uid
from edge_sidecars.runtime.formats.media_type import is_document
from relay_sidecar.upstream.messages import BufferedResponse
from relay_sidecar.web.reads.freshness import Freshness
from relay_sidecar.web.reads.selection import key_of


class _DeletedMetadata(Struct, rename="camel"):
    finalizers: list[str] | None = None
    deletion_grace_period_seconds: int | None = None


class _Deleted(Struct):
    metadata: _DeletedMetadata


class _Details(Struct):
    uid: str = ""


class _Named(Struct):
    name: str = ""


class _Binding(Struct):
    metadata: _Named


class _DeletionStatus(Struct):
    kind: str
    details: _Details | None = None


# The one value of DeleteOptions.dryRun, in JSON as in protobuf (kubectl delete --dry-run=server).
# What has it elsewhere is a deletion that is learned from the stream only.
_DRY_RUN: Final = b"All"
_DELETIONS: Final = ("delete", "deletecollection")
_DELETED: Final = Decoder(_Deleted)
_STATUS: Final = Decoder(_DeletionStatus)
_BINDING: Final = Decoder(_Binding)


class Writes:
    def __init__(self, freshness: Freshness) -> None:
        self._freshness = freshness

    def changed(self, info: RequestInfo, wanted: Representation, answer: BufferedResponse) -> None:
        """A write was answered with something else than the object, or in a form that is not read
        here: what is known of the object is old until upstream has been asked since."""
        resource, key = written_object(info, answer.asked)
        is_list = info.verb == "deletecollection"
        version = self._freshness.passed_on(resource, answer.content, wanted, is_list=is_list)
        is_end = info.verb in _DELETIONS
        self._freshness.minimum.changed(
            resource, key, self._freshness.clock(), None if is_end else version
        )

    async def written(
        self,
        info: RequestInfo,
        wanted: Representation,
        answer: BufferedResponse,
        asked_at: float,
    ) -> None:
        """What upstream answered to a write that it was asked for at this wall time, before that
        is handed out. What a node only writes, such as the states of ever new pods, takes no room
        from what it reads."""
        if is_never_read_again(info.resource):
            self._freshness.passed_on(info.resource, answer.content, wanted, is_list=False)
            if info.name:
                await self._freshness.forget(info.resource, key_of(info))
            return
        if info.verb in _DELETIONS and _DRY_RUN in answer.asked:
            return
        if wanted.form is Form.WHOLE and await self._is_learned(info, answer, asked_at=asked_at):
            return
        self.changed(info, wanted, answer)
        if info.verb == "delete" and is_document(answer.headers.get("Content-Type", "")):
            # It may be there still: then upstream will say so. A portal's page deletes nothing.
            await self._freshness.forget(info.resource, key_of(info))

    async def _is_learned(
        self, info: RequestInfo, answer: BufferedResponse, *, asked_at: float
    ) -> bool:
        """Whether the answer tells all that the write has changed."""
        body = answer.content
        if info.verb == "deletecollection":
            return await self._are_ends(info, body)
        try:
            item = read_item(body)
        except Malformed:
            dead = _dead(body) if info.verb == "delete" else ""
            if dead:
                await self._learn_end(info, dead)
            return bool(dead)
        if info.verb == "delete" and not _is_left(body):
            self._freshness.handed_out(info.resource, item.version, item)
            await self._learn_end(info, uid(body))
        else:
            await self._freshness.remember(info.resource, item, asked_at=asked_at)
        return True

    async def _are_ends(self, info: RequestInfo, body: bytes) -> bool:
        """Upstream answers with the objects as they were before; of those that stay for a while
        it does not tell how they are now."""
        try:
            page = read_page(body)
        except Malformed:
            return False
        for item in page.items:
            if _is_left(item.raw):
                self._freshness.minimum.changed(
                    info.resource, item.key, self._freshness.clock(), None
                )
            else:
                await self._learn_end(info, uid(item.raw), item.key)
        return not page.unreadable

    async def _learn_end(self, info: RequestInfo, dead: str, key: Key | None = None) -> None:
        key = key or key_of(info)
        await self._freshness.forget(info.resource, key)
        if dead:
            self._freshness.minimum.deleted(info.resource, key, dead)


def written_object(info: RequestInfo, asked: bytes) -> tuple[ResourceName, Key]:
    """What a write is about; a name "" where that is one of a namespace, or all of it."""
    resource = info.resource
    if (resource.group, resource.plural) == ("", "bindings"):
        # pkg/registry/core/pod/storage: LegacyBindingREST binds the pod of the same name.
        try:
            name = _BINDING.decode(asked).metadata.name
        except (ValueError, RecursionError):
            name = ""
        return ResourceName("", resource.version, "pods"), (info.namespace, name)
    return resource, key_of(info)


def is_never_read_again(resource: ResourceName) -> bool:
    """By who writes it: a node writes thousands of Events a day, which would push out all
    others."""
    return resource.plural == "events" and resource.group in ("", "events.k8s.io")


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
