"""The manual is true of gm: flags, endpoints, fields, metrics, messages, modules."""

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
from tests.unit.repository.told import fields, firsts, rows, told_fields
from tools.bench.gm.bench import BENCH

MANUAL, EXPLANATION = "docs/reference/gm.md", "docs/explanation/gm.md"


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
    assert [row[0].strip("`") for row in rows(EXPLANATION, "Numbers")] == list(BENCH.families)


def test_every_endpoint_is_told_and_no_other() -> None:
    never_asked: Any = None
    routes = GmEndpoints(never_asked).routes.keys()
    assert firsts(MANUAL, "Its own endpoints") == routes


def test_every_field_of_the_status_is_told_and_no_other() -> None:
    assert told_fields(MANUAL) == set(fields(_status().document()))
