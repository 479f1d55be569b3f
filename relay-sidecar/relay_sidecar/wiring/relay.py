"""A relay before an upstream: which parts there are, and which of them hears of what.

Each part gets what it needs when it is made; what several hear of is one line of `_subscribe`.
Answers before the first contact with upstream: what the last run persisted is there at once.
"""

import time
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.kubeapi import ApiTransport, Credentials, Unreachable
from edge_sidecars.runtime.cli.values import BadInput
from edge_sidecars.runtime.tasks import Spawn
from edge_sidecars.walstore.files import DirectoryInUse
from relay_sidecar.config.config import Config
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Saved
from relay_sidecar.journal.rows import Room
from relay_sidecar.pool.shared_streams import is_shared
from relay_sidecar.streams.scope_journal import ScopeJournal
from relay_sidecar.streams.seen_objects import seen_budget
from relay_sidecar.streams.stream_journal import deletion_records, everything, restore
from relay_sidecar.streams.streams import Streams
from relay_sidecar.streams.sweep import Sweep
from relay_sidecar.telemetry.metrics import RelayCounters
from relay_sidecar.telemetry.status import SecretsStatus, UpstreamLinkStatus
from relay_sidecar.upstream import persisted_verdict
from relay_sidecar.upstream.documents import documents, schemas
from relay_sidecar.upstream.documents.document_source import DocumentSource
from relay_sidecar.upstream.documents.documents import DocumentCache
from relay_sidecar.upstream.documents.schemas import Schemas
from relay_sidecar.upstream.heartbeats import Heartbeats
from relay_sidecar.upstream.link_probe import LinkProbe
from relay_sidecar.upstream.persisted_verdict import PersistedVerdict
from relay_sidecar.upstream.proxy import Proxy
from relay_sidecar.web.api import Api
from relay_sidecar.web.discovery import Discovery
from relay_sidecar.web.reads.reads import Reads
from relay_sidecar.wiring.access import OpenedAccess, open_access
from relay_sidecar.wiring.limits import SCHEMAS_SHARE, budget_of, settings_of
from relay_sidecar.wiring.report import RelayReport
from relay_sidecar.wiring.restart import restart_status
from relay_sidecar.wiring.upkeep import DOCUMENTS_INTERVAL, DocumentRefresh, keep_preloaded
from relay_sidecar.wiring.upstream import (
    followed_streams,
    upstream_link,
    upstream_source,
    upstream_transport,
)

if TYPE_CHECKING:
    from relay_sidecar.endpoint_view.view_api import EndpointViewApi
    from relay_sidecar.journal.sealing.sealed_secrets import SealedSecrets
    from relay_sidecar.pool.detour import Detour
    from relay_sidecar.pool.node_pool import NodePool
    from relay_sidecar.pool.pool_reads import PoolReads

# The journal's space of the data key (journal/sealing/).
SEALING = "sealing"
# In intervals of the probe, since rare probes are for a link that is to be quiet: how old discovery
# may be when the link goes.
DOCUMENT_INTERVALS = 120


class Relay:
    """`spawn` runs a coroutine whose failure ends the process."""

    def __init__(
        self,
        config: Config,
        transport: ApiTransport,
        probe: LinkProbe,
        opened: OpenedAccess,
        journal: Journal,
        saved: Saved,
        *,
        secrets: "SealedSecrets | None" = None,
        pool: "NodePool | None" = None,
        spawn: Spawn,
    ) -> None:
        access = opened.access
        self._config = config
        self._spawn = spawn
        self._transport = transport
        self._probe = probe
        self._journal = journal
        self._pool: tuple[NodePool, Detour] | None = None
        self.pool_reads: PoolReads | None = None
        counters = RelayCounters()
        counters.rows_rejected = 0 if secrets is None else secrets.rows.rejected
        source = upstream_source(config, transport, probe, counters)
        self._shared = (
            None if pool is None else pool.share(config, source, transport, probe, journal, saved)
        )
        self._streams = streams = followed_streams(
            config,
            source,
            probe,
            journal,
            counters,
            feeds=None if self._shared is None else self._shared.feeds,
            spawn=spawn,
        )
        journal.send(*restore(streams, saved, now=time.monotonic(), wall=time.time()))
        self._scopes = ScopeJournal(streams, journal, saved.kept)
        self._documents = DocumentCache(
            journal,
            saved.kept.get(documents.SPACE, {}),
            limit=int(budget_of(config) * SCHEMAS_SHARE),
        )
        streams.kind_of = self._documents.kind_of
        streams.is_shared = lambda scope: any(is_shared(it, scope) for it in config.shared)
        document_source = DocumentSource(
            transport,
            timeout=config.request_timeout,
            met=probe.met,
            authenticated=probe.authenticated,
            received=streams.counters.received,
        )
        self._document_refresh = DocumentRefresh(
            self._documents,
            document_source,
            streams,
            interval=max(DOCUMENT_INTERVALS * config.probe_interval, DOCUMENTS_INTERVAL),
        )
        streams.learn_kind = self._document_refresh.learn_kind
        self._schemas = Schemas(
            self._documents,
            document_source,
            journal,
            saved.kept.get(schemas.SPACE, {}),
            held=lambda: {stream.scope.resource for stream in streams},
            changed=partial(_list_again, streams, config.request_timeout),
        )
        proxy = Proxy(
            transport,
            access,
            probe,
            connect_timeout=config.request_timeout,
            heartbeats=Heartbeats(opened.node, probe.until_up) if opened.node else None,
        )
        self._tokens = None
        if secrets is not None and opened.clock is not None and opened.node:
            from relay_sidecar.kept_tokens.feature import NodeTokens

            self._tokens = NodeTokens(
                config, opened.node, journal, secrets.sealer, opened.clock, streams.counters
            )
            self._tokens.kept.on_issued += opened.issued
        self._node_objects = None
        if opened.node:
            from relay_sidecar.wiring.node_objects import node_objects

            self._node_objects = node_objects(
                config,
                opened.node,
                streams,
                transport,
                probe,
                journal,
                tokens=None if self._tokens is None else self._tokens.kept,
            )
        reads = Reads(
            access, proxy, streams, self._schemas, journal, settings_of(config), metadata=source
        )
        self.api = Api(
            access,
            proxy,
            reads,
            Discovery(self._documents, proxy, timeout=config.request_timeout),
            link_known=probe.known,
            link_settled=probe.settled,
            is_link_open=lambda: probe.is_open,
            logs_refusals=config.log_refusals,
            tokens=None if self._tokens is None else self._tokens.requests(proxy),
        )
        self.endpoint_view: EndpointViewApi | None = None
        if config.endpoint_view is not None and pool is not None:
            from relay_sidecar.endpoint_view.feature import endpoint_view

            self.endpoint_view = endpoint_view(
                config,
                pool.sources,
                pool.on_line,
                self.api,
                access,
                streams,
                journal,
                saved,
                probe,
                settings_of(config),
            )
        view = self.endpoint_view
        self.report = RelayReport(
            config,
            streams,
            link=self._link_status,
            disk_failure=lambda: journal.failure,
            disk_note=saved.note,
            secrets=partial(_secrets_status, secrets),
            tokens=tuple if self._tokens is None else self._tokens.statuses,
            restart=partial(restart_status, config, streams.seen, secrets, self._tokens, opened),
            endpoint_view=None if view is None else view.status,
        )
        self._subscribe(transport, proxy, opened, journal)

    def _subscribe(
        self, transport: ApiTransport, proxy: Proxy, opened: OpenedAccess, journal: Journal
    ) -> None:
        """Who hears of what, in this order."""
        streams, probe = self._streams, self._probe
        probe.on_change += (
            streams.counters.link_changed,
            partial(_end_requests, transport, proxy, probe),
            self._document_refresh.link,
            self._schemas.link,
            opened.access.link,
            streams.link,
            self._scopes.link,
        )
        view, tokens = self.endpoint_view, self._tokens
        if tokens is not None:
            probe.on_change.append(tokens.kept.link)
        if opened.restart is not None:
            opened.restart.known = lambda: {stream.scope.resource for stream in streams}
        probe.on_standstill.append(streams.reflectors.doubt)
        streams.on_evicted.append(lambda stream: journal.send(*deletion_records([stream])))
        streams.on_ended.append(lambda gone: journal.send(*gone))
        streams.beside += (
            lambda: self._documents.size,
            lambda: self._schemas.size,
            opened.size,
            lambda: streams.floor.states.size + streams.of_node.size + streams.askings.size,
        )
        if view is not None:
            streams.beside.append(lambda: view.size)
        if tokens is not None:
            streams.beside.append(lambda: tokens.kept.size)
        streams.on_start.append(lambda stream: self._schemas.started(stream.scope.resource))
        streams.on_start.append(
            lambda stream: self._document_refresh.started(stream.scope.resource)
        )
        streams.on_history_lost.append(self._document_refresh.lost_history)
        journal.rewrite_from(lambda: everything(streams))
        journal.rewrite_from(self._documents.records)
        journal.rewrite_from(self._schemas.records)

    @classmethod
    async def open(
        cls, config: Config, credentials: Credentials, stack: AsyncExitStack, *, spawn: Spawn
    ) -> "Relay":
        """Raises `BadInput`."""
        try:
            overwrites = config.keep_secrets is not None
            budget = budget_of(config)
            journal = await Journal.open(
                config.data_dir,
                overwrites=overwrites,
                room=Room(streams=budget, seen=seen_budget(budget)),
            )
        except DirectoryInUse as error:
            raise BadInput(f"--data-dir {config.data_dir}: {error}") from error
        stack.push_async_callback(journal.close)
        saved = await journal.load()
        secrets = None
        if config.keep_secrets is not None:
            from relay_sidecar.wiring.kept_secrets import unseal

            secrets, saved = unseal(config, config.keep_secrets, journal, saved)
        elif SEALING in saved.kept:
            from relay_sidecar.journal.sealing.authentic_rows import without_tags

            saved = without_tags(saved)
        pool = _node_pool(config, stack)
        connect = partial(upstream_transport, config, credentials, stack)
        transport = connect() if pool is None else connect(detour=pool.proxy)
        verdict = PersistedVerdict(journal, saved.kept.get(persisted_verdict.SPACE, {}))
        probe = LinkProbe(transport, upstream_link(config, was_down=verdict.was_down))
        probe.on_change.append(verdict.link)
        opened = await open_access(
            config,
            transport,
            credentials,
            journal,
            saved,
            probe,
            stack,
            are_authentic=secrets is not None and secrets.rows.are_believed,
            spawn=spawn,
        )
        relay = cls(
            config,
            transport,
            probe,
            opened,
            journal,
            saved,
            secrets=secrets,
            pool=pool,
            spawn=spawn,
        )
        if relay._tokens is not None:
            await relay._tokens.restore(saved)
        if pool is not None:
            detour = pool.detour(
                probe,
                own=connect(),
                own_link=partial(upstream_link, config, was_down=True),
                moved=relay._streams.reflectors.reopen,
                refresh=relay._streams.reflectors.refresh,
                spawn=spawn,
            )
            relay._pool = pool, detour
            if config.pool_listen is not None:
                relay.pool_reads = pool.reads(
                    config.shared, relay._streams, relay._schemas, settings_of(config)
                )
        return relay

    def start(self) -> None:
        """The listener is open."""
        self.report.lack = ""
        self._spawn(self._probe.run())
        if self._pool is not None:
            pool, detour = self._pool
            pool.start(detour, self._spawn)
            if self._shared is not None:
                self._shared.start(
                    self._streams, self._spawn, is_own_link_up=lambda: detour.is_own_up
                )
            if self.pool_reads is not None:
                # Who may lead has at hand what peers are to have from it.
                for shared in self._config.shared:
                    self._spawn(
                        keep_preloaded(
                            self._streams,
                            self._documents,
                            shared,
                            is_wanted=pool.is_candidate,
                        )
                    )
        if self.endpoint_view is not None:
            self._spawn(self.endpoint_view.run())
        self._spawn(Sweep(self._streams).run(self._journal))
        self._spawn(self._document_refresh.run())
        self._spawn(self._schemas.run())
        if self._tokens is not None:
            self._spawn(self._tokens.run(self._streams))
        if self._node_objects is not None:
            self._spawn(self._node_objects.run())
        for wanted in self._config.preload:
            self._spawn(keep_preloaded(self._streams, self._documents, wanted))

    def _link_status(self) -> UpstreamLinkStatus:
        probe = self._probe
        detour = None if self._pool is None else self._pool[1]
        proxy = self._transport.proxy
        return UpstreamLinkStatus(
            server=self._transport.url,
            proxy="" if proxy is None else proxy.url,
            state=probe.state,
            down_for=probe.down_for,
            outages=probe.outages,
            via="" if detour is None else detour.via,
            is_own_up=probe.is_up if detour is None else detour.is_own_up,
            cause=probe.cause,
            was_up=probe.answered_at > 0,
        )


def _node_pool(config: Config, stack: AsyncExitStack) -> "NodePool | None":
    if config.pool is None or config.pool_token_file is None:
        return None
    from relay_sidecar.pool.node_pool import NodePool

    return NodePool(
        config.pool,
        config.pool_token_file,
        config.pool_connect,
        stack,
        is_shown=config.pool_listen is not None,
    )


def _secrets_status(secrets: "SealedSecrets | None") -> SecretsStatus:
    if secrets is None:
        return SecretsStatus()
    from relay_sidecar.wiring.kept_secrets import secrets_status

    return secrets_status(secrets)


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
