"""All of GM put together: what is followed, who decides, who takes reports, and what is notified.

Owns the order in which parts begin and end. Guarantees: Nothing is decided and no LC is served
before the CRDs were looked at and everything was listed. At the end LCs are sent elsewhere first,
then what is being written is waited for, and the lead is not used any more.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from edge_sidecars.kubeapi import ApiClient, ApiError, Unreachable
from edge_sidecars.kubeapi.client import JSON
from edge_sidecars.kubeapi.reflector import METADATA_ONLY, reflect
from edge_sidecars.runtime.backoff import Backoff
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.runtime.process import VERSION
from edge_sidecars.runtime.web.listener_metrics import figures
from edge_sidecars.sedna_api.core.api_object import Document
from edge_sidecars.sedna_api.core.kinds import KINDS, NODE_REPORT
from gm.cache.indexes import AUTOSCALER, CHILD_KINDS, SELECTOR
from gm.cache.informer_cache import ALL_NAMESPACES
from gm.cache.informers import Informers
from gm.config.config import Config, LeadershipMode, Mode
from gm.controller import crd_check
from gm.controller.api_writes import api_writes
from gm.controller.applier import Applier
from gm.controller.controller import Controller
from gm.controller.crd_check import MissingDefinitions
from gm.controller.events import event_namespace, event_recorder, second_stream_event
from gm.controller.ownership import Ownership, ShardOwner, SingleLeader, everything
from gm.controller.reference_lookup import NODES, ReferenceLookup
from gm.controller.relay_link import GmRelayLink
from gm.controller.secret_lookup import SecretLookup
from gm.core.engine.plan import NODE
from gm.core.kind import WorkerSettings
from gm.hub.core.proof import SecondStream
from gm.hub.hub import Hub
from gm.reports.node_report_writer import NodeReportGc, NodeReportWriter
from gm.reports.report_authorization import ReportAuthorization
from gm.reports.report_queue import ReportQueue
from gm.telemetry.metrics import GmCounters
from gm.telemetry.status import (
    Backlog,
    CollectionStatus,
    GmStatus,
    ReportCounts,
    StateCount,
    leader_status,
    shards_status,
)

# Seconds; CRDs are applied beside this process, or not at all.
LONGEST_LOOK = 5.0
# Seconds that changes gather where each GM follows the objects of all: two of three changes are of
# objects about which others decide. A leader takes each change as it comes.
GATHER_WITH_SHARDS = 0.1

Spawn = Callable[[Coroutine[Any, Any, None]], object]


def user_agent(instance: str) -> str:
    return f"gm/{VERSION} ({instance})"


class GlobalManager:
    """`api` and `relay` are this pod's relay."""

    def __init__(
        self, config: Config, *, api: ApiClient, relay: ApiClient | None, instance: str
    ) -> None:
        timeout = config.request_timeout
        self.config = config
        self.api = api
        self._began = boottime()
        self._lack = "the CRDs were not looked at yet"
        self._of_shards = config.leadership is LeadershipMode.SHARDS
        self.ownership: Ownership = (ShardOwner if self._of_shards else SingleLeader)(
            config.elector, request_timeout=timeout, user_agent=user_agent(instance)
        )
        self.link = GmRelayLink(relay, lambda: self.informers.moved())
        self.informers = Informers(lambda: self.link.is_up, namespaces=config.namespaces)
        self._writes = api_writes(api, self.ownership.may_act, timeout=timeout)
        self._report_writes = api_writes(
            api, lambda _: self._is_any or self.ownership.may_lead(), timeout=timeout
        )
        self.events = event_recorder(self._writes, instance=instance)
        # Each GM that serves LCs reports its streams, also one that does not lead.
        self.stream_events = event_recorder(self._report_writes, instance=instance)
        secrets = SecretLookup(
            api,
            timeout=timeout,
            is_named=lambda key: any(map(self.ownership.owns, self.informers.named_by(key))),
            changed=self.informers.node_index.reference_changed,
        )
        self.controller = Controller(
            self.informers,
            self.ownership,
            Applier(self._writes, self.informers, has_labels=config.mode is Mode.RELAY),
            self.events,
            ReferenceLookup(api, self.informers, secrets, timeout=timeout),
            settings=WorkerSettings(
                config.lc_server,
                config.kb_server,
                refused_namespaces=config.refused_namespaces,
                # LCs of Sedna know no capabilities.
                has_capabilities=config.sedna_listen is None,
            ),
            concurrency=config.concurrency,
        )
        # A report of one of Sedna's LCs is nowhere else, whichever GM leads now.
        self._late_writes = api_writes(api, everything, timeout=timeout)
        self._writer = NodeReportWriter(self.informers, self._report_writes)
        self._late_writer = NodeReportWriter(self.informers, self._late_writes)
        self._pruner = NodeReportWriter(self.informers, self._writes)
        authorization = ReportAuthorization(
            self.informers, self._report_writes, namespaces=config.namespaces
        )
        self.report_queue = ReportQueue(
            authorization, self._writer, self._late_writer, may_serve=self._may_serve
        )
        self._node_report_gc = NodeReportGc(self.informers, self._pruner, self.ownership.may_act)
        self.hub: Hub | None = None
        if config.mode is not Mode.RELAY:
            self.hub = Hub(
                self.informers,
                self.report_queue,
                may_serve=self._may_serve,
                rebalances=self._is_any,
                may_wait=self._may_come_to_serve,
                max_lcs=config.max_lcs,
                second_stream=self._second_stream,
            )
            self.ownership.subscribe(self.hub.moved)

    # ── its life ──

    def start(self, spawn: Spawn) -> None:
        """What runs until it is cancelled; the rest begins when the CRDs are fit."""
        for work in (self.ownership.run(), self.link.run(), self._begin(spawn)):
            spawn(work)

    async def _begin(self, spawn: Spawn) -> None:
        """Raises `UnfitDefinitions`."""
        await self._look_at_definitions()
        self._lack = ""
        spawn(self.controller.run())
        spawn(self.events.run())
        if self.hub is not None:
            spawn(self.report_queue.run())
            spawn(self.stream_events.run())
            spawn(self._node_report_gc.run())
            spawn(self.hub.run())
        for namespace in self.config.namespaces or (ALL_NAMESPACES,):
            for kind in (*KINDS, NODE_REPORT):
                spawn(self._reflect(kind.singular, namespace, kind.collection(namespace)))
            for child in CHILD_KINDS.values():
                path = child.collection(namespace)
                # Not every API has HorizontalPodAutoscalers, and few jobs want one.
                is_optional = child is AUTOSCALER
                chosen = {"labelSelector": SELECTOR}
                spawn(
                    self._reflect(child.singular, namespace, path, chosen, is_optional=is_optional)
                )
        spawn(self._reflect(NODE, ALL_NAMESPACES, NODES, accept=METADATA_ONLY))

    async def _reflect(
        self,
        kind: str,
        namespace: str,
        path: str,
        params: dict[str, str] | None = None,
        *,
        accept: str = JSON,
        is_optional: bool = False,
    ) -> None:
        sink = self.informers.collections[kind].sources[namespace]
        await reflect(
            self.api,
            path,
            decode=partial(Document.parse, kind=kind),
            sink=sink,
            params=params,
            accept=accept,
            is_optional=is_optional,
            gather=GATHER_WITH_SHARDS if self._of_shards else 0.0,
        )

    async def _look_at_definitions(self) -> None:
        backoff = Backoff(longest=LONGEST_LOOK)
        while True:
            try:
                await crd_check.look(self.api, timeout=self.config.request_timeout)
                return
            except (MissingDefinitions, ApiError, Unreachable) as error:
                delay = backoff.failed(random.random())
                if str(error) != self._lack:
                    logger.warning("waiting for CRDs", extra=fields(why=str(error), delay=delay))
                self._lack = str(error)
            await asyncio.sleep(delay)

    async def stop(self) -> None:
        """LCs go elsewhere, what is being written ends, nothing more is begun."""
        if self.hub is not None:
            await self.hub.drain("this GM ends")
            await self.report_queue.flush()
        self.ownership.resign()
        await self.drained()

    async def drained(self) -> None:
        await self.ownership.idle()
        await self.controller.stopped(everything)

    @property
    def _is_any(self) -> bool:
        """Whether each GM serves LCs and takes their reports, not the leader alone."""
        return self.config.mode is Mode.ACTIVE_ACTIVE

    def _may_serve(self) -> bool:
        return self._is_any or self.ownership.is_leader

    def _may_come_to_serve(self) -> bool:
        """Soon: it has just started, or the former leader is silent."""
        is_next = self._may_serve() or self.ownership.is_vacant
        return is_next and (self.link.is_up or not self.informers.is_synced)

    def _second_stream(self, it: SecondStream) -> None:
        node = self.informers.collections[NODE].get("", it.node)
        namespace = event_namespace(self.config.namespaces)
        uid = it.node if node is None else node.uid
        self.stream_events.tell(second_stream_event(it, namespace=namespace, uid=uid))

    # ── what it says ──

    @property
    def lack(self) -> str:
        """Why LCs cannot be served and nothing decided; "" where they can."""
        if self._lack:
            return self._lack
        missing = self.informers.missing
        if missing:
            return f"not listed yet: {', '.join(missing)}"
        return "" if self.link.is_up else "the relay does not reach the API server"

    def status(self) -> GmStatus:
        report_queue = self.report_queue
        counts = self.informers.state_counts.counts()
        return GmStatus(
            listeners=figures(),
            version=VERSION,
            mode=self.config.mode.value,
            uptime_seconds=boottime() - self._began,
            is_ready=not self.lack,
            lack=self.lack or None,
            leader=leader_status(self.ownership),
            shards=shards_status(self.ownership),
            is_link_up=self.link.is_up,
            backlog=Backlog(
                objects=self.controller.waiting,
                retries=self.controller.retries,
                events=len(self.events),
                reports=len(report_queue),
                node_reports=self.informers.reports.backlog,
                held_back=self.controller.held_back,
            ),
            reports=ReportCounts(
                stored=report_queue.stored,
                folded=self.controller.folded,
                without_effect=self.controller.refused,
                refused=report_queue.refused,
                lost=report_queue.lost_reports,
                last_refusal=report_queue.last_refusal or None,
            ),
            nodes=[] if self.hub is None else self.hub.connected(),
            jobs=[StateCount(kind, state, n) for (kind, state), n in sorted(counts.items())],
            collections=[
                CollectionStatus(kind, len(it), it.version, it.is_synced)
                for kind, it in self.informers.collections.items()
            ],
        )

    def counters(self) -> GmCounters:
        return GmCounters(
            writes=sum(
                (it.counts for it in (self._writes, self._report_writes, self._late_writes)),
                Counter[tuple[str, str]](),
            ),
            decisions=self.controller.outcomes,
            events_told=self.events.told + self.stream_events.told,
            events_dropped=self.events.dropped + self.stream_events.dropped,
            conflicts=sum(it.conflicts for it in (self._writer, self._late_writer, self._pruner)),
            turned_away=0 if self.hub is None else self.hub.turned_away,
            delivery=None if self.hub is None else self.hub.delivery,
        )
