"""What the project has promised to reach, row by row; times of faults are medians of all runs.

Pure. Each number stands here once, beside the row that it judges.
"""

from functools import partial
from statistics import median

from tools.bench.elector.side import LEASE_DURATION
from tools.bench.samples import OURS, REFERENCE, Results
from tools.bench.table import Row, count_row
from tools.bench.table import row as paired_row
from tools.bench.target import Target, at_most, never_above

# Each side plays at its own pace.
row = partial(paired_row, is_paired=False)

EXPIRY_SLACK = 0.5
# What the checkout is called among the results of the cost family.
CHECKOUT = f"{OURS} (checkout)"


NONE = never_above(0)
ALWAYS, NEVER = Target("always", all), Target("never", lambda values: not any(values))
HALF = Target(">= half of runs", lambda values: 2 * sum(map(bool, values)) >= len(values))
FAST_RELEASE = Target(
    "median <= 0.1 s, max <= 0.3 s", lambda values: median(values) <= 0.1 and max(values) <= 0.3
)

SWITCHED = Target(
    "median <= 0.2 s, max <= 0.5 s", lambda values: median(values) <= 0.2 and max(values) <= 0.5
)
NEARLY_AT_ONCE = never_above(0.2, "s")


def rows(results: Results) -> list[Row]:
    """Only those of the scenarios that were played."""
    return [
        *_takeover(results),
        *_outage(results),
        *_lease(results),
        *_frozen(results),
        *_moves(results),
        *_exclusive(results),
        *_cost(results),
        *_startup(results),
        *_readyz(results),
    ]


def _takeover(results: Results) -> list[Row]:
    found = []
    expiry = at_most(LEASE_DURATION + EXPIRY_SLACK, "s")
    for scenario, what in (
        ("kill", "leader killed (sidecar and main)"),
        ("black-hole", "leader cut off, black hole"),
        ("refused", "leader cut off, refused"),
    ):
        if not results.has(scenario):
            continue
        found.append(row(f"{what}: from then", "s", *results.pair(scenario, "takeover")))
        ours, theirs = results.pair(scenario, "from_renewal")
        what = f"{what}: from the last renewal"
        found.append(row(what, "s", ours, theirs, target=expiry))
    if results.has("kill-main"):
        ours = results.values("kill-main", "takeover")
        theirs = results.values("kill", "takeover", side=REFERENCE)
        what = "only the main killed, health gate on"
        found.append(row(what, "s", ours, theirs, target=at_most(2, "s")))
    if results.has("term-release"):
        ours, theirs = results.pair("term-release", "takeover")
        found.append(row("SIGTERM, with release", "s", ours, theirs, target=FAST_RELEASE))
    if results.has("term-release") or results.values("term-no-release", "takeover", side=REFERENCE):
        ours = results.values("term-release", "takeover")
        theirs = results.values("term-no-release", "takeover", side=REFERENCE)
        found.append(row("SIGTERM (client-go without release)", "s", ours, theirs))
    return found


def _outage(results: Results) -> list[Row]:
    found = []
    for scenario, what in (("api-gone-8s", "API gone for 8 s"), ("api-gone-12s", "... 12 s")):
        if not results.has(scenario):
            continue
        same = results.pair(scenario, "same_leader")
        found.append(count_row(f"{what}: same leader after it", *same, target=ALWAYS))
        kept = results.pair(scenario, "kept")
        found.append(count_row(f"{what}: kept throughout", *kept, target=HALF))
        after = results.pair(scenario, "after_healing")
        what = f"{what}: a leader after healing"
        found.append(row(what, "s", *after, target=never_above(1, "s")))
    return found


def _lease(results: Results) -> list[Row]:
    found = []
    for scenario, what in (("lease-deleted", "deleted"), ("lease-blanked", "blanked")):
        if not results.has(scenario):
            continue
        gaps, kept = results.pair(scenario, "gap"), results.pair(scenario, "kept")
        what = f"Lease {what}, leader alive"
        found.append(row(f"{what}: without a leader", "s", *gaps, target=never_above(0, "s")))
        found.append(count_row(f"{what}: it leads on", *kept, target=ALWAYS))
    if results.has("lease-deleted-leader-dead"):
        pair = results.pair("lease-deleted-leader-dead", "takeover")
        limit = LEASE_DURATION + 1.0
        what = "Lease deleted, leader killed: from then"
        found.append(row(what, "s", *pair, target=at_most(limit, "s")))
    return found


def _frozen(results: Results) -> list[Row]:
    found = []
    for scenario, what in (("frozen", "woken"), ("frozen-cut", "woken, cut off")):
        if not results.has(scenario):
            continue
        stale = results.pair(scenario, "stale_200s")
        found.append(row(f"{what}: stale 200s", "", *stale, target=NONE))
        waited = results.pair(scenario, "stale_waited")
        what_waited = f"{what}: of them waited in the socket"
        found.append(row(what_waited, "", *waited, target=NONE))
        last = results.pair(scenario, "stale_seconds")
        found.append(row(f"{what}: last stale 200 after", "s", *last, target=never_above(0, "s")))
    if results.has("frozen-term"):
        pair = results.pair("frozen-term", "foreign_blanked")
        what = "frozen, SIGTERM queued, woken: foreign Lease blanked"
        found.append(count_row(what, *pair, target=NEVER))
    return found


def _moves(results: Results) -> list[Row]:
    """client-go has nothing of it."""
    found = []
    for scenario, metric, what, target in (
        ("switchover", "gap", "switchover to a named pod: without a leader", SWITCHED),
        ("switchover-to-none", "gap", "... that is gone: without a leader", never_above(3.5, "s")),
        ("hold", "until_free", "hold to no leader, a main that drains at once", NEARLY_AT_ONCE),
        ("hold", "until_led", "resume to a leader", never_above(0.5, "s")),
    ):
        if results.has(scenario):
            found.append(row(what, "s", *results.pair(scenario, metric), target=target))
    if results.has("switchover"):
        pair = results.pair("switchover", "is_where_asked")
        found.append(count_row("switchover: the named pod leads", *pair, target=ALWAYS))
    return found


def _exclusive(results: Results) -> list[Row]:
    """Two holders at once, in every scenario that was played."""
    found = []
    for scenario in results.scenarios():
        ours, theirs = results.pair(scenario, "overlap")
        if not ours and not theirs:
            continue
        seconds = [value * 1000 for value in ours], [value * 1000 for value in theirs]
        what = f"two holders at once: {scenario}"
        if ours:
            found.append(row(what, "ms", *seconds, target=never_above(0, "ms")))
            stale = results.pair(scenario, "stale")
            found.append(row("  200s beside the new leader", "", *stale, target=NONE))
        else:
            found.append(row(what, "ms", *seconds))
    return found


def _cost(results: Results) -> list[Row]:
    found = []
    if results.has("crowd"):
        pair = results.pair("crowd", "requests")
        what = "requests a minute: 50 candidates on one Lease"
        found.append(row(what, "", *pair, target=never_above(100)))
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
        pair, target = results.pair("cost", metric), never_above(limit, unit)
        found.append(row(what, unit, *pair, target=target))
    for metric in ("rss_max", "pss_of_three_max"):
        checkout = results.values("cost", metric, side=CHECKOUT)
        found.append(row(f"  {metric} of a checkout", "MiB", checkout, []))
    return found


def _startup(results: Results) -> list[Row]:
    if not results.has("startup"):
        return []
    first, leading = results.pair("startup", "first_answer"), results.pair("startup", "leading")
    return [
        row("exec to first answer", "s", *first, target=at_most(0.5, "s")),
        row(
            "exec to leading a released Lease",
            "s",
            *leading,
            target=at_most(0.7, "s"),
        ),
        row("CPU until the first answer", "s", *results.pair("startup", "cpu")),
    ]


def _readyz(results: Results) -> list[Row]:
    found = []
    for mode in ("kept", "fresh"):
        if not results.has("readyz"):
            break
        what = f"/readyz at 100/s, connections {mode}"
        found.append(row(f"{what}: p50", "ms", *results.pair("readyz", f"{mode}_p50")))
        p99 = results.pair("readyz", f"{mode}_p99")
        found.append(row(f"{what}: p99", "ms", *p99, target=_within_five(p99[1])))
        found.append(row(f"{what}: max", "ms", *results.pair("readyz", f"{mode}_max")))
    return found


def _within_five(reference: list[float]) -> Target:
    return Target(
        "<= 5 x client-go", lambda ours: bool(reference) and median(ours) <= 5 * median(reference)
    )
