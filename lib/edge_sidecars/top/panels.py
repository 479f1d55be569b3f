"""What drawings in a terminal are made of: lines, facts, tables, bars, strips of time.

Guarantee: what a document says is text, never markup of rich and never a control character, so that
a name cannot move the cursor or change the terminal.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from edge_sidecars.runtime.cli.status_command import age as whole_age
from edge_sidecars.runtime.formats import rfc3339

GOOD, WARN, BAD, FAINT = "green", "yellow", "red", "dim"
# Rows of one table: others are counted.
MOST_ROWS: Final = 8
# Cells of a strip of time, and of a bar.
STRIP: Final = 60
BAR: Final = 30
# Each state of a strip has a character of its own, for terminals without colours.
UP, DOWN, UNKNOWN = ("▁", GOOD), ("█", BAD), ("·", FAINT)

Fact = tuple[str, object]


@dataclass(frozen=True)
class Span:
    """In seconds, with its character and style."""

    begin: float
    end: float
    cell: tuple[str, str]


def clean(value: object) -> str:
    """On one line, without what a terminal obeys or does not show."""
    shown = "yes" if value is True else "no" if value is False else "-" if value is None else value
    return "".join(
        each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in str(shown)
    )


def line(value: object, style: str = "") -> Text:
    return Text(clean(value), style, overflow="fold")


def headline(value: object, style: str) -> Text:
    return line(value, f"bold {style}")


def facts(rows: Iterable[Fact]) -> Table:
    """Without those whose value is None or ""."""
    it = Table.grid(padding=(0, 2))
    it.add_column(style=FAINT, no_wrap=True)
    it.add_column(overflow="fold")
    for name, value in rows:
        if value is not None and value != "":
            it.add_row(clean(name), value if isinstance(value, Text) else line(value))
    return it


def table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    it = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=FAINT, expand=False)
    for title in titles:
        it.add_column(title.upper(), overflow="fold")
    for row in rows[:MOST_ROWS]:
        it.add_row(*(cell if isinstance(cell, Text) else line(cell) for cell in row))
    if len(rows) > MOST_ROWS:
        it.add_row(Text(f"and {len(rows) - MOST_ROWS} more", FAINT))
    return it


def bar(label: str, used: float, limit: float, shown: str) -> Table:
    """How much of a budget is used, or of a time is left; `shown`: both, in words."""
    it = Table.grid(padding=(0, 2))
    it.add_row(
        line(label, FAINT),
        ProgressBar(total=limit or 1.0, completed=min(used, limit or 1.0), width=BAR),
        line(shown),
    )
    return it


def strip(begin: float, end: float, spans: Sequence[Span]) -> Text:
    """From left to right; of spans that overlap the last one is seen."""
    cells = [UNKNOWN] * STRIP
    scale = STRIP / max(end - begin, 1e-9)
    for it in spans:
        first = max(int((it.begin - begin) * scale), 0)
        last = max(int((it.end - begin) * scale), first + 1)
        cells[first:last] = [it.cell] * len(cells[first:last])
    found = Text()
    for mark, style in cells:
        found.append(mark, style)
    return found


def age(seconds: float | None) -> str:
    return "-" if seconds is None else whole_age(max(seconds, 0.0))


def size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.1f} {unit}" if unit != "B" and count < 100 else f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def moment(stamp: str | None) -> float | None:
    """Epoch seconds of an RFC 3339 stamp; None for none."""
    found = rfc3339.parse(stamp) if stamp else None
    return None if found is None else found.timestamp()
