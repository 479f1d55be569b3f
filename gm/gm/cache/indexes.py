"""What is indexed of children, NodeReports and states, each by one pass over a document.

ChildIndex: the workers of each object (pods, Deployments, Services and autoscalers) by their
owner's uid, of which only what bears GM's label is watched, for a cluster has many other pods. An
owner is the controller among the ownerReferences.
NodeReportIndex: what nodes have reported and objects have not taken in yet, by the objects' uid. A
NodeReport is parsed once a change; one that cannot be read is as if it were not there, which is
logged.
StateCounts: how many objects are in which state, for people: the type of an object's last
condition, with the stage where there is one. No tree of an object is made for it.
Does no I/O.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import msgspec

from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.sedna_api.core.api_object import Document, Json, ObjectKey
from edge_sidecars.sedna_api.core.kinds import ResourceKind
from edge_sidecars.sedna_api.core.node_report import NodeReport
from edge_sidecars.sedna_api.core.report import MalformedReport
from edge_sidecars.sedna_api.core.stored_report import StoredReport
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


class _ChildMetadata(msgspec.Struct, rename="camel"):
    owner_references: list[_Owner] = []


class _Child(msgspec.Struct):
    metadata: _ChildMetadata


_CHILD = msgspec.json.Decoder(_Child)


def owner_uid(document: Document) -> str:
    """ "" where it has no controller."""
    owners = _CHILD.decode(document.raw).metadata.owner_references
    return next((it.uid for it in owners if it.controller), "")


class ChildIndex:
    """`touched(uid)` is called for each owner whose children changed."""

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


class NodeReportIndex:
    """`touched(uid)` is called for each object about which other reports wait than before."""

    def __init__(self, touched: Callable[[str], None]) -> None:
        self._touched = touched
        self._reports: dict[tuple[str, str], NodeReport] = {}
        # By uid: the NodeReports in which something waits.
        self._waiting: dict[str, set[tuple[str, str]]] = {}

    def __iter__(self) -> Iterator[NodeReport]:
        return iter(tuple(self._reports.values()))

    def get(self, namespace: str, node: str) -> NodeReport | None:
        return self._reports.get((namespace, node))

    def pending(self, uid: str) -> Mapping[str, tuple[StoredReport, ...]]:
        """By node."""
        keys = self._waiting.get(uid, ())
        return {key[1]: self._reports[key].pending(uid) for key in sorted(keys)}

    @property
    def backlog(self) -> int:
        """Reports that wait, or are to be pruned."""
        return sum(
            len(self._reports[key].pending(uid))
            for uid, keys in self._waiting.items()
            for key in keys
        )

    def changed(self, before: Document | None, after: Document | None) -> None:
        document = after or before
        if document is None:
            return
        key = (document.namespace, document.name)
        old = self._reports.pop(key, None)
        new = _parsed(after) if after is not None else None
        if new is not None:
            self._reports[key] = new
        uids = {it.uid: None for each in (old, new) if each for it in each.entries.values()}
        for uid in uids:
            had = old.pending(uid) if old else ()
            has = new.pending(uid) if new else ()
            if had == has:
                continue
            if has:
                self._waiting.setdefault(uid, set()).add(key)
            elif keys := self._waiting.get(uid):
                keys.discard(key)
                if not keys:
                    del self._waiting[uid]
            if has:
                self._touched(uid)


def _parsed(document: Document) -> NodeReport | None:
    try:
        return NodeReport.parse(document.raw)
    except MalformedReport as error:
        logger.warning(
            "a NodeReport cannot be read", extra=fields(object=str(document.key), why=str(error))
        )
        return None


# Of an object about which nothing was decided yet, or whose kind has no conditions.
NO_STATE = "-"


class _Condition(msgspec.Struct):
    type: str = ""
    stage: str = ""


class _CountedStatus(msgspec.Struct):
    conditions: list[_Condition] = []


class _Counted(msgspec.Struct):
    status: _CountedStatus = msgspec.field(default_factory=_CountedStatus)


_COUNTED = msgspec.json.Decoder(_Counted)


def state_of(document: Document) -> str:
    try:
        conditions = _COUNTED.decode(document.raw).status.conditions
    except msgspec.ValidationError:
        return NO_STATE
    if not conditions:
        return NO_STATE
    last = conditions[-1]
    return sys.intern(f"{last.stage} {last.type}".strip() or NO_STATE)


class StateCounts:
    def __init__(self) -> None:
        self._states: dict[ObjectKey, str] = {}

    def changed(self, before: Document | None, after: Document | None) -> None:
        if after is not None:
            self._states[after.key] = state_of(after)
        elif before is not None:
            self._states.pop(before.key, None)

    def counts(self) -> Mapping[tuple[str, str], int]:
        """By kind and state."""
        return Counter((key.kind, state) for key, state in self._states.items())
