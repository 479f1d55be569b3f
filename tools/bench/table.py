"""The table: what was measured beside a reference, what peers reached, and what is promised.

Pure. Guarantee: a row with a target is judged from the samples alone; what is promised as a ratio
is judged by the ratio within each run; without samples it counts as not reached.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tools.bench.figures import NOT_MEASURED, columns, number, spread
from tools.bench.target import Target

_VERDICTS = {None: "", True: "yes", False: "NO"}


@dataclass(frozen=True)
class Row:
    """`peers`: what programs that do the same reached, measured earlier on a machine of this kind;
    `is_met` is None where nothing is promised."""

    what: str
    ours: str
    reference: str
    ratio: str
    peers: str
    target: str
    is_met: bool | None


@dataclass(frozen=True)
class Heads:
    """Of the columns; a column without a head is left out."""

    ours: str
    reference: str = ""
    peers: str = ""


def row(
    what: str,
    unit: str,
    ours: Sequence[float],
    reference: Sequence[float] = (),
    *,
    peers: str = "",
    target: Target | None = None,
    is_paired: bool = True,
) -> Row:
    """Judged by our values. Where samples of the same index are not of one run (`is_paired`), the
    ratio is that of the medians."""
    is_met = None if target is None else bool(ours) and target.is_reached(ours)
    if is_paired:
        ratios = _ratios(ours, reference)
    else:
        ratios = _ratios([median(ours)], [median(reference)]) if ours and reference else []
    cells = spread(ours, unit), spread(reference, unit), _ratio(ratios)
    return Row(what, *cells, peers, target.text if target else "", is_met)


def ratio_row(
    what: str,
    unit: str,
    ours: Sequence[float],
    reference: Sequence[float],
    *,
    peers: str = "",
    target: Target,
) -> Row:
    """Judged by the ratios, run by run."""
    ratios = _ratios(ours, reference)
    is_met = bool(ratios) and target.is_reached(ratios)
    cells = spread(ours, unit), spread(reference, unit), _ratio(ratios)
    return Row(what, *cells, peers, f"{target.text} reference", is_met)


def count_row(
    what: str, ours: Sequence[float], reference: Sequence[float], *, target: Target
) -> Row:
    """In how many runs something was so (values are truths)."""
    is_met = bool(ours) and target.is_reached(ours)
    return Row(what, _runs(ours), _runs(reference), NOT_MEASURED, "", target.text, is_met)


def table(rows: Sequence[Row], heads: Heads) -> str:
    has_reference, has_peers = bool(heads.reference), bool(heads.peers)

    def cells(what: str, ours: str, beside: tuple[str, str], peers: str, *rest: str) -> list[str]:
        return [what, ours, *beside * has_reference, *[peers] * has_peers, *rest]

    header = cells("", heads.ours, (heads.reference, "ratio"), heads.peers, "to reach", "reached")
    lines = [
        cells(it.what, it.ours, (it.reference, it.ratio), it.peers, it.target, _VERDICTS[it.is_met])
        for it in rows
    ]
    return columns(header, lines)


def _runs(values: Sequence[float]) -> str:
    return f"{sum(map(bool, values))} of {len(values)} runs" if values else NOT_MEASURED


def _ratios(ours: Sequence[float], reference: Sequence[float]) -> list[float]:
    return [mine / other for mine, other in zip(ours, reference, strict=False) if other]


def _ratio(ratios: Sequence[float]) -> str:
    return f"{number(median(ratios))}x" if ratios else NOT_MEASURED
