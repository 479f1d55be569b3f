"""The manager of services and federated jobs: what their workers say goes to GM, nothing else.

Owns which kinds are forwarded and in which words (prior art 4). All of it is cumulative: the newest
word of a worker counts.
"""

import asyncio
from collections.abc import Mapping

from edge_sidecars.sedna_api.core.api_object import Document, ObjectKey
from edge_sidecars.sedna_api.core.kinds import (
    FEATURE_EXTRACTION_SERVICE,
    FEDERATED_LEARNING_JOB,
    JOINT_INFERENCE_SERVICE,
)
from edge_sidecars.sedna_api.core.report import MAX_BODY, check_body
from lc.core.learning.commands import Body, encoded
from lc.core.worker_info import UnusableReport, WorkerInfo
from lc.store import Store

FEDERATED = FEDERATED_LEARNING_JOB.singular
# Their metrics become the status of the service; models they have none to tell of.
SERVICES = frozenset({JOINT_INFERENCE_SERVICE.singular, FEATURE_EXTRACTION_SERVICE.singular})
FORWARDED = SERVICES | {FEDERATED}


def map_report(info: WorkerInfo) -> bytes:
    """For a kind in FORWARDED. Raises UnusableReport for what GM could not take."""
    body: Body
    if info.owner_kind == FEDERATED:
        body = {"phase": info.kind or "train", "status": info.status, "output": info.output}
    else:
        body = {"phase": info.kind or "inference", "output": {"ownerInfo": info.owner_info or {}}}
    report = encoded(body)
    if len(report) > MAX_BODY:
        raise UnusableReport(f"{len(report)} bytes are too much: at most {MAX_BODY} are reported")
    return report


class Forwarder:
    """A manager."""

    handles = FORWARDED
    # The worker API finds the object itself.
    follows: frozenset[str] = frozenset()

    def __init__(self, store: Store) -> None:
        self._store = store

    def object_changed(self, document: Document) -> None:
        """Nothing here depends on objects."""

    def object_gone(self, document: Document) -> None:
        """Its reports leave with it."""

    def check(self, info: WorkerInfo) -> None:
        check_body(map_report(info))

    async def worker_reported(self, info: WorkerInfo, document: Document) -> None:
        body = map_report(info)
        await self._store.enqueue(document, is_event=False, worker=info.name, body=body)

    def notes(self) -> Mapping[ObjectKey, str]:
        return {}

    async def run(self) -> None:
        """It does nothing by itself, until cancelled."""
        await asyncio.get_running_loop().create_future()
