"""The manual is true of lc: flags, endpoints, fields, metrics, messages."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from edge_sidecars.runtime.web.listener_metrics import FIGURES
from lc.status import (
    LcStatus,
    LinkStatus,
    ObjectStatus,
    RefusalStatus,
    ReportsStatus,
    StoreStatus,
    TransferStatus,
)
from tests.unit.repository.checkout import ROOT, section

MANUAL = "docs/reference/lc.md"
PACKAGE = ROOT / "lc" / "lc"


def _rows(title: str) -> list[list[str]]:
    """The cells of a section's own tables, without titles and rulers."""
    found: list[list[str]] = []
    (own, *_) = re.split(r"^##+ ", section(MANUAL, title), flags=re.M)
    for table in re.findall(r"(?:^\|.*\n)+", own, re.M):
        lines = table.splitlines()[2:]
        found += [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
    return found


def _status() -> LcStatus:
    """Of an LC that has something of everything to tell."""
    refusal = RefusalStatus("dataset", "shop", "d1", "uid", 1, "gone")
    return LcStatus(
        node="edge-a",
        mode="stream",
        version="1",
        listeners=[dict.fromkeys(FIGURES, 0)],
        uptime_seconds=1.0,
        link=LinkStatus(is_up=True, peer="gm:9000", for_seconds=1.0, problem=""),
        store=StoreStatus("d", "id", "", "", 0),
        reports=ReportsStatus(1, 1.0, 1, 1, (refusal,)),
        objects=(ObjectStatus("dataset", "shop", "d1", "uid", "1", ""),),
        transfers=(TransferStatus("http://a/b", 0, None),),
    )


def test_every_endpoint_is_told_and_no_other() -> None:
    source = (PACKAGE / "web" / "worker_api.py").read_text(encoding="utf-8")
    routes = set(re.findall(r'^\s+"(/[a-z/]+)": self', source, re.M))
    told = {row[0].strip("`") for row in _rows("HTTP")}
    assert told == routes | {"/sedna/workers/{name}/info"}


def test_every_field_of_the_status_is_told_and_no_other() -> None:
    def names(document: dict[str, Any], prefix: str = "") -> Iterator[str]:
        for key, value in document.items():
            inner = value[0] if isinstance(value, list) else value
            if isinstance(inner, dict):
                yield from names(inner, f"{prefix}{key}{'[]' if inner is not value else ''}.")
            else:
                yield prefix + key

    told = {name for row in _rows("The status") for name in re.findall(r"`([\w.\[\]]+)`", row[0])}
    assert told == set(names(msgspec.json.decode(msgspec.json.encode(_status()))))
