"""LC's link in mode relay: the collections that concern the node, and its reports.

Owns the connection to the relay, the look at its status, which says whether the API is reached, and
which objects of each kind are selected. A field selects where one names the node, else the label
that GM stamps on what concerns it. Guarantees: Each collection fails and goes on by itself. What
waits of one for the disk is a whole list at most, and the newest of each object since. Nothing is
lost while the disk takes nothing, and it is stored in the order in which it came.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Final

from edge_sidecars.kubeapi import ApiClient, ApiError, Plain, Unreachable
from edge_sidecars.kubeapi.reflector import reflect
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.process import VERSION
from edge_sidecars.sedna_api.core.api_object import Document, ObjectKey
from edge_sidecars.sedna_api.core.kinds import (
    DATASET,
    FEATURE_EXTRACTION_SERVICE,
    FEDERATED_LEARNING_JOB,
    INCREMENTAL_LEARNING_JOB,
    JOINT_INFERENCE_SERVICE,
    LIFELONG_LEARNING_JOB,
    MODEL,
    ResourceKind,
    node_label,
)
from lc.config.config import Config
from lc.link import GmLinkStatus
from lc.relay.node_reports import OwnNodeReports
from lc.relay.report_api import ReportApi
from lc.store import Store, StoreUnavailable

# selectableFields of manifests/crds.
_FIELDS: Final = {
    DATASET: "spec.nodeName",
    JOINT_INFERENCE_SERVICE: "spec.edgeWorker.template.spec.nodeName",
    FEATURE_EXTRACTION_SERVICE: "spec.template.spec.nodeName",
}
_LABELLED: Final = (MODEL, FEDERATED_LEARNING_JOB, INCREMENTAL_LEARNING_JOB, LIFELONG_LEARNING_JOB)


def selections(node: str) -> dict[ResourceKind, dict[str, str]]:
    """The query parameters that select from each kind's collection."""
    by_field = {kind: {"fieldSelector": f"{path}={node}"} for kind, path in _FIELDS.items()}
    return by_field | {kind: {"labelSelector": node_label(node)} for kind in _LABELLED}


# Seconds until the disk is asked again.
RETRY_AFTER = 2.0


class ObjectIntake:
    """A sink of `reflect`; `is_listed`: whether it has come as a whole in this process."""

    def __init__(self, store: Store, kind: str) -> None:
        self.is_listed = False
        self._store = store
        self._kind = kind
        self._whole: Sequence[Document] | None = None
        # The newest of each object after that; what is False here is gone.
        self._changes: dict[ObjectKey, tuple[Document, bool]] = {}
        self._wanted = asyncio.Event()

    def replaced(self, documents: Sequence[Document], version: int) -> None:
        self._whole = documents
        self._changes.clear()
        self._wanted.set()

    def changed(self, document: Document) -> None:
        self._changes[document.key] = (document, True)
        self._wanted.set()

    def deleted(self, document: Document) -> None:
        self._changes[document.key] = (document, False)
        self._wanted.set()

    def at(self, version: int) -> None:
        """Nothing depends on it: reports are not ordered against objects."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            whole, changes = self._whole, self._changes
            self._whole, self._changes = None, {}
            try:
                await self._store_all(whole, changes)
            except StoreUnavailable:
                self._put_back(whole, changes)
                await asyncio.sleep(RETRY_AFTER)
            else:
                self.is_listed = self.is_listed or whole is not None

    async def _store_all(
        self, whole: Sequence[Document] | None, changes: dict[ObjectKey, tuple[Document, bool]]
    ) -> None:
        store = self._store
        asked: list[Awaitable[object]] = []
        if whole is not None:
            asked.append(store.replace_all(self._kind, whole))
        for document, is_there in changes.values():
            asked.append(
                store.put(document) if is_there else store.delete(document.key, document.uid)
            )
        for each in asked:
            await each

    def _put_back(
        self, whole: Sequence[Document] | None, changes: dict[ObjectKey, tuple[Document, bool]]
    ) -> None:
        """Behind what has come since. Taking it twice does no harm."""
        if self._whole is None:
            self._whole = whole
            self._changes = changes | self._changes
        self._wanted.set()


# Seconds between two looks at the relay, and what one may take.
LOOK_INTERVAL = 2.0
LOOK_TIMEOUT = 2.0


class RelayLink:
    """Its config has the relay's two ports, as URLs, and the namespace, "" for all."""

    def __init__(self, store: Store, config: Config) -> None:
        node = config.node
        agent = f"sedna-lc/{VERSION} ({node})"
        self._api = ApiClient(Plain(config.api, proxies=config.proxies), user_agent=agent)
        self._relay = ApiClient(
            Plain(config.relay_status, proxies=config.proxies), user_agent=agent
        )
        self._namespace = config.namespace
        self._redial_cap = config.redial_cap
        self._selections = selections(node)
        self._intakes = {kind: ObjectIntake(store, kind.singular) for kind in self._selections}
        reports = ReportApi(self._api, node=node, is_link_up=self._is_link_up)
        self._reports = OwnNodeReports(store, reports, node=node, redial_cap=config.redial_cap)
        self._peer = config.api
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
            status = await self._relay.request("GET", "/status", timeout=LOOK_TIMEOUT)
        except (ApiError, Unreachable) as error:
            return f"the relay does not answer at {self._relay.url}: {error}"
        link = status.get("link")
        if isinstance(link, dict) and link.get("isUp") is True:
            return ""
        return "the relay does not reach the API server"
