"""What the project has promised to reach, row by row, and what Sedna's own binaries reached.

Pure. Each number stands here once, beside the row that it judges. Sedna's were measured earlier, on
a machine of two cores like those that this benchmark is made for.
"""

from bench.gm import datasets
from bench.gm.result import Results
from bench.gm.rows import Row, row
from bench.target import at_least, at_most, never_above


def rows(results: Results) -> list[Row]:
    """Only those of the scenarios that were played."""
    return [
        *_datasets(results),
    ]


NONE = never_above(0)


def _datasets(results: Results) -> list[Row]:
    found = []
    values = results.values
    if results.has(datasets.BURST):
        lost = values(datasets.BURST, "lost")
        what = "1000 datasets from 8 clients: lost"
        found.append(row(what, "", lost, sedna="6 for 23 s", target=NONE))
        found.append(row("  from the first to the last", "s", values(datasets.BURST, "seconds")))
    if results.has(datasets.DELETIONS):
        left = values(datasets.DELETIONS, "left")
        what = "100 deleted while GM was down: left"
        found.append(row(what, "", left, sedna="all, for ever", target=NONE))
        for metric, told in (("after_connect", "connect"), ("after_start", "GM's start")):
            seconds = values(datasets.DELETIONS, metric)
            found.append(row(f"  gone after the {told}", "s", seconds))
    for way, name in datasets.RESTARTS.items():
        if results.has(name):
            what = f"LC restarted {way}: full of 1000 datasets after"
            sedna, full = "38 s" if way == "online" else "never", values(name, "full")
            found.append(row(what, "s", full, sedna=sedna, target=at_most(1, "s")))
            found.append(row("  missing", "", values(name, "missing"), target=NONE))
    if results.has(datasets.STATUSES):
        rates = values(datasets.STATUSES, "per_second")
        found.append(row("statuses", "/s", rates, sedna="2.5 /s", target=at_least(100, "/s")))
    for mode, name in datasets.IDLE.items():
        if results.has(name):
            what = f"1000 datasets at rest on a node, {mode}"
            rates, target = values(name, "bytes_per_second"), at_most(200, "B/s")
            found.append(row(what, "B/s", rates, sedna="24000 B/s", target=target))
    if results.has(datasets.MEMORY):
        what = "LC, 1000 datasets of 1000 lines: RSS"
        rss, failures = values(datasets.MEMORY, "rss"), values(datasets.MEMORY, "failures")
        found.append(row(what, "MiB", rss, sedna="395 MB", target=never_above(80, "MiB")))
        found.append(row("  failed writes", "", failures, sedna="554", target=NONE))
    return found
