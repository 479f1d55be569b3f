"""A relay before an upstream: its parts, each with what it needs, and which of them hears of what.

Guarantees: each part gets everything in its constructor; which optional rooms there are, only
`FEATURES` says. Answers before the first contact with upstream: what the last run persisted is
there at once.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.kubeapi import ApiTransport, Credentials, Unreachable
from edge_sidecars.runtime.tasks import Spawn
from relay_sidecar.access.admission import OpenedAccess, open_own
from relay_sidecar.config.config import Config
from relay_sidecar.features import Feature, Features, Parts, RoomListener, Run
from relay_sidecar.journal.journal import Journal
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
from relay_sidecar.upstream.reflector.source import UpstreamSource
from relay_sidecar.web.api import Api
from relay_sidecar.web.discovery import Discovery
from relay_sidecar.web.reads.reads import Reads
from relay_sidecar.wiring.journal import OpenedJournal, open_journal
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


@dataclass(frozen=True)
class _Upstream:
    """The ways to upstream. `connect` makes another transport, which asks no room for a proxy."""

    transport: ApiTransport
    connect: Callable[[], ApiTransport]
    probe: LinkProbe
    verdict: PersistedVerdict
    source: UpstreamSource
    counters: RelayCounters


@dataclass(frozen=True)
class _Cache:
    """What is cached of upstream, restored, and what keeps it."""

    documents: DocumentCache
    streams: Streams
    scopes: ScopeJournal
    refresh: DocumentRefresh
    schemas: Schemas

    def held(self) -> set[ResourceName]:
        return _held_by(self.streams)


async def open_relay(
    config: Config, credentials: Credentials, stack: AsyncExitStack, *, spawn: Spawn
) -> Relay:
    """Raises `BadInput`."""
    opened = await open_journal(config, stack, budget=budget_of(config))
    features = Features()
    up = _upstream(config, credentials, stack, opened, features)
    cache = _cache(config, up, opened, features, spawn)
    if config.asks_callers:
        # Half a MiB, which a relay does not need where all callers have its own rights.
        from relay_sidecar.access.asking import open_asking

        access = await open_asking(
            config,
            up.transport,
            credentials,
            opened.journal,
            opened.saved,
            up.probe,
            stack,
            are_authentic=opened.are_rights_authentic,
            known=cache.held,
            spawn=spawn,
        )
    else:
        access = open_own(config)
    proxy = Proxy(
        up.transport,
        access.access,
        up.probe,
        connect_timeout=config.request_timeout,
        heartbeats=Heartbeats(access.node, up.probe.until_up) if access.node else None,
    )
    api = _api(config, up, cache, access, proxy, opened.journal, features)
    parts = Parts(
        config=config,
        journal=opened.journal,
        saved=opened.saved,
        stack=stack,
        spawn=spawn,
        transport=up.transport,
        connect=up.connect,
        own_link=partial(upstream_link, config, was_down=True),
        probe=up.probe,
        source=up.source,
        access=access,
        sealer=opened.sealer,
        streams=cache.streams,
        documents=cache.documents,
        schemas=cache.schemas,
        proxy=proxy,
        api=api,
        settings=settings_of(config),
        features=features,
    )
    await features.open(FEATURES, parts)
    _subscribe(up, cache, access, proxy, opened.journal, features)
    report = RelayReport(config, up.transport, up.probe, opened, cache.streams, features)
    run: list[Run] = [
        up.probe.run,
        *features.run,
        partial(Sweep(cache.streams).run, opened.journal),
        cache.refresh.run,
        cache.schemas.run,
        *(partial(keep_preloaded, cache.streams, cache.documents, it) for it in config.preload),
    ]
    return Relay(api, report, features.listeners, run, spawn)


def _upstream(
    config: Config,
    credentials: Credentials,
    stack: AsyncExitStack,
    opened: OpenedJournal,
    features: Features,
) -> _Upstream:
    connect = partial(upstream_transport, config, credentials, stack)
    transport = connect(detour=features.proxy)
    verdict = PersistedVerdict(opened.journal, opened.saved.kept.get(LINK_SPACE, {}))
    link = upstream_link(config, was_down=verdict.was_down)
    probe = LinkProbe(transport, link, outages=verdict.outages, present=verdict.present)
    counters = RelayCounters(rows_rejected=opened.rows_rejected)
    source = upstream_source(config, transport, probe, counters)
    return _Upstream(transport, connect, probe, verdict, source, counters)


def _cache(
    config: Config, up: _Upstream, opened: OpenedJournal, features: Features, spawn: Spawn
) -> _Cache:
    journal, saved = opened.journal, opened.saved
    limit = int(budget_of(config) * SCHEMAS_SHARE)
    known = DocumentCache(journal, saved.kept.get(documents.SPACE, {}), limit=limit)
    streams = followed_streams(
        config,
        up.source,
        up.probe,
        journal,
        up.counters,
        kind_of=known.kind_of,
        features=features,
        spawn=spawn,
    )
    journal.send(*restore(streams, saved, now=time.monotonic(), wall=time.time()))
    source = DocumentSource(
        up.transport,
        timeout=config.request_timeout,
        met=up.probe.met,
        authenticated=up.probe.authenticated,
        received=up.counters.received,
    )
    interval = max(DOCUMENT_INTERVALS * config.probe_interval, DOCUMENTS_INTERVAL)
    published = Schemas(
        known,
        source,
        journal,
        saved.kept.get(schemas.SPACE, {}),
        held=partial(_held_by, streams),
        changed=partial(_list_again, streams, config.request_timeout),
    )
    return _Cache(
        known,
        streams,
        ScopeJournal(streams, journal, saved.kept),
        DocumentRefresh(known, source, streams, interval=interval),
        published,
    )


def _api(
    config: Config,
    up: _Upstream,
    cache: _Cache,
    access: OpenedAccess,
    proxy: Proxy,
    journal: Journal,
    features: Features,
) -> Api:
    reads = Reads(
        access.access,
        proxy,
        cache.streams,
        cache.schemas,
        journal,
        settings_of(config),
        metadata=up.source,
        learn_kind=cache.refresh.learn_kind,
    )
    return Api(
        access.access,
        proxy,
        reads,
        Discovery(cache.documents, proxy, timeout=config.request_timeout),
        link_known=up.probe.known,
        link_settled=up.probe.settled,
        is_link_open=lambda: up.probe.is_open,
        logs_refusals=config.log_refusals,
        answered_before=features.answers,
    )


def _subscribe(
    up: _Upstream,
    cache: _Cache,
    access: OpenedAccess,
    proxy: Proxy,
    journal: Journal,
    features: Features,
) -> None:
    """Which part is called at which event, in this order."""
    streams, known, published = cache.streams, cache.documents, cache.schemas
    up.probe.on_change += (
        lambda is_up: up.verdict.link(is_up, up.probe.present, up.probe.outages),
        up.counters.link_changed,
        partial(_end_requests, up.transport, proxy, up.probe),
        cache.refresh.link,
        published.link,
        access.access.link,
        streams.link,
        cache.scopes.link,
        features.link,
    )
    up.probe.on_standstill.append(streams.doubt)
    streams.on_start.append(lambda stream: published.started(stream.scope.resource))
    streams.on_start.append(lambda stream: cache.refresh.started(stream.scope.resource))
    streams.on_history_lost.append(cache.refresh.lost_history)
    streams.beside += (
        lambda: known.size + published.size,
        access.size,
        lambda: streams.minimum.states.size + streams.of_node.size + streams.askings.size,
        features.size,
    )
    for state in (lambda: everything(streams), known.records, published.records):
        journal.rewrite_from(state)


def _held_by(streams: Streams) -> set[ResourceName]:
    """The resources of which objects are cached."""
    return {stream.scope.resource for stream in streams}


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
