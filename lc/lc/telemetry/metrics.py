"""What is measured about one LC, computed at the scrape from its status."""

from collections import Counter
from collections.abc import Iterable

from edge_sidecars.runtime.metrics import Kind, Metric
from lc.telemetry.status import LcStatus


def measure(status: LcStatus) -> list[Metric]:
    reports, store, counters = status.reports, status.store, status.counters
    kinds = sorted(Counter(each.kind for each in status.objects).items())
    answers = sorted(counters.worker_reports)
    return [
        _gauge("lc_link_up", "1 if GM, or the relay, is connected.", status.link.is_up),
        _gauge("lc_link_seconds", "Seconds in the present state of the link.", status.link_for),
        _labelled(Kind.GAUGE, "lc_objects", "Objects that concern this node.", "kind", kinds),
        _gauge("lc_reports_waiting", "Reports that are not acknowledged yet.", reports.waiting),
        _gauge(
            "lc_reports_oldest_seconds",
            "Age of the oldest report that waits; 0 if none does.",
            reports.oldest or 0.0,
        ),
        _counter(
            "lc_reports_refused_total", "Reports that were refused for good.", reports.refused
        ),
        _gauge(
            "lc_reports_of_unknown_jobs",
            "Reports of workers whose job is not known yet.",
            reports.of_unknown_jobs,
        ),
        _labelled(
            Kind.COUNTER,
            "lc_reports_of_unknown_jobs_dropped_total",
            "Those that were dropped, by reason: full, expired, unfit.",
            "reason",
            counters.unknown_jobs_dropped,
        ),
        _labelled(
            Kind.COUNTER,
            "lc_worker_requests_total",
            "What workers said, by the status they were answered.",
            "status",
            [(str(code), count) for code, count in answers],
        ),
        _counter("lc_dataset_counts_total", "Counts of datasets.", counters.dataset_counts),
        _gauge(
            "lc_dataset_problems", "Datasets that cannot be counted now.", counters.dataset_problems
        ),
        _counter(
            "lc_store_failures_total", "Groups of changes the disk did not take.", store.failures
        ),
        _gauge("lc_store_failing", "1 if the disk took no changes last.", bool(store.failure)),
        _gauge(
            "lc_store_set_aside",
            "1 if a broken store was set aside at the start.",
            bool(store.note),
        ),
    ]


def _gauge(name: str, text: str, value: float) -> Metric:
    return Metric(name, Kind.GAUGE, text, (({}, float(value)),))


def _counter(name: str, text: str, value: float) -> Metric:
    return Metric(name, Kind.COUNTER, text, (({}, float(value)),))


def _labelled(
    kind: Kind, name: str, text: str, label: str, samples: Iterable[tuple[str, int]]
) -> Metric:
    return Metric(
        name, kind, text, tuple(({label: value}, float(count)) for value, count in samples)
    )
