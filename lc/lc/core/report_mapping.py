"""What workers of services and federated jobs say, as GM is told it (prior art 4).

Owns which kinds are forwarded and in which words. All of it is cumulative: the newest word of a
worker counts. Knows neither how it is kept nor who asks.
"""

from dataclasses import dataclass

import msgspec

from edge_sidecars.sedna_api.core.kinds import (
    FEATURE_EXTRACTION_SERVICE,
    FEDERATED_LEARNING_JOB,
    JOINT_INFERENCE_SERVICE,
)
from edge_sidecars.sedna_api.core.report import MAX_BODY
from lc.core.worker_info import UnfitInfo, WorkerInfo

FEDERATED = FEDERATED_LEARNING_JOB.singular
# Their metrics become the status of the service; models they have none to tell of.
SERVICES = frozenset({JOINT_INFERENCE_SERVICE.singular, FEATURE_EXTRACTION_SERVICE.singular})
FORWARDED = SERVICES | {FEDERATED}


@dataclass(frozen=True, slots=True)
class MappedReport:
    worker: str
    body: bytes


def map_report(info: WorkerInfo) -> MappedReport:
    """For a kind in FORWARDED. Raises UnfitInfo for what GM could not take."""
    body: dict[str, object]
    if info.owner_kind == FEDERATED:
        output = {"models": list(info.results), "ownerInfo": info.owner_info}
        body = {"phase": info.kind or "train", "status": info.status, "output": output}
    else:
        body = {"phase": info.kind or "inference", "output": {"ownerInfo": info.owner_info or {}}}
    # The same fact is the same bytes: a repeated report is known by them.
    encoded = msgspec.json.encode(body, order="deterministic")
    if len(encoded) > MAX_BODY:
        raise UnfitInfo(f"{len(encoded)} bytes are too much: at most {MAX_BODY} are reported")
    return MappedReport(info.name, encoded)
