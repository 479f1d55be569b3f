"""The table: what was measured beside what the project has promised to reach.

Pure. Guarantee: a row with a target is judged from the samples alone; what was promised as a ratio
is judged by the ratio within each run; without samples it counts as not reached.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tools.bench.figures import NOT_MEASURED, columns, number, spread
from tools.bench.gm.result import OURS, REFERENCE
from tools.bench.target import Target


@dataclass(frozen=True)
class Row:
    """`sedna`: what its own binaries reached, measured earlier on a machine of this kind; `is_met`
    is None where nothing was promised."""

    what: str
    ours: str
    reference: str
    ratio: str
    sedna: str
    target: str
    is_met: bool | None


def row(
    what: str,
    unit: str,
    ours: Sequence[float],
    reference: Sequence[float] = (),
    *,
    sedna: str = "",
    target: Target | None = None,
) -> Row:
    """Judged by our values."""
    is_met = None if target is None else bool(ours) and target.is_reached(ours)
    cells = spread(ours, unit), spread(reference, unit), _ratio(_ratios(ours, reference))
    return Row(what, *cells, sedna, target.text if target else "", is_met)


def ratio_row(
    what: str, unit: str, ours: Sequence[float], reference: Sequence[float], *, target: Target
) -> Row:
    """Judged by the ratios, run by run."""
    ratios = _ratios(ours, reference)
    is_met = bool(ratios) and target.is_reached(ratios)
    cells = spread(ours, unit), spread(reference, unit), _ratio(ratios)
    return Row(what, *cells, "", f"{target.text} reference", is_met)


def _ratios(ours: Sequence[float], reference: Sequence[float]) -> list[float]:
    return [mine / other for mine, other in zip(ours, reference, strict=False) if other]


def _ratio(ratios: Sequence[float]) -> str:
    return f"{number(median(ratios))}x" if ratios else NOT_MEASURED


def table(rows: Sequence[Row]) -> str:
    verdict = {None: "", True: "yes", False: "NO"}
    lines = [
        (
            each.what,
            each.ours,
            each.reference,
            each.ratio,
            each.sedna,
            each.target,
            verdict[each.is_met],
        )
        for each in rows
    ]
    header = ("", OURS, REFERENCE, "ratio", "Sedna (told)", "to reach", "reached")
    return columns(header, lines)
