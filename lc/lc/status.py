"""The state of this node, as one document: for `lc status`, `/status` and the metrics.

Metrics are computed at the scrape from the same status.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from edge_sidecars.runtime.metrics import Metric, measured

TEXTS = {
    "lc_link_up": "1 if GM, or the relay, is connected.",
    "lc_link_seconds": "Seconds in the present state of the link.",
    "lc_objects{kind}": "Sedna's objects that concern this node.",
    "lc_reports_waiting": "Reports that GM has not acknowledged yet.",
    "lc_reports_oldest_seconds": "Age of the oldest report that waits; 0 if none does.",
    "lc_reports_refused_total": "Reports that GM refused for good.",
    "lc_reports_of_unknown_jobs": "Reports of workers whose job is not known yet.",
    "lc_reports_of_unknown_jobs_dropped_total{reason}": "Reports of unknown jobs that LC dropped, "
    "by reason: full, expired, unfit.",
    "lc_worker_requests_total{status}": "Requests of workers, by the status of the answer.",
    "lc_dataset_counts_total": "Datasets counted.",
    "lc_dataset_problems": "Datasets that cannot be counted now.",
    "lc_store_failures_total": "Failed writes to the disk.",
    "lc_store_failing": "1 if the last write to the disk failed.",
    "lc_store_set_aside": "1 if a broken store was set aside at the start.",
}


class ObjectStatus(msgspec.Struct, frozen=True, rename="camel"):
    """`note`: its state, for people; "" where there is nothing to say."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    note: str


class LinkStatus(msgspec.Struct, frozen=True, rename="camel"):
    """`for_seconds`: in its present state."""

    is_up: bool
    peer: str
    for_seconds: float
    problem: str


class StoreStatus(msgspec.Struct, frozen=True):
    """`note`: what was set aside; `failure`: why the disk takes nothing now; "" for none."""

    directory: str
    id: str
    note: str
    failure: str
    failures: int


class RefusalStatus(msgspec.Struct, frozen=True):
    """A report that GM never takes."""

    kind: str
    namespace: str
    name: str
    uid: str
    seq: int
    reason: str


class ReportsStatus(msgspec.Struct, frozen=True, rename="camel"):
    """`oldest_seconds`: since the oldest that waits was queued, None where none waits.
    `of_unknown_jobs`: those that wait for their job first."""

    waiting: int
    oldest_seconds: float | None
    of_unknown_jobs: int
    refused: int
    refusals: tuple[RefusalStatus, ...]


class TransferStatus(msgspec.Struct, frozen=True):
    """In bytes; `size` None where the server does not tell it."""

    url: str
    done: int
    size: int | None


class LcStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The document, in Kubernetes' camelCase; `objects` by kind and name."""

    node: str
    mode: str
    version: str
    uptime_seconds: float
    link: LinkStatus
    store: StoreStatus
    reports: ReportsStatus
    objects: tuple[ObjectStatus, ...]
    transfers: tuple[TransferStatus, ...]
    # As `listener_metrics.figures` has them.
    listeners: Sequence[Mapping[str, str | int]] = ()


class LcCounters(msgspec.Struct, frozen=True):
    """Since the start: reports of workers, by answer; counts of datasets; reports of unknown jobs
    that were dropped, by reason."""

    worker_reports: tuple[tuple[int, int], ...]
    dataset_counts: int
    dataset_problems: int
    unknown_jobs_dropped: tuple[tuple[str, int], ...]


def measure(status: LcStatus, counters: LcCounters) -> list[Metric]:
    reports, store, link = status.reports, status.store, status.link
    return measured(
        TEXTS,
        {
            "lc_link_up": link.is_up,
            "lc_link_seconds": link.for_seconds,
            "lc_objects": sorted(Counter(each.kind for each in status.objects).items()),
            "lc_reports_waiting": reports.waiting,
            "lc_reports_oldest_seconds": reports.oldest_seconds or 0.0,
            "lc_reports_refused_total": reports.refused,
            "lc_reports_of_unknown_jobs": reports.of_unknown_jobs,
            "lc_reports_of_unknown_jobs_dropped_total": counters.unknown_jobs_dropped,
            "lc_worker_requests_total": [(str(code), it) for code, it in counters.worker_reports],
            "lc_dataset_counts_total": counters.dataset_counts,
            "lc_dataset_problems": counters.dataset_problems,
            "lc_store_failures_total": store.failures,
            "lc_store_failing": bool(store.failure),
            "lc_store_set_aside": bool(store.note),
        },
    )
