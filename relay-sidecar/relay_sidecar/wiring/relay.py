"""A relay before an upstream: its parts, each with what it needs, and which of them hears of what.

Guarantees: each part gets everything in its constructor; which optional rooms there are, only
`FEATURES` says. Answers before the first contact with upstream: what the last run persisted is
there at once.
"""

import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.kubeapi import ApiTransport, Credentials, Unreachable
from edge_sidecars.runtime.tasks import Spawn
from relay_sidecar.access.opened import open_access
from relay_sidecar.config.config import Config
from relay_sidecar.features import Feature, Features, Parts, RoomListener, Run
from relay_sidecar.streams.scope_journal import ScopeJournal, everything, restore
from relay_sidecar.streams.streams import Streams
from relay_sidecar.streams.sweep import Sweep
from relay_sidecar.telemetry.metrics import RelayCounters
from relay_sidecar.upstream.documents import documents, schemas
from relay_sidecar.upstream.documents.documents import DocumentCache
from relay_sidecar.upstream.documents.schemas import Schemas
from relay_sidecar.upstream.documents.upkeep import (
    DOCUMENTS_INTERVAL,
    DocumentRefresh,
    DocumentSource,
    keep_preloaded,
)
from relay_sidecar.upstream.heartbeats import Heartbeats
from relay_sidecar.upstream.link_probe import SPACE as LINK_SPACE
from relay_sidecar.upstream.link_probe import LinkProbe, PersistedVerdict
from relay_sidecar.upstream.proxy import Proxy
from relay_sidecar.web.api import Api
from relay_sidecar.web.discovery import Discovery
from relay_sidecar.web.reads.reads import Reads
from relay_sidecar.wiring.journal import open_journal
from relay_sidecar.wiring.report import RelayReport
from relay_sidecar.wiring.upstream import (
    SCHEMAS_SHARE,
    budget_of,
    followed_streams,
    settings_of,
    upstream_link,
    upstream_source,
    upstream_transport,
)

# In this order: the view goes by the verdicts of the pool, the node fetches tokens to keep.
FEATURES: Final = (
    Feature("relay_sidecar.pool.feature", lambda it: it.pool is not None, {"pool": None}),
    Feature(
        "relay_sidecar.kept_tokens.feature",
        lambda it: it.keep_secrets is not None and it.client_ca_file is not None,
        {"tokens": []},
        {"callers": []},
    ),
    Feature(
        "relay_sidecar.endpoint_view.feature",
        lambda it: it.endpoint_view is not None,
        {"endpointView": None},
    ),
    Feature("relay_sidecar.wiring.node", lambda it: it.client_ca_file is not None),
)
# In intervals of the probe, since rare probes are for a link that is to be quiet: how old discovery
# may be when the link goes.
DOCUMENT_INTERVALS = 120


class Relay:
    """`run` are started, in this order, once the listeners are open."""

    def __init__(
        self,
        api: Api,
        report: RelayReport,
        listeners: Sequence[RoomListener],
        run: Sequence[Run],
        spawn: Spawn,
    ) -> None:
        self.api = api
        self.report = report
        self.listeners = listeners
        self._run = run
        self._spawn = spawn

    def start(self) -> None:
        """The listeners are open."""
        self.report.started()
        for run in self._run:
            self._spawn(run())


async def open_relay(
    config: Config, credentials: Credentials, stack: AsyncExitStack, *, spawn: Spawn
) -> Relay:
    """Raises `BadInput`."""
    budget = budget_of(config)
    opened = await open_journal(config, stack, budget=budget)
    journal, saved, features = opened.journal, opened.saved, Features()
    connect = partial(upstream_transport, config, credentials, stack)
    transport = connect(detour=features.proxy)
    verdict = PersistedVerdict(journal, saved.kept.get(LINK_SPACE, {}))
    probe = LinkProbe(transport, upstream_link(config, was_down=verdict.was_down))
    known = DocumentCache(
        journal, saved.kept.get(documents.SPACE, {}), limit=int(budget * SCHEMAS_SHARE)
    )
    counters = RelayCounters(rows_rejected=opened.rows_rejected)
    source = upstream_source(config, transport, probe, counters)
    streams = followed_streams(
        config,
        source,
        probe,
        journal,
        counters,
        kind_of=known.kind_of,
        features=features,
        spawn=spawn,
    )
    journal.send(*restore(streams, saved, now=time.monotonic(), wall=time.time()))
    scopes = ScopeJournal(streams, journal, saved.kept)

    def held() -> set[ResourceName]:
        return {stream.scope.resource for stream in streams}

    access = await open_access(
        config,
        transport,
        credentials,
        journal,
        saved,
        probe,
        stack,
        are_authentic=opened.are_rights_authentic,
        known=held,
        spawn=spawn,
    )
    document_source = DocumentSource(
        transport,
        timeout=config.request_timeout,
        met=probe.met,
        authenticated=probe.authenticated,
        received=counters.received,
    )
    refresh = DocumentRefresh(
        known,
        document_source,
        streams,
        interval=max(DOCUMENT_INTERVALS * config.probe_interval, DOCUMENTS_INTERVAL),
    )
    published = Schemas(
        known,
        document_source,
        journal,
        saved.kept.get(schemas.SPACE, {}),
        held=held,
        changed=partial(_list_again, streams, config.request_timeout),
    )
    proxy = Proxy(
        transport,
        access.access,
        probe,
        connect_timeout=config.request_timeout,
        heartbeats=Heartbeats(access.node, probe.until_up) if access.node else None,
    )
    api = Api(
        access.access,
        proxy,
        Reads(
            access.access,
            proxy,
            streams,
            published,
            journal,
            settings_of(config),
            metadata=source,
            learn_kind=refresh.learn_kind,
        ),
        Discovery(known, proxy, timeout=config.request_timeout),
        link_known=probe.known,
        link_settled=probe.settled,
        is_link_open=lambda: probe.is_open,
        logs_refusals=config.log_refusals,
        answered_before=features.answers,
    )
    parts = Parts(
        config=config,
        journal=journal,
        saved=saved,
        stack=stack,
        spawn=spawn,
        transport=transport,
        connect=connect,
        own_link=partial(upstream_link, config, was_down=True),
        probe=probe,
        source=source,
        access=access,
        sealer=opened.sealer,
        streams=streams,
        documents=known,
        schemas=published,
        proxy=proxy,
        api=api,
        settings=settings_of(config),
        features=features,
    )
    await features.open(FEATURES, parts)
    probe.on_change += (
        verdict.link,
        counters.link_changed,
        partial(_end_requests, transport, proxy, probe),
        refresh.link,
        published.link,
        access.access.link,
        streams.link,
        scopes.link,
        features.link,
    )
    probe.on_standstill.append(streams.doubt)
    streams.beside += (
        lambda: known.size + published.size,
        access.size,
        lambda: streams.floor.states.size + streams.of_node.size + streams.askings.size,
        features.size,
    )
    streams.on_start.append(lambda stream: published.started(stream.scope.resource))
    streams.on_start.append(lambda stream: refresh.started(stream.scope.resource))
    streams.on_history_lost.append(refresh.lost_history)
    for state in (lambda: everything(streams), known.records, published.records):
        journal.rewrite_from(state)
    run: list[Run] = [probe.run, *features.run, partial(Sweep(streams).run, journal)]
    run += [refresh.run, published.run]
    run += [partial(keep_preloaded, streams, known, wanted) for wanted in config.preload]
    report = RelayReport(config, transport, probe, opened, streams, features)
    return Relay(api, report, features.listeners, run, spawn)


def _end_requests(transport: ApiTransport, proxy: Proxy, probe: LinkProbe, is_up: bool) -> None:
    """A connection that was open before the link went would wait for its time-outs."""
    if not is_up and not probe.is_relayed:
        transport.abort()
        proxy.cut()


async def _list_again(streams: Streams, timeout: float, resources: frozenset[ResourceName]) -> None:
    """Returns when new lists are persisted. Raises `Unreachable` where they cannot be had now."""
    lacking = await streams.list_again(resources, timeout=timeout)
    if lacking is not None:
        raise Unreachable(f"{lacking.scope} could not be listed again")
