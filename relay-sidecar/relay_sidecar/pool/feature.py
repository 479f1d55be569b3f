"""The door: with `--pool`, the relay follows the pool-sidecar of its node.

What it adds: the proxy to a neighbour that lends its link, hubs as sources of pool-scoped streams,
verdicts on other nodes, and with `--pool-listen` what peers may read here.
"""

from collections.abc import Sequence
from functools import partial

from edge_sidecars.kubeapi import ApiClient, ApiTransport, Plain
from edge_sidecars.kubeapi.credentials import watched_token
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.process import VERSION
from relay_sidecar.access.reviews import Reviews
from relay_sidecar.config.preload import Preload
from relay_sidecar.features import Hooks, Parts, RoomListener, Rows, Run, Way
from relay_sidecar.pool.detour import Detour, NeighbourProxy, follow
from relay_sidecar.pool.feeds import Feeds, HubReads
from relay_sidecar.pool.hub_trust import SPACE, OwnRights, SpotCheck
from relay_sidecar.pool.pool_reads import PoolReads, is_shared, shared_stream
from relay_sidecar.pool.sources import PoolSources
from relay_sidecar.streams.streams import Streams
from relay_sidecar.telemetry.metrics import RelayCounters
from relay_sidecar.upstream.documents.upkeep import keep_preloaded
from relay_sidecar.upstream.link_probe import LinkProbe
from relay_sidecar.upstream.reflector.source import UpstreamSource

# Connections of peers: as many as their members may have to that of this node.
CONNECTIONS = 512


async def open_room(parts: Parts) -> Hooks:
    config, streams, probe = parts.config, parts.streams, parts.probe
    assert config.pool is not None
    assert config.pool_token_file is not None
    agent = f"relay-sidecar/{VERSION}"
    token = watched_token(config.pool_token_file)
    proxy = NeighbourProxy(config.pool_connect, token, reads_own=config.pool_listen is None)
    peers = ApiTransport(Plain(f"http://{config.pool_connect}", token), user_agent=agent)
    parts.stack.push_async_callback(peers.close)
    client = ApiClient(Plain(config.pool, token), user_agent=agent)
    parts.stack.push_async_callback(client.close)
    own = parts.connect()
    detour = Detour(
        proxy.sources,
        probe,
        own_probe=lambda: LinkProbe(own, parts.own_link(), is_logged=False),
        moved=streams.reopen,
        refresh=streams.refresh,
        spawn=parts.spawn,
    )
    feeds = _feeds(parts, peers, proxy.sources)
    check = SpotCheck(streams, proxy.sources, parts.source, is_own_link_up=lambda: detour.is_own_up)
    run: list[Run] = [detour.run, partial(follow, client, detour.heard), check.run]
    listeners = []
    if config.pool_listen is not None:
        reads = PoolReads(config.shared, streams, parts.schemas, token, parts.settings)
        listeners.append(RoomListener(config.pool_listen, reads.handle, CONNECTIONS))
        # A node that may lead has at hand what peers are to have from it.
        run += [partial(_keep, parts, it, proxy.sources) for it in config.shared]
    return Hooks(
        proxy=proxy,
        feed=feeds.of,
        is_shared=lambda scope: any(is_shared(it, scope) for it in config.shared),
        way=lambda: Way(detour.via, detour.is_own_up),
        verdicts=proxy.sources,
        status=lambda: {"pool": _shared(streams, config.shared) if listeners else None},
        listeners=listeners,
        run=run,
    )


def _feeds(parts: Parts, peers: ApiTransport, sources: PoolSources) -> Feeds:
    config = parts.config
    hubs = UpstreamSource(
        peers,
        request_timeout=config.request_timeout,
        met=lambda evidence: None,
        authenticated=lambda status: None,
        counters=RelayCounters(),
    )
    rights = OwnRights(
        Reviews(parts.transport, timeout=config.request_timeout).may,
        parts.probe.link,
        parts.journal,
        parts.saved.kept.get(SPACE, {}),
        ttl=config.access_ttl,
    )
    return Feeds(config.shared, sources, HubReads(hubs), rights.may_read)


async def _keep(parts: Parts, shared: Preload, sources: PoolSources) -> None:
    await keep_preloaded(
        parts.streams,
        parts.documents,
        shared,
        is_wanted=lambda: sources.is_candidate(boottime()),
    )


def _shared(streams: Streams, declared: Sequence[Preload]) -> Rows:
    """The streams that peers may read. `cursor`: the version up to which its watchers have all;
    `window`: the oldest from which a watch may begin; both None before the first list."""
    return {"streams": [shared_row(streams, it) for it in declared]}


def shared_row(streams: Streams, declared: Preload) -> Rows:
    stream = shared_stream(streams, declared)
    if stream is None:
        name = f"{declared.plural}.{declared.group}"
        return {"resource": name, "state": "idle", "source": "", "cursor": None, "window": None}
    collection, is_synced = stream.collection, stream.collection.is_synced
    return {
        "resource": str(stream.scope.resource),
        "state": streams.state(stream),
        "source": stream.source,
        "cursor": str(collection.cursor) if is_synced else None,
        "window": str(collection.window_start) if is_synced else None,
    }
