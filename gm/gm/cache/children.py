"""The workers of each object: pods, Deployments, Services and autoscalers, by their owner's uid.

Owns what is watched of them: only what bears GM's label, for a cluster has many other pods. An
owner is the controller among the ownerReferences. Does no I/O.
"""

from collections.abc import Callable

import msgspec

from edge_sidecars.sedna_api.core.api_object import Document, Json, ObjectKey
from edge_sidecars.sedna_api.core.kinds import ResourceKind
from gm.core.names import MANAGED_BY, MANAGER

SELECTOR = f"{MANAGED_BY}={MANAGER}"


POD = ResourceKind("Pod", "pods", prefix="/api/v1")
SERVICE = ResourceKind("Service", "services", prefix="/api/v1")
DEPLOYMENT = ResourceKind("Deployment", "deployments", prefix="/apis/apps/v1")
AUTOSCALER = ResourceKind(
    "HorizontalPodAutoscaler", "horizontalpodautoscalers", prefix="/apis/autoscaling/v2"
)
CHILD_KINDS = {it.singular: it for it in (POD, SERVICE, DEPLOYMENT, AUTOSCALER)}


class _Owner(msgspec.Struct):
    uid: str = ""
    controller: bool = False


class _Metadata(msgspec.Struct, rename="camel"):
    owner_references: list[_Owner] = []


class _Object(msgspec.Struct):
    metadata: _Metadata


_OBJECT = msgspec.json.Decoder(_Object)


def owner_uid(document: Document) -> str:
    """ "" where nobody controls it."""
    owners = _OBJECT.decode(document.raw).metadata.owner_references
    return next((it.uid for it in owners if it.controller), "")


class ChildIndex:
    """`touched(uid)` is told of each owner whose children changed."""

    def __init__(self, touched: Callable[[str], None]) -> None:
        self._touched = touched
        self._by_owner: dict[str, dict[ObjectKey, Document]] = {}
        self._owners: dict[ObjectKey, str] = {}

    def of(self, uid: str) -> tuple[Json, ...]:
        """In an order that does not depend on who heard of what first."""
        found = self._by_owner.get(uid, {})
        return tuple(found[key].json() for key in sorted(found))

    def changed(self, before: Document | None, after: Document | None) -> None:
        document = after or before
        if document is None:
            return
        key = document.key
        old = self._owners.pop(key, "")
        new = owner_uid(after) if after is not None else ""
        if old and old != new:
            self._drop(old, key)
        if new and after is not None:
            self._owners[key] = new
            self._by_owner.setdefault(new, {})[key] = after
        for uid in {old, new} - {""}:
            self._touched(uid)

    def _drop(self, uid: str, key: ObjectKey) -> None:
        children = self._by_owner[uid]
        del children[key]
        if not children:
            del self._by_owner[uid]
