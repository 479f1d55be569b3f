"""Which nodes each object concerns, and which objects depend on which.

Owns two indexes over the table of kinds: an object's references, nodes and Models, and the way
back. Guarantees: what `documents` gives for a node and what the listener heard agree at every
moment; a Model concerns the nodes of all jobs that hand it to their LCs, and is announced before
them. An object that cannot be understood concerns no node, and stops nothing. Does no I/O.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import msgspec

from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.sedna_api.core.api_object import Document, Json, ObjectKey
from gm.core.kinds.registry import KINDS
from gm.core.references import led_to, models, nodes, references

# What reading raw JSON of another shape than its kind's raises.
MISSHAPEN = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)

Find = Callable[[ObjectKey], Json | None]


class _NodeMetadata(msgspec.Struct, gc=False):
    annotations: msgspec.Raw = msgspec.Raw(b"")


class _NodeObject(msgspec.Struct, gc=False):
    metadata: _NodeMetadata
    spec: msgspec.Raw = msgspec.Raw(b"")


_OBJECT = msgspec.json.Decoder(_NodeObject)


@dataclass(frozen=True, slots=True)
class ObjectRelations:
    """`models`: those that LCs get together with the object."""

    references: frozenset[ObjectKey] = frozenset()
    nodes: frozenset[str] = frozenset()
    models: tuple[ObjectKey, ...] = ()


NO_RELATIONS = ObjectRelations()


def relations_of(document: Document, find: Find) -> ObjectRelations:
    """Where the object belongs, as far as `find` knows what it refers to."""
    kind = KINDS[document.kind]
    tree = document.json()
    direct = references(kind, tree)
    found = {key: find(key) for key in direct}
    # No reference leads further than that.
    indirect = map(led_to, found.values())
    return ObjectRelations(direct.union(*indirect), nodes(kind, tree, found), models(kind, tree))


class NodeIndex:
    """`concerns(node, document)` and `leaves(node, document)` are called with each change,
    `touched` of each object about which something else than itself changed."""

    def __init__(
        self,
        documents: Callable[[ObjectKey], Document | None],
        *,
        concerns: Callable[[str, Document], None],
        leaves: Callable[[str, Document], None],
        touched: Callable[[ObjectKey], None],
    ) -> None:
        self._documents = documents
        self._concerns = concerns
        self._leaves = leaves
        self._touched = touched
        self._places: dict[ObjectKey, ObjectRelations] = {}
        self._dependents: dict[ObjectKey, set[ObjectKey]] = {}
        self._by_node: dict[str, set[ObjectKey]] = {}
        # By Model: on how many jobs' behalf it concerns each node.
        self._model_nodes: dict[ObjectKey, Counter[str]] = {}
        # Of what is referred to, with what it was read from: many objects refer to the same few.
        self._leads: dict[ObjectKey, tuple[Document, Json]] = {}

    def nodes(self, key: ObjectKey) -> frozenset[str]:
        """Those that the object concerns, whatever for."""
        own = self._places.get(key, NO_RELATIONS).nodes
        return own | self.concerned(key)

    def concerned(self, key: ObjectKey) -> frozenset[str]:
        """Those that a Model concerns because of jobs."""
        return frozenset(self._model_nodes.get(key, ()))

    def dependents(self, key: ObjectKey) -> Iterable[ObjectKey]:
        return tuple(self._dependents.get(key, ()))

    def documents(self, node: str) -> Iterator[Document]:
        """Everything that concerns the node."""
        for key in self._by_node.get(node, ()):
            document = self._documents(key)
            if document is not None:
                yield document

    # ── changes ──

    def changed(self, before: Document | None, after: Document | None) -> None:
        """An object of a kind of ours, which is in its collection already."""
        document = after or before
        if document is None:
            return
        key = document.key
        if before is not None and after is not None and _stands_where(before, after):
            # What it refers to was announced when that changed.
            for node in self.nodes(key):
                self._concerns(node, after)
            return
        place = self._place(after) if after is not None else NO_RELATIONS
        gone = self._settle(key, place)
        if after is not None:
            for node in self.nodes(key):
                self._concerns(node, after)
            for node in gone - self.nodes(key):
                self._leaves(node, after)
        else:
            for node in gone | self.concerned(key):
                self._leaves(node, document)
        if _matters(before, after):
            self.reference_changed(key)

    def reference_changed(self, key: ObjectKey) -> None:
        """What refers to it may concern other nodes now, and is to be decided anew."""
        self._leads.pop(key, None)
        for dependent in self.dependents(key):
            document = self._documents(dependent)
            if document is None:
                continue
            had = self.nodes(dependent)
            self._settle(dependent, self._place(document))
            has = self.nodes(dependent)
            for node in has - had:
                self._concerns(node, document)
            for node in had - has:
                self._leaves(node, document)
            self._touched(dependent)

    def _place(self, document: Document) -> ObjectRelations:
        try:
            return relations_of(document, self._lead)
        except MISSHAPEN as error:
            logger.warning(
                "an object cannot be understood",
                extra=fields(object=str(document.key), why=repr(error)),
            )
            return NO_RELATIONS

    def _lead(self, key: ObjectKey) -> Json | None:
        """Of what is referred to, where it leads in turn."""
        document = self._documents(key)
        if document is None:
            return None
        known = self._leads.get(key)
        if known is None or known[0] is not document:
            tree = document.json()
            lead = {"metadata": {"namespace": document.namespace}, "spec": tree.get("spec")}
            known = self._leads[key] = document, lead
        return known[1]

    def _settle(self, key: ObjectKey, place: ObjectRelations) -> frozenset[str]:
        """Puts it there; the nodes at which it was for its own sake. Models hear at once."""
        old = self._places.pop(key, NO_RELATIONS)
        if place != NO_RELATIONS:
            self._places[key] = place
        for reference in old.references - place.references:
            self._dependents[reference].discard(key)
            if not self._dependents[reference]:
                del self._dependents[reference]
        for reference in place.references - old.references:
            self._dependents.setdefault(reference, set()).add(key)
        added = [(model, node) for model in place.models for node in place.nodes]
        removed = [(model, node) for model in old.models for node in old.nodes]
        for model, node in added:
            self._count(model, node, 1)
        for model, node in removed:
            self._count(model, node, -1)
        for node in place.nodes - old.nodes:
            self._by_node.setdefault(node, set()).add(key)
        for node in old.nodes - place.nodes:
            if node not in self.concerned(key):
                self._discard(node, key)
        return old.nodes

    def _count(self, model: ObjectKey, node: str, step: int) -> None:
        counts = self._model_nodes.setdefault(model, Counter())
        counts[node] += step
        if counts[node] == step == 1:
            self._by_node.setdefault(node, set()).add(model)
            self._tell_model(self._concerns, model, node)
        elif counts[node] == 0:
            del counts[node]
            self._discard(node, model)
            self._tell_model(self._leaves, model, node)
        if not counts:
            del self._model_nodes[model]

    def _tell_model(
        self, tell: Callable[[str, Document], None], model: ObjectKey, node: str
    ) -> None:
        document = self._documents(model)
        if document is not None:
            tell(node, document)
            self._touched(model)

    def _discard(self, node: str, key: ObjectKey) -> None:
        keys = self._by_node.get(node)
        if keys is not None:
            keys.discard(key)
            if not keys:
                del self._by_node[node]


def _stands_where(before: Document, after: Document) -> bool:
    """Whether all that a place follows from is the same, byte for byte: most changes are those of a
    status, or of labels."""
    return not _matters(before, after) and _grounds(before) == _grounds(after)


def _grounds(document: Document) -> tuple[bytes, bytes]:
    it = _OBJECT.decode(document.raw)
    return bytes(it.spec), bytes(it.metadata.annotations)


def _matters(before: Document | None, after: Document | None) -> bool:
    """To those that refer to it: what it is, not how it fares."""
    if before is None or after is None:
        return True
    return (before.uid, before.generation) != (after.uid, after.generation)
