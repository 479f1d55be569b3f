"""What LC asks of the manager of one kind of object, and which manager's workers report to it.

Owns the port between the store and the worker API on one side and the kinds on the other. A manager
gets its objects in the order in which the store took them, after they are durable; what it
says itself goes through `Store.enqueue`, so that it is durable when `worker_reported` returns.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.sedna_api.core.api_object import Document, ObjectKey
from edge_sidecars.sedna_api.core.report import Report
from lc.core.worker_info import UNFORESEEN, WorkerInfo
from lc.store import Change, Store


class ObjectManager(Protocol):
    """Of one or more kinds; `run` works until it is cancelled, everything else returns soon."""

    # Kinds, singular, whose workers report to it; no other manager handles them.
    handles: frozenset[str]
    # Kinds whose objects it gets: what it handles, and what these refer to.
    follows: frozenset[str]

    def object_changed(self, document: Document) -> None:
        """Also for each object that is there at the start, before `run`."""
        ...

    def object_gone(self, document: Document) -> None:
        """As it was last. An object of the same name with another uid comes after this."""
        ...

    def check(self, info: WorkerInfo) -> None:
        """Of a worker whose job is not known yet. Raises `UnusableReport` or `MalformedReport` for
        what no job could use."""
        ...

    async def worker_reported(self, info: WorkerInfo, document: Document) -> None:
        """Returns when what follows from it is durable.

        Raises `UnusableReport`, and `StoreUnavailable` and `OutboxFull` as the store does.
        """
        ...

    def notes(self) -> Mapping[ObjectKey, str]:
        """For people: the state of each object, in a few words."""
        ...

    async def run(self) -> None:
        """Until cancelled; what is unforeseen is raised, and ends the process."""
        ...


class ObjectManagers:
    """Tells each manager of its objects, and finds the one that a worker reports to."""

    def __init__(self, store: Store, managers: Sequence[ObjectManager]) -> None:
        self._store = store
        self.all = tuple(managers)
        self._handling = {kind: each for each in self.all for kind in each.handles}

    def start(self) -> None:
        """Tells what is there, and from now on what changes."""
        for each in self.all:
            for kind in sorted(each.follows):
                for document in self._store.objects(kind):
                    with _guarded(document):
                        each.object_changed(document)
        self._store.subscribe(self)

    def handling(self, kind: str) -> ObjectManager | None:
        """None: objects of this kind have nothing to do here."""
        return self._handling.get(kind)

    def notes(self) -> dict[ObjectKey, str]:
        return {key: note for each in self.all for key, note in each.notes().items()}

    def object_changed(self, document: Document, change: Change) -> None:
        for each in self.all:
            if document.kind in each.follows:
                with _guarded(document):
                    each.object_changed(document)

    def object_gone(self, document: Document) -> None:
        for each in self.all:
            if document.kind in each.follows:
                with _guarded(document):
                    each.object_gone(document)

    def report_enqueued(self, report: Report) -> None:
        """The link to GM is notified as well."""


@contextmanager
def _guarded(document: Document) -> Iterator[None]:
    """One bad object stops nothing."""
    try:
        yield
    except UNFORESEEN:
        logger.exception("an object cannot be worked on", extra=fields(object=str(document.key)))
