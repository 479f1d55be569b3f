"""Which objects go because others have gone.

Source: Kubernetes pkg/controller/garbagecollector. Guarantees: an object is only deleted when all
its owners are known to be gone; an owner whose kind is not served here counts as there.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

import msgspec
from msgspec import Struct

from tools.local_apiserver.core import server_metadata as metadata
from tools.local_apiserver.core.deletion import BACKGROUND, FOREGROUND, ORPHAN
from tools.local_apiserver.core.unstructured import (
    Object,
    copied_object,
    mapping,
    objects,
    strings,
    text,
    texts,
)


class OwnerReference(Struct, frozen=True, rename="camel", gc=False):
    """An ownerReference. `blocks`: an owner that is deleted in the foreground waits for it."""

    api_version: str
    kind: str
    name: str
    uid: str
    blocks: bool = msgspec.field(default=False, name="blockOwnerDeletion")


class Facts(Struct, frozen=True, rename="camel", gc=False):
    """What of an object's metadata garbage collection goes by."""

    uid: str
    owner_references: list[OwnerReference] = []
    finalizers: list[str] = []
    deletion_timestamp: str = ""

    @property
    def is_ending(self) -> bool:
        return bool(self.deletion_timestamp)

    @property
    def orphans(self) -> bool:
        """Whether it waits for its dependents to be let go of."""
        return self.is_ending and metadata.ORPHAN in self.finalizers

    @property
    def waits_for_dependents(self) -> bool:
        return self.is_ending and metadata.FOREGROUND in self.finalizers


class _Object(Struct, gc=False):
    metadata: Facts


_DECODER: Final = msgspec.json.Decoder(_Object)


def facts(raw: bytes) -> Facts:
    """Of an object that the API server stored."""
    return _DECODER.decode(raw).metadata


class Owned(Enum):
    """How an owner is."""

    THERE = "there"
    WAITING = "waiting"  # deleted in the foreground: goes when its dependents are gone
    GONE = "gone"


def policy(found: Facts, state: Callable[[OwnerReference], Owned]) -> str | None:
    """By which propagation policy a dependent is deleted; None: it is not."""
    states = [state(owner) for owner in found.owner_references]
    if found.is_ending or not states or Owned.THERE in states:
        return None
    if Owned.WAITING in states:
        return FOREGROUND
    if metadata.ORPHAN in found.finalizers:
        return ORPHAN
    return FOREGROUND if metadata.FOREGROUND in found.finalizers else BACKGROUND


def has_dead_owner(found: Facts, state: Callable[[OwnerReference], Owned]) -> bool:
    return any(state(owner) is not Owned.THERE for owner in found.owner_references)


def without_owners(obj: Object, uids: Sequence[str]) -> Object:
    """The object without references to these owners."""
    changed = copied_object(obj)
    meta = mapping(changed, "metadata")
    left = [one for one in objects(meta, "ownerReferences") if text(one, "uid") not in uids]
    if left:
        meta["ownerReferences"] = list(left)
    else:
        meta.pop("ownerReferences", None)
    return changed


def without_finalizer(obj: Object, finalizer: str) -> Object:
    changed = copied_object(obj)
    meta = mapping(changed, "metadata")
    left = [one for one in texts(meta, "finalizers") if one != finalizer]
    if left:
        meta["finalizers"] = strings(left)
    else:
        meta.pop("finalizers", None)
    return changed
