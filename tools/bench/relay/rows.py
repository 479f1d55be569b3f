"""The table: what was measured beside what the project has promised to reach.

Pure. Guarantee: a row with a target is judged from the samples alone; what was promised as a
ratio is judged by the ratio within each run; without samples it counts as not reached.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tools.bench.figures import NOT_MEASURED, columns, number, spread
from tools.bench.relay.result import DIRECT, RELAY
from tools.bench.target import Target

PEERS = "lite-apiserver | yurthub"
NOT_TOLD = ""


@dataclass(frozen=True)
class Row:
    """`peers`: what those reached that do the same, measured earlier on a machine of this kind;
    `is_met` is None where nothing was promised."""

    what: str
    relay: str
    direct: str
    ratio: str
    peers: str
    target: str
    is_met: bool | None


def row(
    what: str,
    unit: str,
    ours: Sequence[float],
    theirs: Sequence[float] = (),
    *,
    peers: str = NOT_TOLD,
    target: Target | None = None,
) -> Row:
    """Judged by our values."""
    is_met = None if target is None else bool(ours) and target.is_reached(ours)
    ratio = _ratio([mine / other for mine, other in zip(ours, theirs, strict=False) if other])
    text = target.text if target else ""
    return Row(what, spread(ours, unit), spread(theirs, unit), ratio, peers, text, is_met)


def ratio_row(
    what: str,
    unit: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    peers: str = NOT_TOLD,
    target: Target,
) -> Row:
    """Judged by the ratios, run by run."""
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=False) if other]
    is_met = bool(ratios) and target.is_reached(ratios)
    cells = spread(ours, unit), spread(theirs, unit), _ratio(ratios)
    return Row(what, *cells, peers, f"{target.text} direct", is_met)


def _ratio(ratios: Sequence[float]) -> str:
    return f"{number(median(ratios))}x" if ratios else NOT_MEASURED


def table(rows: Sequence[Row]) -> str:
    verdict = {None: "", True: "yes", False: "NO"}
    lines = [
        (
            each.what,
            each.relay,
            each.direct,
            each.ratio,
            each.peers,
            each.target,
            verdict[each.is_met],
        )
        for each in rows
    ]
    header = ("", RELAY, f"{DIRECT} itself", "ratio", PEERS, "to reach", "reached")
    return columns(header, lines)
