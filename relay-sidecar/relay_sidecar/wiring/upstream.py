"""What the command line means for the ways to upstream, for the streams that are followed there,
and for reads."""

from collections.abc import Callable
from contextlib import AsyncExitStack

from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.kubeapi import (
    MAX_AGE,
    POOLED_FOR,
    SILENCE,
    ApiTransport,
    BackgroundConnects,
    Credentials,
)
from edge_sidecars.runtime.cli.proxies import HttpProxy
from edge_sidecars.runtime.memory_limit import memory_limit
from edge_sidecars.runtime.process import VERSION
from edge_sidecars.runtime.tasks import Spawn
from relay_sidecar.config.config import Config
from relay_sidecar.core.link import UpstreamLink
from relay_sidecar.core.min_resource_version import MinResourceVersion
from relay_sidecar.core.stream.reflection import WATCH_TIMEOUT
from relay_sidecar.features import Features
from relay_sidecar.journal.journal import Journal
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import DEFAULT_BUDGET, Limits, Streams
from relay_sidecar.telemetry.metrics import RelayCounters
from relay_sidecar.upstream.link_probe import LinkProbe
from relay_sidecar.upstream.reflector.reflector import ReflectorFactory
from relay_sidecar.upstream.reflector.source import CloudFeed, Feed, UpstreamSource
from relay_sidecar.web.reads.freshness import ReadSettings

# In intervals of the probe, since rare probes are for a link that is to be quiet. The first: how
# long an idle connection is kept. The second: how long one may be silent before the kernel asks,
# where a bookmark comes sooner (with 15 s: 75 s, kube-apiserver's longest time without one). The
# third: how long a watch lasts at most, and a connection is used (with 15 s: an hour,
# kube-apiserver's own time for a watch that asks for none. Each new one costs a TLS handshake, and
# a watch a list to prove itself).
KEPT_INTERVALS = 2
SILENT_INTERVALS = 5
USED_INTERVALS = 240
# Seconds; a round trip by which upstream is in another place: fewer bytes are worth upstream's time
# to compress them.
THIN_LINK = 0.02
# Seconds; the deadline of a probe on a quick link: a cut is noticed within 3 s.
PROBE_TIMEOUT = 0.9
# A window covers what a client misses between two watches; bytes and events of one stream.
WINDOW_BYTES = 8 * 1024 * 1024
WINDOW_EVENTS = 10_000
# Of the budget, the window of one stream: a few busy ones leave room for objects.
WINDOW_SHARE = 1 / 16
# Of the budget, documents of OpenAPI: kubectl validates by them, nothing on a node needs them.
SCHEMAS_SHARE = 1 / 4
# Of the cgroup's limit; the rest is for the process itself and for answers under way.
SHARE_OF_LIMIT = 0.6


def upstream_transport(
    config: Config,
    credentials: Credentials,
    stack: AsyncExitStack,
    *,
    detour: Callable[[], HttpProxy | None] = lambda: None,
) -> ApiTransport:
    at_rest = config.probe_interval
    transport = ApiTransport(
        credentials,
        user_agent=f"relay-sidecar/{VERSION}",
        pooled_for=max(KEPT_INTERVALS * at_rest, POOLED_FOR),
        background=BackgroundConnects(silence=max(SILENT_INTERVALS * at_rest, SILENCE)),
        max_age=max(USED_INTERVALS * at_rest, MAX_AGE),
        detour=detour,
    )
    stack.push_async_callback(transport.close)
    return transport


def upstream_link(config: Config, *, was_down: bool) -> UpstreamLink:
    return UpstreamLink(
        probe_interval=config.probe_interval,
        probe_timeout=PROBE_TIMEOUT,
        max_probe_timeout=config.probe_timeout,
        was_down=was_down,
    )


def upstream_source(
    config: Config, transport: ApiTransport, probe: LinkProbe, counters: RelayCounters
) -> UpstreamSource:
    return UpstreamSource(
        transport,
        request_timeout=config.request_timeout,
        met=probe.met,
        authenticated=probe.authenticated,
        counters=counters,
        is_thin=lambda: probe.link.round_trip > THIN_LINK,
    )


def followed_streams(
    config: Config,
    source: UpstreamSource,
    probe: LinkProbe,
    journal: Journal,
    counters: RelayCounters,
    *,
    kind_of: Callable[[ResourceName], str],
    features: Features,
    spawn: Spawn,
) -> Streams:
    def feed(stream: Stream) -> Feed:
        return features.feed(stream, CloudFeed(source, probe))

    factory = ReflectorFactory(
        feed,
        journal,
        spawn=spawn,
        watch_timeout=int(max(USED_INTERVALS * config.probe_interval, WATCH_TIMEOUT)),
    )
    return Streams(
        factory,
        MinResourceVersion(),
        limits_of(config),
        counters,
        journal,
        link=probe,
        kind_of=kind_of,
        is_shared=features.is_shared,
    )


def budget_of(config: Config) -> int:
    """Bytes."""
    if config.memory_budget is not None:
        return config.memory_budget
    limit = memory_limit()
    return DEFAULT_BUDGET if limit is None else int(limit * SHARE_OF_LIMIT)


def limits_of(config: Config) -> Limits:
    budget = budget_of(config)
    return Limits(
        memory_budget=budget,
        max_streams=config.max_streams,
        max_objects=config.max_objects,
        max_watchers=config.max_watchers,
        window_bytes=min(WINDOW_BYTES, int(budget * WINDOW_SHARE)),
        window_events=WINDOW_EVENTS,
        idle_timeout=config.idle_timeout,
        retain=config.retain,
        open_timeout=config.read_timeout,
    )


def settings_of(config: Config) -> ReadSettings:
    return ReadSettings(
        reads_cache=not config.reads_upstream,
        read_timeout=config.read_timeout,
        request_timeout=config.request_timeout,
        max_watchers=config.max_watchers,
        watch_buffer=config.watch_buffer,
    )
