"""Takes out of NodeReports what objects have taken in, where no new report does it on the way.

Owns the rhythm, on the leader and only where GMs write NodeReports (in mode relay LCs do).
Guarantees: a NodeReport that changes is left alone, it is pruned with its next write anyway; one
that is refused keeps no other from being pruned.
"""

import asyncio
from collections.abc import Callable

from edge_sidecars.kubeapi import ApiError, Unreachable
from edge_sidecars.runtime.log import fields, logger
from gm.cache.informers import Informers
from gm.controller.api_writes import TROUBLE, NotLeading
from gm.reports.node_report_writer import NodeReportWriter

INTERVAL = 10.0


class NodeReportGc:
    def __init__(
        self, informers: Informers, writer: NodeReportWriter, may_act: Callable[[], bool]
    ) -> None:
        self._informers = informers
        self._writer = writer
        self._may_act = may_act
        self._seen: dict[tuple[str, str], str] = {}

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            if self._may_act() and self._informers.is_synced:
                await self._pass()

    async def _pass(self) -> None:
        before, self._seen = self._seen, {}
        for report in self._informers.reports:
            key = (report.namespace, report.node)
            self._seen[key] = report.resource_version
            if before.get(key) != report.resource_version:
                continue
            try:
                await self._writer.prune(report)
            except NotLeading:
                return
            except (ApiError, Unreachable) as error:
                logger.warning(
                    "a NodeReport could not be pruned",
                    extra=fields(node=report.node, why=str(error), delay=INTERVAL),
                )
                if isinstance(error, Unreachable) or error.status in TROUBLE:
                    return
            # Ten thousand of them are looked at in one pass.
            await asyncio.sleep(0)
