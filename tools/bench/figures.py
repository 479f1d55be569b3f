"""Figures in the cells of a table: a median with its range, a ratio, columns as wide as needed.

Pure. Guarantee: what was not measured says so.
"""

from collections.abc import Sequence
from statistics import median

NOT_MEASURED = "-"


def spread(values: Sequence[float], unit: str) -> str:
    """Median, and the range where there is more than one value."""
    if not values:
        return NOT_MEASURED
    middle = f"{number(median(values))} {unit}".rstrip()
    if len(values) == 1:
        return middle
    return f"{middle} ({number(min(values))}..{number(max(values))}, n={len(values)})"


def number(value: float) -> str:
    """Three digits that count."""
    if value == 0 or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def columns(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, with a rule below the header."""
    all_lines = [header, *lines]
    widths = [max(len(line[column]) for line in all_lines) for column in range(len(header))]
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in all_lines
    ]
    rule = "  ".join("-" * width for width in widths)
    return "\n".join([text[0], rule, *text[1:]])
