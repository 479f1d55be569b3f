"""Tables of the documents are what the source says, with the prose that stood there."""

import re
from pathlib import Path

import pytest

from tests.unit.repository.checkout import DOCUMENTS, ROOT, document
from tools.docs import interface
from tools.docs.reasons import is_same
from tools.docs.source import PROGRAMS, flags, logged, metrics
from tools.docs.tables import TABLES, Table, documents, page_of

PAGES = {name: document(name) for name in DOCUMENTS if name.startswith("docs/")}
# What each program has at least, so that nothing passes because nothing was found.
LEAST = {
    "elector": (26, 8, 12),
    "relay": (27, 20, 20),
    "pool-controller": (8, 12, 8),
    "pool": (20, 7, 12),
    "gm": (19, 15, 25),
    "lc": (20, 14, 15),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_flags_metrics_and_messages_of_each_program_are_found(name: str) -> None:
    program = PROGRAMS[name]
    found = (
        len(list(flags(program))),
        len(list(metrics(ROOT, program))),
        len({it.message for it in logged(ROOT, program) if it.level != "debug"}),
    )
    assert all(each >= least for each, least in zip(found, LEAST[name], strict=True)), found


def test_every_generated_row_says_what_it_means() -> None:
    for table in TABLES:
        for row in _rows(table):
            assert any(row[table.meaning :]), row


@pytest.mark.parametrize("table", TABLES, ids=lambda it: it.name)
def test_a_row_that_is_gone_goes_and_a_missing_one_comes(table: Table) -> None:
    rows = _rows(table)
    assert len(rows) > 3
    gone = ["`--gone_flag nobody has`"] * len(rows[0])
    made = list(table.rows(ROOT, [gone, *rows[1:]]))
    assert gone not in made
    assert all(row in made for row in rows[1:])
    named = [name for row in made for cell in row for name in re.findall(r"`([^`]+)`", cell)]
    for missing in re.findall(r"`([^`]+)`", rows[0][0]):
        assert any(is_same(missing, it) for it in named)


@pytest.mark.parametrize("pages", [0, 2])
def test_a_table_that_is_not_in_one_page_is_refused(tmp_path: Path, pages: int) -> None:
    for number in range(pages):
        page = tmp_path / "docs" / "reference" / f"{number}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / page_of(TABLES[0], PAGES)).read_text(encoding="utf-8")
        page.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"generated: elector flags .* not in one page"):
        documents(tmp_path)


def test_the_recorded_interface_has_flags_variables_metrics_logs_and_sql() -> None:
    lines = interface.text(ROOT).splitlines()
    for start in (
        "elector flag --lease NAME (ELECTOR_LEASE): ",
        "relay metric relay_link_up gauge: ",
        'log info "became leader" ',
        "sql CREATE TABLE ",
        "variable POD_NAME",
    ):
        assert any(line.startswith(start) for line in lines), start


def _rows(table: Table) -> list[list[str]]:
    text = PAGES[page_of(table, PAGES)]
    begin = text.index(f"<!-- generated: {table.name} -->")
    lines = text[begin : text.index("<!-- end of generated -->", begin)].strip().splitlines()[2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", it)[1:-1]] for it in lines[2:]]
