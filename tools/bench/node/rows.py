"""The table: what was measured, what the open peers reached (measured earlier, on a machine of this
kind), and what is promised. Pure."""

from collections.abc import Sequence
from functools import partial
from statistics import median

from tools.bench.samples import Results
from tools.bench.table import Row, ratio_row
from tools.bench.table import row as paired_row
from tools.bench.target import Target, at_most, never_above

MIB = 1024.0 * 1024.0
# Seconds by which a node behind a relay may be Ready later than one without.
LATER = 1.5


# What a node has once is compared with the median of both nodes behind relays.
row = partial(paired_row, is_paired=False)


def rows(results: Results) -> list[Row]:
    """Only those of the families that were played."""
    return [
        *(_reboots(results) if results.has("reboot") else ()),
        *(_heals(results) if results.has("heal") else ()),
        *(_rest(results) if results.has("rest") else ()),
    ]


def _reboots(results: Results) -> list[Row]:
    back = results.values("reboot", "back")
    what = "both nodes rebooted while cut: all pods, Services, names, NodePorts back"
    return [
        row(what, "s", back, target=at_most(10, "s"), peers="never / never"),
        row("  the slowest", "s", [max(back)] if back else [], target=never_above(15, "s")),
        row(
            "  containers that the heal restarted",
            "",
            results.values("reboot", "restarted"),
            target=never_above(0),
        ),
    ]


def _heals(results: Results) -> list[Row]:
    values = partial(results.values, "heal")
    return [
        row(
            "one node cut for half a minute, healed: its Lease is renewed",
            "s",
            values("renewed"),
            values("renewed_plain"),
            target=_beside(values("renewed_plain")),
        ),
        row(
            "one node cut for five minutes, healed: Ready",
            "s",
            values("ready"),
            values("ready_plain"),
            target=_beside(values("ready_plain")),
        ),
        row("  all good", "s", values("good"), target=at_most(10, "s")),
        row("  containers restarted", "", values("restarted"), target=never_above(0)),
    ]


def _beside(plain: Sequence[float]) -> Target:
    """As soon as a node without a relay, and LATER seconds."""
    return at_most(round(median(plain) + LATER, 2) if plain else LATER, "s")


def _rest(results: Results) -> list[Row]:
    values = partial(results.values, "rest")
    ours, plain = values("bytes"), values("bytes_plain")
    return [
        row(
            "relay at rest, 10 pods, Secrets kept: RSS",
            "MiB",
            values("rss"),
            target=at_most(58),
        ),
        row(
            "  without --keep-secrets",
            "MiB",
            values("rss_without"),
            target=at_most(52),
        ),
        row("  of one core", "%", values("processor"), target=at_most(1, "%")),
        row("  upstream streams", "", values("streams")),
        row("  with 5 or 6 pods", "", values("streams_few"), target=at_most(14)),
        ratio_row(
            "  bytes an hour between node and API server",
            "MiB",
            [each / MIB for each in ours],
            [each / MIB for each in plain],
            target=at_most(0.6, "x"),
        ),
    ]
