"""All that GM knows of the API: one collection for each kind, and the indexes over them.

Owns which indexes hear of a change, in which order, and who is notified: the hub, by the port
NodeListener (which object concerns which node), and the controller (which object is to be decided
anew). Guarantees: each change is passed on in the turn of the event loop in which it came; indexes
and collections agree at every moment. Knows neither how changes come nor what is done about them:
it does no I/O.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from edge_sidecars.sedna_api.core.api_object import Document, Json, ObjectKey
from edge_sidecars.sedna_api.core.kinds import KINDS, NODE_REPORT
from gm.cache.indexes import CHILD_KINDS, ChildIndex, NodeReportIndex, StateCounts
from gm.cache.informer_cache import InformerCache, Tell
from gm.cache.node_index import NodeIndex
from gm.core.engine.plan import NODE


class NodeListener(Protocol):
    """Who hears of changes; the hub is one."""

    def concerns(self, node: str, document: Document) -> None:
        """The object concerns the node from now on, or has changed; a Model before its job."""

    def leaves(self, node: str, document: Document) -> None:
        """The object is deleted, or concerns the node no longer; `document` is its last state,
        with the resourceVersion of the deletion where that is the reason."""

    def moved(self) -> None:
        """A collection has a higher version, `is_synced` or `is_link_up` changed. May be called
        once for many changes, and after the changes themselves."""


Touched = Callable[[ObjectKey], None]


class Informers:
    """`namespaces`: those that are looked after, one stream each; none: all, by one stream."""

    def __init__(self, is_link_up: Callable[[], bool], *, namespaces: Sequence[str] = ()) -> None:
        self._is_link_up = is_link_up
        self._listeners: list[NodeListener] = []
        self._watchers: list[Touched] = []
        self._keys: dict[str, ObjectKey] = {}
        self._synced = asyncio.Event()
        self.state_counts = StateCounts()
        self.children = ChildIndex(self._touched_uid)
        self.reports = NodeReportIndex(self._touched_uid)
        self.node_index = NodeIndex(
            self.get,
            concerns=self._concerns,
            leaves=self._leaves,
            touched=self._touched,
        )
        tells: dict[str, Tell] = {kind.singular: self._object_changed for kind in KINDS}
        tells |= dict.fromkeys(CHILD_KINDS, self.children.changed)
        tells |= {NODE_REPORT.singular: self.reports.changed, NODE: self._node_changed}
        self.collections: Mapping[str, InformerCache] = {
            kind: InformerCache(
                kind, tell, self.moved, namespaces=() if kind == NODE else namespaces
            )
            for kind, tell in tells.items()
        }

    # ── what the hub asks ──

    @property
    def is_synced(self) -> bool:
        return self._synced.is_set()

    @property
    def is_link_up(self) -> bool:
        return self._is_link_up()

    def node_documents(self, node: str) -> Iterable[Document]:
        return self.node_index.documents(node)

    def concerned(self, node: str, key: ObjectKey) -> Document | None:
        """The object, if it is known to concern the node."""
        return self.get(key) if node in self.node_index.nodes(key) else None

    def version(self, kind: str) -> int:
        collection = self.collections.get(kind)
        return 0 if collection is None else collection.version

    def version_in(self, kind: str, namespace: str) -> int:
        """Nothing of the kind that happened there up to here is missing."""
        return self.collections[kind].version_in(namespace)

    def subscribe(self, listener: NodeListener) -> None:
        self._listeners.append(listener)

    # ── what the controller and the report queue ask ──

    @property
    def missing(self) -> tuple[str, ...]:
        """Kinds that were not listed yet."""
        return tuple(kind for kind, each in self.collections.items() if not each.is_synced)

    async def synced(self) -> None:
        """Returns when everything was listed once."""
        await self._synced.wait()

    def watch(self, touched: Touched) -> None:
        """Hears of each object that is to be decided anew, from now on."""
        self._watchers.append(touched)

    def get(self, key: ObjectKey) -> Document | None:
        collection = self.collections.get(key.kind)
        return None if collection is None else collection.get(key.namespace, key.name)

    def named(self, uid: str) -> ObjectKey | None:
        """Which of Sedna's objects has this uid."""
        return self._keys.get(uid)

    def reference(self, key: ObjectKey) -> Json | None:
        """The object, None where there is none; Nodes as metadata. Secrets are not known here."""
        document = self.get(key)
        return None if document is None else document.json()

    def objects(self) -> Iterator[tuple[str, ObjectKey]]:
        """Of Sedna's kinds, each with its uid."""
        return iter(tuple(self._keys.items()))

    # ── what is not followed ──

    def named_by(self, key: ObjectKey) -> Iterator[str]:
        """The uids of the objects that refer to it."""
        found = map(self.get, self.node_index.dependents(key))
        return (it.uid for it in found if it is not None)

    # ── what writes were answered ──

    def learned(self, document: Document) -> None:
        self.collections[document.kind].learned(document)

    def forgot(self, document: Document) -> None:
        self.collections[document.kind].forgot(document)

    # ── changes ──

    def moved(self) -> None:
        if not self.is_synced and not self.missing:
            self._synced.set()
        for listener in self._listeners:
            listener.moved()

    def _object_changed(self, before: Document | None, after: Document | None) -> None:
        if before is not None:
            self._keys.pop(before.uid, None)
        if after is not None:
            self._keys[after.uid] = after.key
        self.state_counts.changed(before, after)
        self.node_index.changed(before, after)
        if changed := after or before:
            self._touched(changed.key)

    def _node_changed(self, before: Document | None, after: Document | None) -> None:
        """Heartbeats change nothing that anybody here asks about."""
        if before is None or after is None:
            document = after or before
            if document is not None:
                self.node_index.reference_changed(document.key)

    def _touched_uid(self, uid: str) -> None:
        key = self._keys.get(uid)
        if key is not None:
            self._touched(key)

    def _touched(self, key: ObjectKey) -> None:
        for watcher in self._watchers:
            watcher(key)

    def _concerns(self, node: str, document: Document) -> None:
        for listener in self._listeners:
            listener.concerns(node, document)

    def _leaves(self, node: str, document: Document) -> None:
        for listener in self._listeners:
            listener.leaves(node, document)
