"""Which NodeReports are pruned, and what a failure of one means for the others."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from edge_sidecars.kubeapi import ApiError, Unreachable
from gm.reports import node_report_writer
from gm.reports.node_report_writer import NodeReportGc

NODES = ("a", "b", "c")


class Writer:
    """Fails for the node "a"."""

    def __init__(self, failure: Exception) -> None:
        self._failure = failure
        self.asked: list[str] = []

    async def prune(self, report: Any) -> None:
        self.asked.append(report.node)
        if report.node == "a":
            raise self._failure


@pytest.mark.parametrize(
    ("failure", "asked"),
    [
        (ApiError(403, "Forbidden", "no"), {"a", "b", "c"}),
        (ApiError(422, "Invalid", "no"), {"a", "b", "c"}),
        (ApiError(503, "ServiceUnavailable", "later"), {"a"}),
        (Unreachable("refused"), {"a"}),
    ],
    ids=["forbidden", "invalid", "trouble", "unreachable"],
)
def test_one_that_is_refused_keeps_no_other_from_being_pruned(
    failure: Exception, asked: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> set[str]:
        reports = [
            SimpleNamespace(namespace="n", node=it, uid=it, resource_version="1") for it in NODES
        ]
        reports.append(
            SimpleNamespace(namespace="n", node="d", uid="another's", resource_version="1")
        )
        informers: Any = SimpleNamespace(reports=reports, is_synced=True)
        writer: Any = Writer(failure)
        running = asyncio.create_task(
            NodeReportGc(informers, writer, lambda uid: uid != "another's").run()
        )
        await asyncio.sleep(0.2)
        running.cancel()
        await asyncio.wait({running})
        return set(writer.asked)

    monkeypatch.setattr(node_report_writer, "INTERVAL", 0.02)
    assert asyncio.run(run()) == asked
