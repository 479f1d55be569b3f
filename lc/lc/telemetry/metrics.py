"""What is measured about one LC, computed at the scrape from its status."""

from collections import Counter

from edge_sidecars.runtime.metrics import Metric, counter, gauge
from lc.telemetry.status import LcStatus


def measure(status: LcStatus) -> list[Metric]:
    reports, store, counters = status.reports, status.store, status.counters
    kinds = sorted(Counter(each.kind for each in status.objects).items())
    answers = sorted(counters.worker_reports)
    return [
        gauge("lc_link_up", "1 if GM, or the relay, is connected.", status.link.is_up),
        gauge("lc_link_seconds", "Seconds in the present state of the link.", status.link_for),
        gauge("lc_objects", "Objects that concern this node.", kinds, label="kind"),
        gauge("lc_reports_waiting", "Reports that are not acknowledged yet.", reports.waiting),
        gauge(
            "lc_reports_oldest_seconds",
            "Age of the oldest report that waits; 0 if none does.",
            reports.oldest or 0.0,
        ),
        counter("lc_reports_refused_total", "Reports that were refused for good.", reports.refused),
        gauge(
            "lc_reports_of_unknown_jobs",
            "Reports of workers whose job is not known yet.",
            reports.of_unknown_jobs,
        ),
        counter(
            "lc_reports_of_unknown_jobs_dropped_total",
            "Those that were dropped, by reason: full, expired, unfit.",
            counters.unknown_jobs_dropped,
            label="reason",
        ),
        counter(
            "lc_worker_requests_total",
            "What workers said, by the status they were answered.",
            [(str(code), count) for code, count in answers],
            label="status",
        ),
        counter("lc_dataset_counts_total", "Counts of datasets.", counters.dataset_counts),
        gauge(
            "lc_dataset_problems", "Datasets that cannot be counted now.", counters.dataset_problems
        ),
        counter(
            "lc_store_failures_total", "Groups of changes the disk did not take.", store.failures
        ),
        gauge("lc_store_failing", "1 if the disk took no changes last.", bool(store.failure)),
        gauge(
            "lc_store_set_aside",
            "1 if a broken store was set aside at the start.",
            bool(store.note),
        ),
    ]
