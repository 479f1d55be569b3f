"""One collection of the API as this process knows it: documents by name, and how far it has come.

Owns which of two states of an object is the newer one. Fed by `sedna_api.follow` (lists and watch
events) and by the answers to writes of our own (`learned`, `forgot`), so that whoever wrote reads
its own write. Guarantees: an object never goes back to an older state, none that is deleted comes
back, and every change is told exactly once, with what was there before. Does no I/O.
"""

from collections.abc import Callable, Iterable, Iterator

from sedna_api.core.document import Document

Name = tuple[str, str]
Tell = Callable[[Document | None, Document | None], None]


class InformerCache:
    """`tell(before, after)` is called at each change; one of the two may be None. `moved` is called
    when `version` or `is_synced` changed, after the changes that brought it."""

    def __init__(self, kind: str, tell: Tell, moved: Callable[[], None]) -> None:
        self.kind = kind
        self.is_synced = False
        self.version = 0
        self._tell = tell
        self._moved = moved
        self._documents: dict[Name, Document] = {}

    def __len__(self) -> int:
        return len(self._documents)

    def __iter__(self) -> Iterator[Document]:
        return iter(self._documents.values())

    def get(self, namespace: str, name: str) -> Document | None:
        return self._documents.get((namespace, name))

    # ── what upstream says ──

    def replaced(self, documents: Iterable[Document], version: int) -> None:
        """A list: all that there is at `version`."""
        listed = {(it.namespace, it.name): it for it in documents}
        # Lists come from where the watch was, or later: this is another etcd, from a backup.
        is_rewound = version < self.version
        for name, known in list(self._documents.items()):
            # What was written after the list was made is not on it.
            if is_rewound or (name not in listed and known.resource_version <= version):
                self._remove(name, known)
        for document in listed.values():
            self._take(document)
        self.version = version
        self.is_synced = True
        self._moved()

    def changed(self, document: Document) -> None:
        self._take(document)
        self.at(document.resource_version)

    def deleted(self, document: Document) -> None:
        """`document`: its last state, with the version of its deletion."""
        name = (document.namespace, document.name)
        known = self._documents.get(name)
        if known is not None and known.resource_version <= document.resource_version:
            self._remove(name, document if document.uid == known.uid else known)
        self.at(document.resource_version)

    def at(self, version: int) -> None:
        """Nothing that happened up to `version` is missing."""
        if version > self.version:
            self.version = version
            self._moved()

    # ── what our own writes were answered ──

    def learned(self, document: Document) -> None:
        """An object as the API server answered it; nothing where the watch is past that."""
        if document.resource_version > self.version:
            self._take(document)

    def forgot(self, document: Document) -> None:
        """The API server said that it is gone; `document`: what was known of it."""
        name = (document.namespace, document.name)
        known = self._documents.get(name)
        if known is not None and known.uid == document.uid:
            self._remove(name, known)

    # ── ──

    def _take(self, document: Document) -> None:
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

    def _remove(self, name: Name, last: Document) -> None:
        del self._documents[name]
        self._tell(last, None)
