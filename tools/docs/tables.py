"""Tables of flags, metrics, log messages and reasons, between markers in some page of the manual.

A row's first columns come from the source. Its other columns are prose, which stays where the row
stays; a new row has the help's text, or nothing, until somebody writes it. Rows of flags and
metrics have the source's order, those of messages and reasons the document's.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tools.docs import reasons
from tools.docs.source import LIBRARY, PROGRAMS, Program, flags, logged, metrics_in, texts

# The pages are below it.
FOLDER = "docs"
_END = "<!-- end of generated -->\n"

Row = list[str]
Rows = Sequence[Row]


@dataclass(frozen=True)
class Table:
    """`rows` makes the new rows of what the page has, which is the one whose markers have `name`;
    the prose begins in column `meaning`."""

    name: str
    rows: Callable[[Path, Rows], Iterable[Row]]
    meaning: int = -1


def _flag_rows(program: Program, _: Path, found: Rows) -> Iterable[Row]:
    known = {row[0]: row for row in found}
    for it in flags(program):
        if len(it.options) > 1:
            continue  # Contrib's, which stand in the text.
        key = f"`{it.options[0]}`"
        prose = known.get(key, [key, "none", it.text])
        yield [key, f"`{it.default}`" if it.default else prose[1], prose[2]]


def _metric_rows(modules: Sequence[str], root: Path, found: Rows) -> Iterable[Row]:
    known = {row[0]: row for row in found}
    for it in (it for module in modules for it in metrics_in(root / module)):
        key = f"`{it.name}`"
        yield [key, it.kind, known.get(key, ["", "", it.text])[2]]


def _message_rows(program: Program, root: Path, found: Rows) -> Iterable[Row]:
    """A row may explain several messages."""
    said = {it.message: None for it in logged(root, program) if it.level != "debug"}
    written = texts(root, program)
    explained = set[str]()
    for row in found:
        named = re.findall(r"`([^`]+)`", row[0])
        messages = [it for it in named if any(text.startswith(it) for text in written)]
        explained.update(messages)
        if messages:
            yield [", ".join(f"`{it}`" for it in messages), *row[1:]]
    for message in said:
        if message not in explained:
            yield [f"`{message}`", *[""] * (len(found[0]) - 1)]


def _reason_rows(
    said: Callable[[Path], Sequence[str]], column: int, root: Path, found: Rows
) -> Iterable[Row]:
    """A row may explain several texts, and one with `…` all that it stands for."""
    texts = said(root)
    explained = set[str]()
    for row in found:
        named = re.findall(r"`([^`]+)`", row[column])
        meant = {it: {text for text in texts if reasons.is_same(it, text)} for it in named}
        explained.update(*meant.values())
        if not named:
            yield row
        elif kept := [f"`{it}`" for it in named if meant[it]]:
            yield [*row[:column], ", ".join(kept), *row[column + 1 :]]
    for text in texts:
        if text not in explained:
            blank = [""] * len(found[0])
            yield [*blank[:column], f"`{text}`", *blank[column + 1 :]]


# What says them, in which column of its table they are, and in which column their meaning is.
_REASONS = {
    "elector reasons": (reasons.elector_reasons, 0, 1),
    "elector causes": (reasons.elector_causes, 0, 1),
    "elector answers": (reasons.elector_answers, 0, 2),
    "relay refusals": (reasons.relay_refusals, 1, 2),
    "relay states": (reasons.relay_states, 0, 1),
}
# Each program's own, and what all of them have.
_METRICS = {
    **{name: [f"{it.package}/{each}" for each in it.metrics] for name, it in PROGRAMS.items()},
    "process": [f"{LIBRARY}/runtime/process_metrics.py"],
    "listener": [f"{LIBRARY}/runtime/web/listener_metrics.py"],
}
TABLES = [
    *(Table(f"{name} flags", partial(_flag_rows, it)) for name, it in PROGRAMS.items()),
    *(Table(f"{name} metrics", partial(_metric_rows, module)) for name, module in _METRICS.items()),
    *(Table(f"{name} messages", partial(_message_rows, it)) for name, it in PROGRAMS.items()),
    *(
        Table(name, partial(_reason_rows, said, column), meaning)
        for name, (said, column, meaning) in _REASONS.items()
    ),
]


def documents(root: Path) -> dict[str, str]:
    """The text of each page with its tables as the source has them. Raises ValueError where not
    exactly one page has the marker of a table."""
    pages = {
        str(it.relative_to(root)): it.read_text(encoding="utf-8")
        for it in sorted((root / FOLDER).rglob("*.md"))
    }
    filled: dict[str, str] = {}
    for table in TABLES:
        name = page_of(table, pages)
        pages[name] = filled[name] = _filled(pages[name], table, root)
    return filled


def page_of(table: Table, pages: Mapping[str, str]) -> str:
    """The page with the table's markers. Raises ValueError where it is not exactly one."""
    found = [name for name, text in pages.items() if _begin(table) in text and _END in text]
    if len(found) != 1:
        raise ValueError(f"{_begin(table).strip()} … {_END.strip()} is in {found}, not in one page")
    return found[0]


def _begin(table: Table) -> str:
    return f"<!-- generated: {table.name} -->\n"


def _filled(text: str, table: Table, root: Path) -> str:
    before, marker, rest = text.partition(_begin(table))
    body, closing, after = rest.partition(_END)
    # A blank line on both sides, or the table is none in Markdown.
    head, ruler, *lines = body.strip().splitlines()
    rows = table.rows(root, [_cells(line) for line in lines])
    made = [head, ruler, *(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows)]
    return before + marker + "\n" + "\n".join(made) + "\n\n" + closing + after


def _cells(line: str) -> Row:
    cells = re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))
    return [cell.strip() for cell in cells]
