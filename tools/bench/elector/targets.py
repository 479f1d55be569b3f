"""What the project has promised to reach, row by row; times of faults are medians of all runs.

Pure. Each number stands here once, beside the row that it judges.
"""

from collections.abc import Sequence
from statistics import median

from tools.bench.elector.rows import Results, Row, all_at_most, count_row, median_at_most, row
from tools.bench.elector.side import LEASE_DURATION, OURS, THEIRS

EXPIRY_SLACK = 0.5
# What the checkout is called among the results of the cost family.
CHECKOUT = f"{OURS} (checkout)"


def rows(results: Results) -> list[Row]:
    """Only those of the scenarios that were played."""
    return [
        *_takeover(results),
        *_outage(results),
        *_lease(results),
        *_frozen(results),
        *_exclusive(results),
        *_cost(results),
        *_startup(results),
        *_readyz(results),
    ]


def _pair(results: Results, scenario: str, metric: str) -> tuple[list[float], list[float]]:
    return results.values(scenario, OURS, metric), results.values(scenario, THEIRS, metric)


def _takeover(results: Results) -> list[Row]:
    found = []
    expiry = f"<= {LEASE_DURATION + EXPIRY_SLACK:g} s"
    for scenario, what in (
        ("kill", "leader killed (sidecar and main)"),
        ("black-hole", "leader cut off, black hole"),
        ("refused", "leader cut off, refused"),
    ):
        if not results.has(scenario):
            continue
        found.append(row(f"{what}: from then", "s", *_pair(results, scenario, "takeover")))
        ours, theirs = _pair(results, scenario, "from_renewal")
        what = f"{what}: from the last renewal"
        judge = median_at_most(LEASE_DURATION + EXPIRY_SLACK)
        found.append(row(what, "s", ours, theirs, target=expiry, judge=judge))
    if results.has("kill-main"):
        ours = results.values("kill-main", OURS, "takeover")
        theirs = results.values("kill", THEIRS, "takeover")
        what, judge = "only the main killed, health gate on", median_at_most(2.0)
        found.append(row(what, "s", ours, theirs, target="<= 2 s", judge=judge))
    if results.has("term-release"):
        ours, theirs = _pair(results, "term-release", "takeover")
        what, target = "SIGTERM, with release", "median <= 0.1 s, max <= 0.3 s"
        found.append(row(what, "s", ours, theirs, target=target, judge=_is_fast_release))
    if results.has("term-release") or results.values("term-no-release", THEIRS, "takeover"):
        ours = results.values("term-release", OURS, "takeover")
        theirs = results.values("term-no-release", THEIRS, "takeover")
        found.append(row("SIGTERM (client-go without release)", "s", ours, theirs))
    return found


def _is_fast_release(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    return median(ours) <= 0.1 and max(ours) <= 0.3


def _outage(results: Results) -> list[Row]:
    found = []
    for scenario, what in (("api-gone-8s", "API gone for 8 s"), ("api-gone-12s", "... 12 s")):
        if not results.has(scenario):
            continue
        same = _pair(results, scenario, "same_leader")
        found.append(
            count_row(f"{what}: same leader after it", *same, target="always", judge=_always)
        )
        kept = _pair(results, scenario, "kept")
        found.append(
            count_row(f"{what}: kept throughout", *kept, target=">= half of runs", judge=_half)
        )
        after = _pair(results, scenario, "after_healing")
        what = f"{what}: a leader after healing"
        found.append(row(what, "s", *after, target="<= 1 s", judge=all_at_most(1.0)))
    return found


def _always(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    return all(ours)


def _half(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    return 2 * sum(map(bool, ours)) >= len(ours)


def _never(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    return not any(ours)


def _lease(results: Results) -> list[Row]:
    found = []
    for scenario, what in (("lease-deleted", "deleted"), ("lease-blanked", "blanked")):
        if not results.has(scenario):
            continue
        gaps, kept = _pair(results, scenario, "gap"), _pair(results, scenario, "kept")
        what = f"Lease {what}, leader alive"
        judge = all_at_most(0.0)
        found.append(row(f"{what}: without a leader", "s", *gaps, target="0 s", judge=judge))
        found.append(count_row(f"{what}: it leads on", *kept, target="always", judge=_always))
    if results.has("lease-deleted-leader-dead"):
        pair = _pair(results, "lease-deleted-leader-dead", "takeover")
        limit = LEASE_DURATION + 1.0
        what, target = "Lease deleted, leader killed: from then", f"<= {limit:g} s"
        found.append(row(what, "s", *pair, target=target, judge=median_at_most(limit)))
    return found


def _frozen(results: Results) -> list[Row]:
    found = []
    for scenario, what in (("frozen", "woken"), ("frozen-cut", "woken, cut off")):
        if not results.has(scenario):
            continue
        stale = _pair(results, scenario, "stale_200s")
        judge = all_at_most(0.0)
        found.append(row(f"{what}: stale 200s", "", *stale, target="0", judge=judge))
        waited = _pair(results, scenario, "stale_waited")
        what_waited = f"{what}: of them waited in the socket"
        found.append(row(what_waited, "", *waited, target="0", judge=judge))
        last = _pair(results, scenario, "stale_seconds")
        found.append(row(f"{what}: last stale 200 after", "s", *last, target="0 s", judge=judge))
    if results.has("frozen-term"):
        pair = _pair(results, "frozen-term", "foreign_blanked")
        what = "frozen, SIGTERM queued, woken: foreign Lease blanked"
        found.append(count_row(what, *pair, target="never", judge=_never))
    return found


def _exclusive(results: Results) -> list[Row]:
    """Two holders at once, in every scenario that was played."""
    found = []
    for scenario in results.scenarios():
        ours, theirs = _pair(results, scenario, "overlap")
        if not ours and not theirs:
            continue
        seconds = [value * 1000 for value in ours], [value * 1000 for value in theirs]
        what = f"two holders at once: {scenario}"
        if ours:
            judge = all_at_most(0.0)
            found.append(row(what, "ms", *seconds, target="0 ms", judge=judge))
            stale = _pair(results, scenario, "stale")
            found.append(row("  200s beside the new leader", "", *stale, target="0", judge=judge))
        else:
            found.append(row(what, "ms", *seconds))
    return found


def _cost(results: Results) -> list[Row]:
    found = []
    if results.has("crowd"):
        pair = _pair(results, "crowd", "requests")
        what = "requests a minute: 50 candidates on one Lease"
        found.append(row(what, "", *pair, target="<= 100", judge=all_at_most(100.0)))
    if not results.has("cost"):
        return found
    for metric, what, unit, limit in (
        ("requests_leader", "requests a minute: leader", "", 31.0),
        ("requests_standby", "requests a minute: standby", "", 1.0),
        ("cpu_leader", "CPU a minute: leader", "s", 0.15),
        ("cpu_standby", "CPU a minute: standby", "s", 0.15),
        ("rss_max", "RSS, largest of three", "MiB", 42.0),
        ("pss_of_three_max", "PSS of one among three", "MiB", 30.0),
    ):
        pair, judge = _pair(results, "cost", metric), all_at_most(limit)
        target = f"<= {limit:g} {unit}".rstrip()
        found.append(row(what, unit, *pair, target=target, judge=judge))
    for metric in ("rss_max", "pss_of_three_max"):
        checkout = results.values("cost", CHECKOUT, metric)
        found.append(row(f"  {metric} of a checkout", "MiB", checkout, []))
    return found


def _startup(results: Results) -> list[Row]:
    if not results.has("startup"):
        return []
    first, leading = _pair(results, "startup", "first_answer"), _pair(results, "startup", "leading")
    return [
        row("exec to first answer", "s", *first, target="<= 0.5 s", judge=median_at_most(0.5)),
        row(
            "exec to leading a released Lease",
            "s",
            *leading,
            target="<= 0.7 s",
            judge=median_at_most(0.7),
        ),
        row("CPU until the first answer", "s", *_pair(results, "startup", "cpu")),
    ]


def _readyz(results: Results) -> list[Row]:
    found = []
    for mode in ("kept", "fresh"):
        if not results.has("readyz"):
            break
        what = f"/readyz at 100/s, connections {mode}"
        found.append(row(f"{what}: p50", "ms", *_pair(results, "readyz", f"{mode}_p50")))
        p99 = _pair(results, "readyz", f"{mode}_p99")
        found.append(
            row(f"{what}: p99", "ms", *p99, target="<= 5 x client-go", judge=_is_within_five)
        )
        found.append(row(f"{what}: max", "ms", *_pair(results, "readyz", f"{mode}_max")))
    return found


def _is_within_five(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    return bool(theirs) and median(ours) <= 5 * median(theirs)
