"""The manager of services and federated jobs: what their workers say goes to GM, nothing else."""

import asyncio
from collections.abc import Mapping

from edge_sidecars.sedna_api.core.api_object import Document, ObjectKey
from edge_sidecars.sedna_api.core.report import check_body
from lc.core.report_mapping import FORWARDED, MappedReport, map_report
from lc.core.worker_info import UnfitInfo, WorkerInfo
from lc.store import Store
from lc.workers.managers import UnusableReport


class Forwarder:
    """A `Manager`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def handles(self) -> frozenset[str]:
        return FORWARDED

    @property
    def follows(self) -> frozenset[str]:
        """The worker API finds the object itself."""
        return frozenset()

    def object_changed(self, document: Document) -> None:
        """Nothing here depends on objects."""

    def object_gone(self, document: Document) -> None:
        """Its reports leave with it."""

    def check(self, info: WorkerInfo) -> None:
        check_body(_mapped(info).body)

    async def worker_reported(self, info: WorkerInfo, document: Document) -> None:
        told = _mapped(info)
        await self._store.enqueue(document, is_event=False, worker=told.worker, body=told.body)

    def notes(self) -> Mapping[ObjectKey, str]:
        return {}

    async def run(self) -> None:
        """It does nothing by itself, until cancelled."""
        await asyncio.get_running_loop().create_future()


def _mapped(info: WorkerInfo) -> MappedReport:
    """Raises UnusableReport."""
    try:
        return map_report(info)
    except UnfitInfo as error:
        raise UnusableReport(str(error)) from error
