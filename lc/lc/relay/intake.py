"""One collection into the store, whatever the disk does meanwhile.

Guarantees: what waits is a whole list at most, and the newest of each object since; nothing is
lost while the disk takes nothing, and it is stored in the order in which it came.
"""

import asyncio
from collections.abc import Awaitable, Sequence

from edge_sidecars.sedna_api.core.api_object import Document, ObjectKey
from lc.store import Store, StoreUnavailable

# Seconds until the disk is asked again.
RETRY_AFTER = 2.0


class Intake:
    """A sink of `reflect`; `is_listed`: whether it has come as a whole in this process."""

    def __init__(self, store: Store, kind: str) -> None:
        self.is_listed = False
        self._store = store
        self._kind = kind
        self._whole: Sequence[Document] | None = None
        # The newest of each object after that; what is False here is gone.
        self._changes: dict[ObjectKey, tuple[Document, bool]] = {}
        self._wanted = asyncio.Event()

    def replaced(self, documents: Sequence[Document], version: int) -> None:
        self._whole = documents
        self._changes.clear()
        self._wanted.set()

    def changed(self, document: Document) -> None:
        self._changes[document.key] = (document, True)
        self._wanted.set()

    def deleted(self, document: Document) -> None:
        self._changes[document.key] = (document, False)
        self._wanted.set()

    def at(self, version: int) -> None:
        """Nothing depends on it: reports are not ordered against objects."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            whole, changes = self._whole, self._changes
            self._whole, self._changes = None, {}
            try:
                await self._store_all(whole, changes)
            except StoreUnavailable:
                self._put_back(whole, changes)
                await asyncio.sleep(RETRY_AFTER)
            else:
                self.is_listed = self.is_listed or whole is not None

    async def _store_all(
        self, whole: Sequence[Document] | None, changes: dict[ObjectKey, tuple[Document, bool]]
    ) -> None:
        store = self._store
        asked: list[Awaitable[object]] = []
        if whole is not None:
            asked.append(store.replace_all(self._kind, whole))
        for document, is_there in changes.values():
            asked.append(
                store.put(document) if is_there else store.delete(document.key, document.uid)
            )
        for each in asked:
            await each

    def _put_back(
        self, whole: Sequence[Document] | None, changes: dict[ObjectKey, tuple[Document, bool]]
    ) -> None:
        """Behind what has come since. Taking it twice does no harm."""
        if self._whole is None:
            self._whole = whole
            self._changes = changes | self._changes
        self._wanted.set()
