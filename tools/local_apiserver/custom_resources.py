"""Custom resources come and go with their definitions.

Watches the stored definitions; changes the catalog and the ledger in the same moment in which a
definition is seen to have changed, so that whoever is told of an established one can use it.
"""

from collections.abc import Sequence

from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.store import ObjectChange
from edge_sidecars.apimachinery.watch_events import EventType
from tools.local_apiserver.core.crd import DEFINITIONS, is_established, is_same, resources
from tools.local_apiserver.core.unstructured import text
from tools.local_apiserver.object_store import ObjectStore, decoded


class Definitions:
    """Begins with what the ledger has; goes on with its changes."""

    def __init__(self, ledger: ObjectStore) -> None:
        self._ledger = ledger
        # As stored: a schema's tree is ten times as large.
        self._served: dict[str, bytes] = {}
        definitions = ledger.catalog.get(DEFINITIONS)
        assert definitions is not None
        for item in ledger.stored(definitions):
            self._look_at(item.raw)
        ledger.subscribe(self._learn)

    def _learn(self, name: ResourceName, changes: Sequence[ObjectChange]) -> None:
        if name != DEFINITIONS:
            return
        for change in changes:
            if change.type is EventType.DELETED:
                self._withdraw(change.item.key[1])
            else:
                self._look_at(change.item.raw)

    def _look_at(self, raw: bytes) -> None:
        definition = decoded(raw)
        name = text(definition, "metadata", "name")
        former = self._served.get(name)
        if not is_established(definition) or (former and is_same(decoded(former), definition)):
            return
        self._served[name] = raw
        self._ledger.serve(
            text(definition, "spec", "group"),
            text(definition, "spec", "names", "plural"),
            resources(definition),
        )

    def _withdraw(self, name: str) -> None:
        former = self._served.pop(name, None)
        if former is not None:
            spec = decoded(former)["spec"]
            group, plural = text(spec, "group"), text(spec, "names", "plural")
            self._ledger.serve(group, plural, ())
