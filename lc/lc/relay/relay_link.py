"""LC's link in mode relay: the collections that concern the node, and its reports.

Owns the connection to the relay and the look at its status, which says whether the API is reached.
Guarantees: each collection fails and goes on by itself.
"""

import asyncio
from functools import partial

from edge_sidecars.kubeapi import ApiClient, ApiError, Plain, Unreachable
from edge_sidecars.kubeapi.reflector import reflect
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.sedna_api.core.api_object import Document
from lc.link import GmLinkStatus
from lc.relay.intake import Intake
from lc.relay.node_reports import OwnNodeReports
from lc.relay.report_api import ReportApi
from lc.relay.selection import selections
from lc.store import Store

# Seconds between two looks at the relay, and what one may take.
LOOK_INTERVAL = 2.0
LOOK_TIMEOUT = 2.0


class RelayLink:
    """`api`, `relay_status`: the relay's two ports, as URLs; `namespace` "" for all."""

    def __init__(
        self,
        store: Store,
        *,
        node: str,
        api: str,
        relay_status: str,
        namespace: str,
        redial_cap: float,
        version: str,
    ) -> None:
        agent = f"sedna-lc/{version} ({node})"
        self._api = ApiClient(Plain(api), user_agent=agent)
        self._relay = ApiClient(Plain(relay_status), user_agent=agent)
        self._namespace = namespace
        self._redial_cap = redial_cap
        self._selections = selections(node)
        self._intakes = {kind: Intake(store, kind.singular) for kind in self._selections}
        reports = ReportApi(self._api, node=node, is_link_up=self._is_link_up)
        self._reports = OwnNodeReports(store, reports, node=node, redial_cap=redial_cap)
        self._peer = api
        # Why the API is not reached; "" where it is.
        self._lack = "the relay was not asked yet"
        self._since = boottime()

    def status(self) -> GmLinkStatus:
        missing = [kind.plural for kind, intake in self._intakes.items() if not intake.is_listed]
        problem = self._lack or self._reports.problem
        if not problem and missing:
            problem = f"not listed yet: {', '.join(missing)}"
        return GmLinkStatus(not problem, self._peer, self._since, problem)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._look())
                group.create_task(self._reports.run())
                for kind, params in self._selections.items():
                    intake = self._intakes[kind]
                    group.create_task(intake.run())
                    group.create_task(
                        reflect(
                            self._api,
                            kind.collection(self._namespace),
                            decode=partial(Document.parse, kind=kind.singular),
                            sink=intake,
                            params=params,
                            longest_delay=self._redial_cap,
                        )
                    )
        finally:
            await self._api.close()
            await self._relay.close()

    def _is_link_up(self) -> bool:
        return not self._lack

    async def _look(self) -> None:
        while True:
            lack = await self._lacking()
            if bool(lack) != bool(self._lack):
                self._since = boottime()
            self._lack = lack
            await asyncio.sleep(LOOK_INTERVAL)

    async def _lacking(self) -> str:
        try:
            told = await self._relay.request("GET", "/status", timeout=LOOK_TIMEOUT)
        except (ApiError, Unreachable) as error:
            return f"the relay does not answer at {self._relay.url}: {error}"
        link = told.get("link")
        if isinstance(link, dict) and link.get("isUp") is True:
            return ""
        return "the relay does not reach the API server"
