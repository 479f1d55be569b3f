"""What the project has promised to reach, row by row, and what Sedna's own binaries reached.

Pure. Each number stands here once, beside the row that it judges. Sedna's were measured earlier, on
a machine of two cores like those that this benchmark is made for.
"""

from edge_sidecars.runtime.cli.values import seconds
from elector_sidecar.core.timing import TAKEOVER_JITTER
from tools.bench import pages
from tools.bench.gm.scenarios import (
    crowd,
    datasets,
    failover,
    jobs,
    latency,
    reconnect,
    shards,
    storm,
)
from tools.bench.samples import REFERENCE, Results
from tools.bench.table import Row, ratio_row, row
from tools.bench.target import at_least, at_most, never_above
from tools.harness.pods.gm import LEASE_FLAGS
from tools.harness.pods.system import MODES


def rows(results: Results) -> list[Row]:
    """Only those of the scenarios that were played."""
    return [
        *_datasets(results),
        *pages.rows(results),
        *_jobs(results),
        *_shards(results),
        *_crowd(results),
        *_latencies(results),
        *_failovers(results),
        *_reconnects(results),
        *_storms(results),
    ]


NONE = never_above(0)


def _datasets(results: Results) -> list[Row]:
    found = []
    values = results.values
    if results.has(datasets.BURST):
        lost = values(datasets.BURST, "lost")
        what = "1000 datasets from 8 clients: lost"
        found.append(row(what, "", lost, peers="6 for 23 s", target=NONE))
        found.append(row("  from the first to the last", "s", values(datasets.BURST, "seconds")))
    if results.has(datasets.DELETIONS):
        left = values(datasets.DELETIONS, "left")
        what = "100 deleted while GM was down: left"
        found.append(row(what, "", left, peers="all, for ever", target=NONE))
        for metric, told in (("after_connect", "connect"), ("after_start", "GM's start")):
            seconds = values(datasets.DELETIONS, metric)
            found.append(row(f"  gone after the {told}", "s", seconds))
    for way, name in datasets.RESTARTS.items():
        if results.has(name):
            what = f"LC restarted {way}: full of 1000 datasets after"
            sedna, full = "38 s" if way == "online" else "never", values(name, "full")
            found.append(row(what, "s", full, peers=sedna, target=at_most(1, "s")))
            found.append(row("  missing", "", values(name, "missing"), target=NONE))
    if results.has(datasets.STATUSES):
        rates = values(datasets.STATUSES, "per_second")
        found.append(row("statuses", "/s", rates, peers="2.5 /s", target=at_least(100, "/s")))
    for mode, name in datasets.IDLE.items():
        if results.has(name):
            what = f"1000 datasets at rest on a node, {mode}"
            rates, target = values(name, "bytes_per_second"), at_most(200, "B/s")
            found.append(row(what, "B/s", rates, peers="24000 B/s", target=target))
    if results.has(datasets.MEMORY):
        what = "LC, 1000 datasets of 1000 lines: RSS"
        rss, failures = values(datasets.MEMORY, "rss"), values(datasets.MEMORY, "failures")
        found.append(row(what, "MiB", rss, peers="395 MB", target=never_above(80, "MiB")))
        found.append(row("  failed writes", "", failures, peers="554", target=NONE))
    return found


# Jobs a second, and what Sedna's GM made.
RATES = {jobs.IL: (20, "0.85 /s"), jobs.FL: (10, "0.43 /s")}
OF_BARE = at_least(0.6, "x")


def _jobs(results: Results) -> list[Row]:
    found = []
    values = results.values
    for kind, (rate, sedna) in RATES.items():
        if results.has(kind.scenario):
            ours = values(kind.scenario, "per_second")
            target = at_least(rate, "/s")
            found.append(
                row(f"{kind.short} jobs through GM", "/s", ours, peers=sedna, target=target)
            )
            bare = values(kind.scenario, "per_second", side=REFERENCE)
            found.append(ratio_row("  beside a bare loop", "/s", ours, bare, target=OF_BARE))
    if results.has(jobs.LOST):
        lost = values(jobs.LOST, "lost")
        what = "1000 federated jobs from 8 clients: lost"
        found.append(row(what, "", lost, peers="5 for good", target=NONE))
        found.append(row("  from the first to the last", "s", values(jobs.LOST, "seconds")))
    if results.has(jobs.DOUBLED):
        doubled = values(jobs.DOUBLED, "doubled")
        what = "1000 jobs, 3 GMs killed and frozen: doubled"
        found.append(row(what, "", doubled, peers="75 % of fl, all il", target=NONE))
        found.append(row("  lost", "", values(jobs.DOUBLED, "lost"), target=NONE))
        found.append(row("  faults meanwhile", "", values(jobs.DOUBLED, "faults")))
    return found


# Of the processor time that a leader takes.
OF_LEADER = at_most(0.45, "x")


def _shards(results: Results) -> list[Row]:
    name = shards.SHARES
    if not results.has(name):
        return []

    def beside(what: str, metric: str, unit: str = "s") -> Row:
        ours = results.values(name, metric)
        return row(what, unit, ours, results.values(name, metric, side=REFERENCE))

    busiest = results.values(name, "busiest")
    leader = results.values(name, "busiest", side=REFERENCE)
    what = "1000 jobs, 3 GMs with shards: processor time of the busiest"
    return [
        ratio_row(what, "s", busiest, leader, target=OF_LEADER),
        beside("  of all three", "all"),
        beside("  of the busiest with its sidecars", "pod"),
        beside("  from the first job to the last", "seconds"),
        row("  lost", "", results.values(name, "lost"), target=NONE),
        row("  doubled", "", results.values(name, "doubled"), target=NONE),
    ]


# MiB of a GM: at rest; with all LCs.
AT_REST, WITH_LCS = 100, 150


def _crowd(results: Results) -> list[Row]:
    if not results.has(crowd.CROWD):
        return []
    rss = {
        key: results.values(crowd.CROWD, key)
        for key in ("idle", "objects", "connected", "seconds", "missing")
    }
    target, full = never_above(AT_REST, "MiB"), never_above(WITH_LCS, "MiB")
    return [
        row("GM at rest: RSS", "MiB", rss["idle"], peers="39-45 MB", target=target),
        row("  with 10000 objects", "MiB", rss["objects"], peers="58 MB at 1000"),
        row("  and 1000 LCs connected", "MiB", rss["connected"], target=full),
        row("  1000 LCs at once: all served after", "s", rss["seconds"]),
        row("  objects they lack", "", rss["missing"], target=NONE),
    ]


# Milliseconds from the request that creates a dataset, and what Sedna's LC took.
LATENCIES = {"active-standby": (10, "4.2 ms"), "relay": (50, "")}


def _latencies(results: Results) -> list[Row]:
    found = []
    for mode, (limit, sedna) in LATENCIES.items():
        name = latency.LATENCIES[mode]
        if results.has(name):
            what, target = f"Dataset created, LC has it, {mode}: p50", at_most(limit, "ms")
            p50 = results.values(name, "p50")
            found.append(row(what, "ms", p50, peers=sedna, target=target))
            found.append(row("  p99", "ms", results.values(name, "p99")))
    return found


# Seconds: after a graceful stop; beyond what the Lease takes after a crash.
STOPPED, BEYOND_LEASE = 2.0, 3.0


def lease_bound() -> float:
    """Seconds from a crash to the next leader, at most, as the fleets' electors are told."""
    return seconds(LEASE_FLAGS[LEASE_FLAGS.index("--lease-duration") + 1]) + TAKEOVER_JITTER


def _failovers(results: Results) -> list[Row]:
    found = []
    limits = {failover.STOPPED: STOPPED, failover.KILLED: lease_bound() + BEYOND_LEASE}
    for mode in MODES:
        for way, limit in limits.items():
            name = failover.scenario(mode, way)
            if results.has(name):
                served, target = results.values(name, "served"), at_most(limit, "s")
                what = f"GM {way}, {mode}: LCs served again"
                found.append(row(what, "s", served, peers="by hand", target=target))
                found.append(row("  jobs go on", "s", results.values(name, "acts")))
    return found


# Seconds after the only GM listens again; connections that one GM takes in a second.
AFTER_START, TAKEN = 8.0, 500


def _reconnects(results: Results) -> list[Row]:
    found = []
    lease = seconds(LEASE_FLAGS[LEASE_FLAGS.index("--lease-duration") + 1])
    for name, what, limit in (
        (reconnect.RESTARTED, "GM killed and started after 1 s: all served", AFTER_START),
        (reconnect.TAKEN_OVER, "leader of three killed: all served", lease + BEYOND_LEASE),
    ):
        if results.has(name):
            served, taken = results.values(name, "served"), results.values(name, "most_taken")
            target, bound = at_most(limit, "s"), never_above(TAKEN, "/s")
            found.append(row(f"1000 LCs, {what}", "s", served, target=target))
            found.append(row("  connections in a second at a GM", "/s", taken, target=bound))
            reports = results.values(name, "reports")
            found.append(row("  reports acknowledged meanwhile", "", reports))
    return found


def _storms(results: Results) -> list[Row]:
    found = []
    for mode in MODES:
        name = storm.scenario(mode)
        if results.has(name):
            what = (
                f"{storm.JOBS} jobs on {storm.NODES_OF_A_JOB} of {storm.NODES} nodes, {mode}: "
                "all links, of a change"
            )
            ours = results.values(name, "bytes_per_change")
            everything = results.values(name, "bytes_per_change", side=REFERENCE)
            found.append(row(what, "B", ours, everything))
    return found
