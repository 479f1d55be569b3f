"""The manual is true of gm: flags, endpoints, fields, metrics, messages, modules."""

import re
from collections.abc import Iterator
from typing import Any

from edge_sidecars.runtime.web.listener_metrics import FIGURES
from gm.hub.stream import Connected
from gm.telemetry.status import (
    Backlog,
    CollectionStatus,
    GmMemberStatus,
    GmStatus,
    LeaderStatus,
    ReportCounts,
    ShardsStatus,
    StateCount,
)
from gm.web.own_endpoints import GmEndpoints
from tests.unit.repository.checkout import section
from tools.bench.gm.__main__ import FAMILIES

MANUAL, EXPLANATION = "docs/reference/gm.md", "docs/explanation/gm.md"


def _rows(title: str, name: str = MANUAL) -> list[list[str]]:
    """The cells of a section's own tables, without titles and rulers."""
    found: list[list[str]] = []
    (own, *_) = re.split(r"^##+ ", section(name, title), flags=re.M)
    for table in re.findall(r"(?:^\|.*\n)+", own, re.M):
        lines = table.splitlines()[2:]
        found += [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
    return found


def _status() -> GmStatus:
    """Of a GM that has something of everything to tell."""
    return GmStatus(
        version="1",
        listeners=[dict.fromkeys(FIGURES, 0)],
        mode="active-standby",
        uptime_seconds=1.0,
        is_ready=True,
        lack=None,
        leader=LeaderStatus(
            is_leader=True, may_act=True, holder="gm-0", term=1, terms=1, remaining_seconds=1.0
        ),
        shards=ShardsStatus(
            shards=64,
            owned=[1],
            handing_over=[2],
            unowned=0,
            moves=2,
            remaining_seconds=1.0,
            members=[GmMemberStatus("gm-0", 2, True)],
            reason="it",
        ),
        is_link_up=True,
        backlog=Backlog(objects=1, retries=1, events=1, reports=1, node_reports=1, held_back=1),
        reports=ReportCounts(
            stored=1, folded=1, without_effect=1, refused=1, lost=0, last_refusal="it"
        ),
        nodes=[Connected("n", "grpc", "1", 1.0, True, 0, 1, 1.0)],
        jobs=[StateCount("dataset", "-", 1)],
        collections=[CollectionStatus("dataset", 1, 1, True)],
    )


def test_the_table_of_numbers_is_the_benchmark() -> None:
    assert [row[0].strip("`") for row in _rows("Numbers", EXPLANATION)] == list(FAMILIES)


def test_every_endpoint_is_told_and_no_other() -> None:
    never_asked: Any = None
    routes = GmEndpoints(never_asked).routes.keys()
    assert {row[0].strip("`") for row in _rows("Its own endpoints")} == routes


def test_every_field_of_the_status_is_told_and_no_other() -> None:
    def names(document: dict[str, Any], prefix: str = "") -> Iterator[str]:
        for key, value in document.items():
            inner = value[0] if isinstance(value, list) else value
            if isinstance(inner, dict):
                yield from names(inner, f"{prefix}{key}{'[]' if inner is not value else ''}.")
            else:
                yield prefix + key

    told = {name for row in _rows("The status") for name in re.findall(r"`([\w.\[\]]+)`", row[0])}
    assert told == set(names(_status().document()))
