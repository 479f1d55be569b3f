"""With `--pool`: the relay follows the pool-sidecar of its node. Imported only there."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from edge_sidecars.kubeapi import ApiClient, ApiTransport, Plain
from edge_sidecars.kubeapi.credentials import watched_token
from edge_sidecars.runtime.cli.values import Address
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.process import VERSION
from edge_sidecars.runtime.tasks import Spawn
from relay_sidecar.access.access_reviews import Reviews
from relay_sidecar.config.config import Config
from relay_sidecar.config.preload import Preload
from relay_sidecar.core.link import UpstreamLink
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Saved
from relay_sidecar.pool import own_rights
from relay_sidecar.pool.core.pool_sources import PoolSources, SourcesLine
from relay_sidecar.pool.detour import Detour, NeighbourProxy
from relay_sidecar.pool.feeds import Feeds
from relay_sidecar.pool.follower import follow
from relay_sidecar.pool.hub_reads import HubReads
from relay_sidecar.pool.own_rights import OwnRights
from relay_sidecar.pool.pool_reads import PoolReads
from relay_sidecar.pool.spot_check import SpotCheck
from relay_sidecar.streams.streams import Streams
from relay_sidecar.telemetry.metrics import RelayCounters
from relay_sidecar.upstream.link_probe import LinkProbe
from relay_sidecar.upstream.reflector.source import UpstreamSource
from relay_sidecar.web.reads.freshness import ReadSettings
from relay_sidecar.web.reads.selection import SelectableFields


class SharedSources:
    """From where the pool-scoped streams of this relay come."""

    def __init__(
        self,
        declared: Sequence[Preload],
        sources: PoolSources,
        cloud: UpstreamSource,
        hubs: HubReads,
        probe: LinkProbe,
        rights: OwnRights,
    ) -> None:
        self._sources = sources
        self._cloud = cloud
        self.feeds = Feeds(declared, sources, cloud, hubs, probe, rights.may_read)

    def start(self, streams: Streams, spawn: Spawn, *, is_own_link_up: Callable[[], bool]) -> None:
        check = SpotCheck(streams, self._sources, self._cloud, is_own_link_up=is_own_link_up)
        spawn(check.run())


class NodePool:
    """`url`, `token_file`, `connect`: of the pool-sidecar. `is_shown`: peers read this relay."""

    def __init__(
        self,
        url: str,
        token_file: Path,
        connect: Address,
        stack: AsyncExitStack,
        *,
        is_shown: bool,
    ) -> None:
        self.token = token = watched_token(token_file)
        self.proxy = NeighbourProxy(connect, token, reads_own=not is_shown)
        # Called after each line.
        self.on_line: list[Callable[[], None]] = []
        self._hubs = ApiTransport(
            Plain(f"http://{connect}", token), user_agent=f"relay-sidecar/{VERSION}"
        )
        stack.push_async_callback(self._hubs.close)
        self._client = ApiClient(Plain(url, token), user_agent=f"relay-sidecar/{VERSION}")
        stack.push_async_callback(self._client.close)

    @property
    def sources(self) -> PoolSources:
        return self.proxy.sources

    def share(
        self,
        config: Config,
        cloud: UpstreamSource,
        transport: ApiTransport,
        probe: LinkProbe,
        journal: Journal,
        saved: Saved,
    ) -> "SharedSources":
        """`transport`: to upstream, as `cloud`."""
        hubs = UpstreamSource(
            self._hubs,
            request_timeout=config.request_timeout,
            met=lambda evidence: None,
            authenticated=lambda status: None,
            counters=RelayCounters(),
        )
        rights = OwnRights(
            Reviews(transport, timeout=config.request_timeout).may,
            probe.link,
            journal,
            saved.kept.get(own_rights.SPACE, {}),
            ttl=config.access_ttl,
        )
        return SharedSources(config.shared, self.sources, cloud, HubReads(hubs), probe, rights)

    def reads(
        self,
        declared: Sequence[Preload],
        streams: Streams,
        schemas: SelectableFields,
        settings: ReadSettings,
    ) -> PoolReads:
        """What peers may read of this relay."""
        return PoolReads(declared, streams, schemas, self.token, settings)

    def is_candidate(self) -> bool:
        """Whether this node may lead."""
        return self.sources.is_candidate(boottime())

    def detour(
        self,
        probe: LinkProbe,
        *,
        own: ApiTransport,
        own_link: Callable[[], UpstreamLink],
        moved: Callable[[], None],
        refresh: Callable[[], None],
        spawn: Spawn,
    ) -> Detour:
        """`own`: never goes over a neighbour."""

        def own_probe() -> LinkProbe:
            return LinkProbe(own, own_link(), is_logged=False)

        return Detour(
            self.proxy.sources,
            probe,
            own_probe=own_probe,
            moved=moved,
            refresh=refresh,
            spawn=spawn,
        )

    def start(self, detour: Detour, spawn: Spawn) -> None:
        def heard(line: SourcesLine) -> None:
            detour.heard(line)
            for observer in self.on_line:
                observer()

        spawn(detour.run())
        spawn(follow(self._client, heard))
