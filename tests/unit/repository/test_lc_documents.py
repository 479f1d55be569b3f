"""The manual is true of lc: flags, endpoints, fields, metrics, messages."""

import re

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
from tests.unit.repository.checkout import ROOT
from tests.unit.repository.told import fields, firsts, told_fields

MANUAL = "docs/reference/lc.md"
PACKAGE = ROOT / "lc" / "lc"


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
    told = firsts(MANUAL, "HTTP")
    assert told == routes | {"/sedna/workers/{name}/info"}


def test_every_field_of_the_status_is_told_and_no_other() -> None:
    assert told_fields(MANUAL) == set(fields(msgspec.json.decode(msgspec.json.encode(_status()))))
