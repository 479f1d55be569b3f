"""A relay's ways to its upstream, and the streams that it follows there."""

from collections.abc import Callable
from contextlib import AsyncExitStack

from edge_sidecars.kubeapi import (
    MAX_AGE,
    POOLED_FOR,
    SILENCE,
    ApiTransport,
    BackgroundConnects,
    Credentials,
)
from edge_sidecars.runtime.cli.proxies import HttpProxy
from edge_sidecars.runtime.process import VERSION
from edge_sidecars.runtime.tasks import Spawn
from relay_sidecar.config.config import Config
from relay_sidecar.core.link import UpstreamLink
from relay_sidecar.core.min_resource_version import MinResourceVersion
from relay_sidecar.core.stream.reflection import WATCH_TIMEOUT
from relay_sidecar.journal.journal import Journal
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import Streams
from relay_sidecar.telemetry.metrics import RelayCounters
from relay_sidecar.upstream.link_probe import LinkProbe
from relay_sidecar.upstream.reflector.feed import CloudFeed, Feed
from relay_sidecar.upstream.reflector.reflectors import Reflectors
from relay_sidecar.upstream.reflector.source import UpstreamSource
from relay_sidecar.wiring.limits import limits_of

# In intervals of the probe, since rare probes are for a link that is to be quiet: how long an idle
# connection is kept; how long one may be silent before the kernel asks, where a bookmark comes
# sooner (with 15 s: 75 s, kube-apiserver's longest time without one); how long a watch lasts at
# most, and a connection is used (with 15 s: an hour, kube-apiserver's own time for a watch that
# asks for none. Each new one costs a TLS handshake, and a watch a list to prove itself).
KEPT_INTERVALS = 2
SILENT_INTERVALS = 5
USED_INTERVALS = 240
# Seconds; a round trip by which upstream is in another place: fewer bytes are worth upstream's time
# to compress them.
THIN_LINK = 0.02
# Seconds; the deadline of a probe on a quick link: a cut is noticed within 3 s.
PROBE_TIMEOUT = 0.9


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
    feeds: Callable[[Stream], Feed] | None,
    spawn: Spawn,
) -> Streams:
    """`feeds` None: all come from upstream."""

    def from_upstream(stream: Stream) -> Feed:
        return CloudFeed(source, probe)

    def connect(owner: Streams) -> Reflectors:
        return Reflectors(
            feeds or from_upstream,
            journal,
            probe,
            owner,
            spawn=spawn,
            watch_timeout=int(max(USED_INTERVALS * config.probe_interval, WATCH_TIMEOUT)),
        )

    return Streams(connect, MinResourceVersion(), limits_of(config), counters)
