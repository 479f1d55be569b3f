"""The pages on modes and security are true of manifests and programs; each page is found."""

import re
from argparse import ArgumentParser

from edge_sidecars.top.top_command import parser as top
from elector_sidecar.config.config import parser as elector
from gm.config.config import parser as gm
from lc.config.config import parser as lc
from lc.store.database import NAME as STORE
from pool_sidecar.config.member_config import parser as pool
from relay_sidecar.config.config import parser as relay
from relay_sidecar.journal.database import NAME as JOURNAL
from tests.unit.manifests.built import OVERLAYS
from tests.unit.repository.checkout import DOCUMENTS, ROOT, document, rows
from tools.bench.elector.bench import BENCH as OF_ELECTOR
from tools.bench.gm.bench import BENCH as OF_GM
from tools.bench.node.bench import BENCH as OF_NODE
from tools.bench.relay.bench import BENCH as OF_RELAY

SECURITY, MODES = "docs/explanation/security.md", "docs/explanation/modes.md"
RECORDS = "docs/explanation/decisions"
KINDS = ("tutorials", "how-to", "reference", "explanation")
PARSERS: dict[str, ArgumentParser] = {
    "elector": elector(),
    "relay": relay(),
    "pool": pool(),
    "gm": gm(),
    "lc": lc(),
    "top": top(),
}
# Where something listens, but for those whose name says so.
LISTENERS = {
    ("elector", "--http"),
    ("relay", "--endpoint-view"),
    ("lc", "--bind-port"),
    ("pool", "--lan-port"),
}
BENCHES = {
    "bench": set(OF_ELECTOR.families),
    "bench-relay": set(OF_RELAY.families),
    "bench-gm": set(OF_GM.families),
    "bench-node": set(OF_NODE.families),
}


def test_the_readme_leads_to_each_page_at_once() -> None:
    linked = {target.partition("#")[0] for target in _links("README.md")}
    pages = {name for name in DOCUMENTS if name.startswith("docs/")}
    assert len(pages) > 8
    records = {name for name in pages if name.startswith(f"{RECORDS}/")}
    assert len(records) > 12
    assert pages - records <= linked
    index = {f"{RECORDS}/{target}" for target in _links(f"{RECORDS}/index.md")}
    assert records - {f"{RECORDS}/index.md"} == index


def test_the_readme_is_read_at_one_sitting() -> None:
    assert len(document("README.md").splitlines()) <= 200


def _links(name: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", document(name))


# ── security ──


def _listeners() -> dict[tuple[str, str], str]:
    """By program and flag, what the first line of its help says of the default."""
    found = {}
    for program, parser in PARSERS.items():
        for action in parser._actions:
            for flag in action.option_strings:
                if flag.endswith("listen") or (program, flag) in LISTENERS:
                    found[program, flag] = action.help or ""
    return found


def test_every_listener_is_told_and_no_other() -> None:
    told = [cells[0].split() for cells in rows(SECURITY, "What listens where")]
    named = {(program, flag.strip("`")) for program, flag in told}
    assert len(named) == len(told)
    assert named == set(_listeners())


def test_the_defaults_of_listeners_are_the_real_ones() -> None:
    for cells in rows(SECURITY, "What listens where"):
        program, flag = cells[0].replace("`", "").split()
        help_ = _listeners()[program, flag]
        found = re.search(r"default:? (?:of [^ ]+ )?([0-9.:]+|off)", help_)
        default = cells[1].strip("`")
        if (program, flag) in (("lc", "--bind-port"),):
            default = default.rpartition(":")[2]
        # What is off by default need not say so.
        assert (found[1] if found else "off") == default, (program, flag, help_)


def test_the_files_at_the_edge_bear_the_names_that_are_told() -> None:
    told = " ".join(
        cells[0] for cells in rows("docs/explanation/security-data.md", "What lies at the edge")
    )
    for name in (JOURNAL, STORE):
        assert f"`{name}`" in told


# ── modes and measurements ──


def test_every_overlay_is_a_mode_of_the_page() -> None:
    (row,) = (it for it in rows(MODES, "What each is and costs") if it[0] == "overlay")
    assert {cell.strip("`") for cell in row[1:]} == set(OVERLAYS)


def test_every_family_of_measurements_that_is_named_exists() -> None:
    named = 0
    for name in DOCUMENTS:
        for bench, families in re.findall(
            r'make (bench[a-z-]*) ARGS="--only ([a-z,-]+)', document(name)
        ):
            named += 1
            assert set(families.split(",")) <= set(BENCHES[bench]), (name, families)
    assert named > 3


def test_nothing_but_pages_lies_among_the_pages() -> None:
    files = [it for it in (ROOT / "docs").rglob("*") if it.is_file()]
    found = {it.relative_to(ROOT / "docs").parts[0] for it in files}
    assert found == {*KINDS, "images"}
    assert {it.suffix for it in files if it.parent.name != "images"} == {".md"}
