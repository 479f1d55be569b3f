"""One collection of the API as this process knows it: documents by name, and how far it has come.

Owns which of two states of an object is the newer one. It has one source, or one for each namespace
that is looked after, and each has come as far as it has. Sources are fed by
`edge_sidecars.kubeapi.reflector` (lists and watch events); answers to writes of our own come by
`learned` and `forgot`, so that a writer reads its own write. Guarantees: an object never goes back
to an older state, none that is deleted comes back, and every change is announced exactly once, with
what was there before. Does no I/O.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from edge_sidecars.sedna_api.core.api_object import Document

ALL_NAMESPACES: Final = ""

Name = tuple[str, str]
Tell = Callable[[Document | None, Document | None], None]


class InformerCache:
    """`tell(before, after)` is called at each change; one of the two may be None. `moved` is called
    when a `version` or `is_synced` changed, after the changes that brought it. `namespaces`: those
    that have a source each; none: one source for all."""

    def __init__(
        self, kind: str, tell: Tell, moved: Callable[[], None], *, namespaces: Sequence[str] = ()
    ) -> None:
        self.kind = kind
        self._tell = tell
        self.moved = moved
        self._documents: dict[Name, Document] = {}
        self.sources: Mapping[str, InformerSource] = {
            it: InformerSource(self, it) for it in namespaces or (ALL_NAMESPACES,)
        }

    @property
    def is_synced(self) -> bool:
        return all(it.is_synced for it in self.sources.values())

    @property
    def version(self) -> int:
        """What the source that is furthest has come to: versions of an API are of one history."""
        return max(it.version for it in self.sources.values())

    def version_in(self, namespace: str) -> int:
        """Nothing that happened in this namespace up to here is missing."""
        source = self._source(namespace)
        return 0 if source is None else source.version

    def __len__(self) -> int:
        return len(self._documents)

    def __iter__(self) -> Iterator[Document]:
        return iter(self._documents.values())

    def get(self, namespace: str, name: str) -> Document | None:
        return self._documents.get((namespace, name))

    def learned(self, document: Document) -> None:
        """An object as the API server answered it; nothing where the watch is past that."""
        if document.resource_version > self.version_in(document.namespace):
            self.take(document)

    def forgot(self, document: Document) -> None:
        """The API server deleted it; `document`: its last known state."""
        name = (document.namespace, document.name)
        known = self._documents.get(name)
        if known is not None and known.uid == document.uid:
            self._remove(name, known)

    # ── what sources say ──

    def replace(
        self, documents: Iterable[Document], source: "InformerSource", version: int
    ) -> None:
        """`source` lists all that it has at `version`."""
        listed = {(it.namespace, it.name): it for it in documents}
        # Lists come from where the watch was, or later: this is another etcd, from a backup.
        is_rewound = version < source.version
        for name, known in list(self._documents.items()):
            if self._source(known.namespace) is not source:
                continue
            # What was written after the list was made is not on it.
            if is_rewound or (name not in listed and known.resource_version <= version):
                self._remove(name, known)
        for document in listed.values():
            self.take(document)

    def delete(self, document: Document) -> None:
        name = (document.namespace, document.name)
        known = self._documents.get(name)
        if known is not None and known.resource_version <= document.resource_version:
            self._remove(name, document if document.uid == known.uid else known)

    def take(self, document: Document) -> None:
        """A state of the object, which counts where it is newer."""
        name = (document.namespace, document.name)
        known = self._documents.get(name)
        if known is None:
            self._documents[name] = document
            self._tell(None, document)
        elif known.uid != document.uid:
            if document.resource_version > known.resource_version:
                self._remove(name, known)
                self._documents[name] = document
                self._tell(None, document)
        elif document.resource_version > known.resource_version:
            self._documents[name] = document
            self._tell(known, document)

    # ── ──

    def _source(self, namespace: str) -> "InformerSource | None":
        return self.sources.get(namespace) or self.sources.get(ALL_NAMESPACES)

    def _remove(self, name: Name, last: Document) -> None:
        del self._documents[name]
        self._tell(last, None)


class InformerSource:
    """What one stream says of a collection, and how far it has come; a `Sink` of what follows it.
    `namespace`: its own, ALL_NAMESPACES where it has them all."""

    def __init__(self, cache: InformerCache, namespace: str) -> None:
        self.namespace = namespace
        self.is_synced = False
        self.version = 0
        self._cache = cache

    def replaced(self, documents: Iterable[Document], version: int) -> None:
        """A list: all that there is at `version`."""
        self._cache.replace(documents, self, version)
        self.version = version
        self.is_synced = True
        self._cache.moved()

    def changed(self, document: Document) -> None:
        self._cache.take(document)
        self.at(document.resource_version)

    def deleted(self, document: Document) -> None:
        """`document`: its last state, with the version of its deletion."""
        self._cache.delete(document)
        self.at(document.resource_version)

    def at(self, version: int) -> None:
        """Nothing that happened up to `version` is missing."""
        if version > self.version:
            self.version = version
            self._cache.moved()
