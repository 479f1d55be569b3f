"""Applies a plan: actions in their order, then labels and annotations, then the status; a new key
of the object's workers before all.

Owns rule G2 on the wire. Guarantees: A child that exists already counts as made only if it is
what is wanted (`engine.stands_for`). One of a predecessor is removed first, one of a successor
never. Deletions name uid and resourceVersion. Labels and status are written under the
resourceVersion that was decided at, and a write in between wins. After any failure nothing further
is written: the object is decided again. Each write is on behalf of the object that the plan is for,
also that of another one's status.
"""

import msgspec

from edge_sidecars.controllers.guarded_writes import GuardedWrites
from edge_sidecars.kubeapi import ApiError, Conflict, NotFound
from edge_sidecars.sedna_api.core.api_object import Document, Json
from edge_sidecars.sedna_api.core.capability import WORKER_KEY
from edge_sidecars.sedna_api.core.kinds import API_VERSION, MODEL, ResourceKind, kind_of
from gm.cache.indexes import CHILD_KINDS
from gm.cache.informers import Informers
from gm.core.engine.engine import stands_for
from gm.core.engine.plan import (
    ChildRefusal,
    CreateChild,
    DeleteChild,
    PatchModelStatus,
    ReconcilePlan,
    ReplaceChild,
)
from gm.core.names import MANAGED_BY, MANAGER
from gm.core.tree import mapping, objects, text
from gm.core.workers.manifests import spec_hash

# The label of each node that an object concerns begins so
# (edge_sidecars.sedna_api.core.kinds).
NODE_LABELS = "sedna.io/node."
# Of a child as it was asked for: bad request, forbidden by quota or admission, invalid.
REFUSED = frozenset({400, 403, 422})
# Seconds until somebody else's deletion of a child is looked at again.
DELETION_POLL = 1.0

_ANY = msgspec.json.Decoder()


class DecideAgain(Exception):
    """What was decided at is not what is: `after` seconds decide anew."""

    def __init__(self, after: float = 0.0) -> None:
        super().__init__(after)
        self.after = after


class ChildRefused(Exception):
    """The API server refuses this child."""

    def __init__(self, refusal: ChildRefusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Applier:
    """`has_labels`: the nodes that an object concerns are on it as labels."""

    def __init__(self, writes: GuardedWrites, informers: Informers, *, has_labels: bool) -> None:
        self._writes = writes
        self._informers = informers
        self._has_labels = has_labels

    async def apply(self, document: Document, plan: ReconcilePlan) -> None:
        """Raises `DecideAgain`, `ChildRefused`, `NotLeading`, `ApiError`, `Unreachable`."""
        if WORKER_KEY in plan.annotations:
            # First: a GM that takes over must find the key that the workers have.
            document = await self._mark(document, plan)
        for action in plan.actions:
            match action:
                case CreateChild(manifest):
                    await self._create(document, manifest)
                case ReplaceChild(manifest):
                    await self._replace(document, manifest)
                case DeleteChild():
                    await self._delete(document, action)
                case PatchModelStatus():
                    await self._patch_model(document, action)
        document = await self._mark(document, plan)
        if plan.status is not None:
            await self._write_status(document, plan.status)

    # ── children ──

    async def _create(self, owner: Document, manifest: Json) -> None:
        kind = _child_kind(manifest)
        namespace = text(manifest, "metadata", "namespace")
        try:
            raw = await self._writes.post(kind.collection(namespace), manifest, owner=owner.uid)
        except Conflict as error:
            if error.reason != "AlreadyExists":
                raise
            await self._meet(owner, manifest)
            return
        except ApiError as error:
            raise _refusal(error, manifest) from error
        self._informers.learned(Document.parse(raw, kind.singular))

    async def _meet(self, owner: Document, manifest: Json) -> None:
        """Something of that name exists: ours, an older one of ours, or somebody else's."""
        kind, path = _child_kind(manifest), _child_path(manifest)
        try:
            found = Document.parse(await self._writes.get(path), kind.singular)
        except NotFound as error:
            raise DecideAgain from error
        existing = found.json()
        # Of others the watch tells nothing: what was learnt of them would stay for ever.
        is_followed = text(existing, "metadata", "labels", MANAGED_BY) == MANAGER
        if is_followed:
            self._informers.learned(found)
            if stands_for(existing, manifest, owner.uid):
                return
        if text(existing, "metadata", "deletionTimestamp"):
            raise DecideAgain(DELETION_POLL)
        if not _is_older_one(existing, manifest):
            owner_kind = text(_controller(existing), "kind") or "nobody"
            owner_name = text(_controller(existing), "name")
            message = f"exists already and belongs to {owner_kind} {owner_name}".rstrip()
            raise _child_refused(manifest, message)
        if not await self._is_present(owner):
            # The child is a successor's, which another GM may own: this process is behind.
            raise DecideAgain
        await self._remove(owner, kind, found)
        raise DecideAgain

    async def _is_present(self, owner: Document) -> bool:
        """Whether the object is still the one of its name. What was read before this of another
        uid is not its successor's."""
        try:
            live = Document.parse(await self._writes.get(_path(owner)), owner.kind)
        except NotFound:
            self._informers.forgot(owner)
            return False
        self._informers.learned(live)
        return live.uid == owner.uid

    async def _replace(self, owner: Document, manifest: Json) -> None:
        kind, path = _child_kind(manifest), _child_path(manifest)
        try:
            raw = await self._writes.put(path, manifest, owner=owner.uid)
        except Conflict as error:
            await self._reread(path, kind.singular)
            raise DecideAgain from error
        except NotFound as error:
            raise DecideAgain from error
        except ApiError as error:
            raise _refusal(error, manifest) from error
        self._informers.learned(Document.parse(raw, kind.singular))

    async def _delete(self, owner: Document, action: DeleteChild) -> None:
        kind = CHILD_KINDS[action.kind.lower()]
        found = self._informers.collections[kind.singular].get(action.namespace, action.name)
        if found is None or found.uid != action.uid:
            raise DecideAgain
        await self._remove(owner, kind, found, resource_version=action.resource_version)

    async def _remove(
        self, owner: Document, kind: ResourceKind, child: Document, *, resource_version: str = ""
    ) -> None:
        path = kind.path(child.namespace, child.name)
        version = resource_version or str(child.resource_version)
        try:
            raw = await self._writes.delete(
                path,
                uid=child.uid,
                resource_version=version,
                propagation_policy="Background",
                owner=owner.uid,
            )
        except NotFound:
            self._informers.forgot(child)
            return
        except Conflict as error:
            await self._reread(path, kind.singular)
            raise DecideAgain from error
        answer = _ANY.decode(raw)
        if not text(answer, "metadata", "deletionTimestamp"):
            self._informers.forgot(child)
        elif text(answer, "metadata", "labels", MANAGED_BY) == MANAGER:
            self._informers.learned(Document.parse(raw, kind.singular))

    # ── objects ──

    async def _patch_model(self, job: Document, action: PatchModelStatus) -> None:
        """A Model that is gone has no metrics."""
        model = self._informers.get(action.key)
        if model is None:
            return
        metrics = [dict(metric) for metric in action.metrics]
        if mapping(model.json(), "status").get("metrics") == metrics:
            return
        status = {"metrics": metrics, "updateTime": action.update_time}
        path = f"{MODEL.path(model.namespace, model.name)}/status"
        body = {"metadata": _version(model), "status": status}
        await self._write_object(model, path, body, owner=job)

    async def _mark(self, document: Document, plan: ReconcilePlan) -> Document:
        """The object with its labels and annotations as they shall be."""
        metadata = mapping(document.json(), "metadata")
        labels = _changes(mapping(metadata, "labels"), plan.labels) if self._has_labels else {}
        annotations = {
            key: value or None
            for key, value in plan.annotations.items()
            if mapping(metadata, "annotations").get(key, "") != value
        }
        if not labels and not annotations:
            return document
        patch: Json = {"metadata": _version(document)}
        patch["metadata"] |= {"labels": labels} if labels else {}
        patch["metadata"] |= {"annotations": annotations} if annotations else {}
        return await self._write_object(document, _path(document), patch, owner=document)

    async def _write_status(self, document: Document, status: Json) -> None:
        """The API takes nothing but the status from there, whole."""
        metadata = {"name": document.name, "namespace": document.namespace} | _version(document)
        body = {
            "apiVersion": API_VERSION,
            "kind": kind_of(document.kind).kind,
            "metadata": metadata,
            "status": status,
        }
        path = f"{_path(document)}/status"
        await self._write_object(document, path, body, owner=document, is_whole=True)

    async def _write_object(
        self, document: Document, path: str, body: Json, *, owner: Document, is_whole: bool = False
    ) -> Document:
        write = self._writes.put if is_whole else self._writes.patch
        try:
            raw = await write(path, body, owner=owner.uid)
        except Conflict as error:
            await self._reread(_path(document), document.kind)
            raise DecideAgain from error
        except NotFound as error:
            self._informers.forgot(document)
            raise DecideAgain from error
        written = Document.parse(raw, document.kind)
        self._informers.learned(written)
        return written

    async def _reread(self, path: str, kind: str) -> None:
        """The watch may be behind: without this the same would be decided until it is not."""
        try:
            self._informers.learned(Document.parse(await self._writes.get(path), kind))
        except NotFound:
            return


def _child_kind(manifest: Json) -> ResourceKind:
    return CHILD_KINDS[text(manifest, "kind").lower()]


def _child_path(manifest: Json) -> str:
    metadata = mapping(manifest, "metadata")
    return _child_kind(manifest).path(text(metadata, "namespace"), text(metadata, "name"))


def _refusal(error: ApiError, manifest: Json) -> ApiError | ChildRefused:
    if error.status not in REFUSED:
        return error
    return _child_refused(manifest, error.message)


def _child_refused(manifest: Json, message: str) -> ChildRefused:
    kind, name = text(manifest, "kind"), text(manifest, "metadata", "name")
    return ChildRefused(ChildRefusal(kind, name, spec_hash(manifest), message))


def _is_older_one(existing: Json, manifest: Json) -> bool:
    """Made for this very object, by whomever, or by a GM for one of its kind and name: another
    spec, or an object before it."""
    has, wants = _controller(existing), _controller(manifest)
    if has.get("uid") == wants.get("uid"):
        return True
    is_ours = text(existing, "metadata", "labels", MANAGED_BY) == MANAGER
    return is_ours and all(has.get(key) == wants.get(key) for key in ("apiVersion", "kind", "name"))


def _controller(tree: Json) -> Json:
    """The reference to the owner; with no uid where there is none."""
    references = objects(tree, "metadata", "ownerReferences")
    return next((it for it in references if it.get("controller") is True), {"uid": ""})


def _path(document: Document) -> str:
    return kind_of(document.kind).path(document.namespace, document.name)


def _version(document: Document) -> Json:
    return {"uid": document.uid, "resourceVersion": str(document.resource_version)}


def _changes(present: Json, wanted: frozenset[str]) -> Json:
    """Of the labels of nodes; all others are not ours."""
    had = {key for key in present if key.startswith(NODE_LABELS)}
    added: Json = dict.fromkeys(sorted(wanted - had), "")
    return added | dict.fromkeys(sorted(had - wanted), None)
