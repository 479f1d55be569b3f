"""The table: what was measured, what the open peers reached (measured earlier, on a machine of this
kind), and what is promised. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tools.bench.figures import NOT_MEASURED, columns, number, spread
from tools.bench.node.families import Result
from tools.bench.target import Target, at_most, never_above

MIB = 1024.0 * 1024.0
# Seconds by which a node behind a relay may be Ready later than one without.
LATER = 1.5


@dataclass(frozen=True)
class Row:
    """`peers`: SuperEdge's lite-apiserver and OpenYurt's yurthub; `is_met` None: no promise."""

    what: str
    ours: str
    plain: str
    ratio: str
    peers: str
    target: str
    is_met: bool | None


def rows(results: Sequence[Result]) -> list[Row]:
    found: list[Row] = []
    for it in results:
        if it.family == "reboot":
            found += _reboots(it)
        elif it.family == "heal":
            found += _heals(it)
        elif it.family == "rest":
            found += _rest(it)
    return found


def _reboots(it: Result) -> list[Row]:
    back = it.values("back")
    what = "both nodes rebooted while cut: all pods, Services, names, NodePorts back"
    return [
        _row(what, "s", back, target=at_most(10, "s"), peers="never / never"),
        _row("  the slowest", "s", [max(back)] if back else [], target=never_above(15, "s")),
        _row(
            "  containers that the heal restarted",
            "",
            it.values("restarted"),
            target=never_above(0),
        ),
    ]


def _heals(it: Result) -> list[Row]:
    return [
        _row(
            "one node cut for half a minute, healed: its Lease is renewed",
            "s",
            it.values("renewed"),
            plain=it.values("renewed_plain"),
            target=_beside(it.values("renewed_plain")),
        ),
        _row(
            "one node cut for five minutes, healed: Ready",
            "s",
            it.values("ready"),
            plain=it.values("ready_plain"),
            target=_beside(it.values("ready_plain")),
        ),
        _row("  all good", "s", it.values("good"), target=at_most(10, "s")),
        _row("  containers restarted", "", it.values("restarted"), target=never_above(0)),
    ]


def _beside(plain: Sequence[float]) -> Target:
    """As soon as a node without a relay, and LATER seconds."""
    return at_most(round(median(plain) + LATER, 2) if plain else LATER, "s")


def _rest(it: Result) -> list[Row]:
    ours, plain = it.values("bytes"), it.values("bytes_plain")
    ratios = [mine / other for mine, other in zip(ours, plain, strict=True) if other]
    target = at_most(0.6, "x without a relay")
    return [
        _row(
            "relay at rest, 10 pods, Secrets kept: RSS", "MiB", it.values("rss"), target=at_most(58)
        ),
        _row("  without --keep-secrets", "MiB", it.values("rss_without"), target=at_most(52)),
        _row("  of one core", "%", it.values("processor"), target=at_most(1, "%")),
        _row("  upstream streams", "", it.values("streams")),
        _row("  with 5 or 6 pods", "", it.values("streams_few"), target=at_most(14)),
        Row(
            "  bytes an hour between node and API server",
            spread([each / MIB for each in ours], "MiB"),
            spread([each / MIB for each in plain[:1]], "MiB"),
            f"{number(median(ratios))}x" if ratios else NOT_MEASURED,
            "",
            target.text,
            bool(ratios) and target.is_reached(ratios),
        ),
    ]


def _row(
    what: str,
    unit: str,
    values: Sequence[float],
    *,
    plain: Sequence[float] = (),
    target: Target | None = None,
    peers: str = "",
) -> Row:
    is_met = None if target is None else bool(values) and target.is_reached(values)
    told = target.text if target else ""
    beside = spread(plain, unit) if plain else NOT_MEASURED
    ratio = f"{number(median(values) / median(plain))}x" if values and plain else NOT_MEASURED
    return Row(what, spread(values, unit), beside, ratio, peers, told, is_met)


def table(found: Sequence[Row]) -> str:
    verdict = {None: "", True: "yes", False: "NO"}
    lines = [
        (it.what, it.ours, it.plain, it.ratio, it.peers, it.target, verdict[it.is_met])
        for it in found
    ]
    header = ("", "relay", "no relay", "ratio", "lite-apiserver / yurthub", "to reach", "reached")
    return columns(header, lines)
