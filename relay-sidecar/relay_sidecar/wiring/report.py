"""What `/status`, `/metrics` and OpenTelemetry show about a relay, as of now."""

import time
from typing import Final

from edge_sidecars.kubeapi import ApiTransport
from edge_sidecars.runtime.metrics import Metric
from edge_sidecars.runtime.process import VERSION
from edge_sidecars.runtime.web.listener_metrics import figures
from relay_sidecar.config.config import Config
from relay_sidecar.features import Features
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import Streams
from relay_sidecar.telemetry.metrics import measure
from relay_sidecar.telemetry.status import (
    MemoryBudget,
    NamedObject,
    RelayStatus,
    RestartStatus,
    StreamStatus,
    UpstreamLinkStatus,
)
from relay_sidecar.upstream.link_probe import LinkProbe
from relay_sidecar.wiring.journal import OpenedJournal

# What kubelet reads by name before it starts pods, or the volumes of one: by group and plural.
_NEEDED: Final = frozenset(
    {
        ("", "persistentvolumeclaims"),
        ("", "persistentvolumes"),
        ("storage.k8s.io", "csinodes"),
        ("storage.k8s.io", "volumeattachments"),
        ("resource.k8s.io", "resourceclaims"),
    }
)


class RelayReport:
    """`lack`: what is missing before requests can be answered, "" when nothing is."""

    def __init__(
        self,
        config: Config,
        transport: ApiTransport,
        probe: LinkProbe,
        opened: OpenedJournal,
        streams: Streams,
        features: Features,
    ) -> None:
        self.lack = "starting"
        self.counters = streams.counters
        self._config = config
        self._transport = transport
        self._probe = probe
        self._opened = opened
        self._streams = streams
        self._features = features
        self._started_at = time.monotonic()

    def started(self) -> None:
        """The listeners are open."""
        self.lack = ""

    def measured(self) -> list[Metric]:
        return measure(self.status(), self.counters)

    def status(self, *, of_restart: bool = False) -> RelayStatus:
        """`of_restart`: also what a restart would find, which takes longer."""
        return RelayStatus(
            version=VERSION,
            uptime=time.monotonic() - self._started_at,
            lack=self.lack,
            access="caller" if self._config.asks_callers else "own",
            link=self.link,
            journal=self._opened.status(),
            streams=[self._stream_status(stream) for stream in self._streams],
            watchers=self._streams.watchers,
            max_watchers=self._config.max_watchers,
            max_objects=self._config.max_objects,
            budget=self._budget(),
            secrets=self._opened.secrets_status(),
            restart=self._restart() if of_restart else RestartStatus(),
            rooms=self._features.status(),
            measured=self._features.metrics(),
            listeners=figures(),
        )

    @property
    def link(self) -> UpstreamLinkStatus:
        probe, way, proxy = self._probe, self._features.way(), self._transport.proxy
        return UpstreamLinkStatus(
            server=self._transport.url,
            proxy="" if proxy is None else proxy.url,
            state=probe.state,
            down_for=probe.down_for,
            outages=probe.outages,
            via="" if way is None else way.via,
            is_own_up=probe.is_up if way is None else way.is_own_up,
            cause=probe.cause,
            was_up=probe.answered_at > 0,
        )

    def _restart(self) -> RestartStatus:
        """Whether the relay would find all that its node's pods need."""
        objects = [
            NamedObject(resource=str(it.resource), namespace=it.item.key[0], name=it.item.key[1])
            for it in self._streams.seen
            if (it.resource.group, it.resource.plural) in _NEEDED
        ]
        return RestartStatus(
            key_failure=self._opened.key_failure(),
            rooms=self._features.restart(),
            objects=objects,
        )

    def _budget(self) -> MemoryBudget:
        streams = self._streams
        return MemoryBudget(
            used=streams.size,
            limit=streams.limits.memory_budget,
            seen_used=streams.seen.size,
            seen_limit=streams.seen.limit,
            evicted_streams=streams.evicted,
            evicted_objects=streams.seen.evicted,
            running=streams.running,
            max_streams=streams.limits.max_streams,
        )

    def _stream_status(self, stream: Stream) -> StreamStatus:
        scope, collection = stream.scope, stream.collection
        state = self._streams.state(stream)
        age = 0.0 if state == "live" else max(time.time() - stream.as_of, 0.0)
        return StreamStatus(
            resource=str(scope.resource),
            namespace=scope.namespace,
            label_selector=str(scope.labels),
            field_selector=str(scope.fields),
            state=state,
            refusal=stream.refusal.message if stream.refusal else "",
            objects=len(collection.objects),
            size_bytes=collection.size_bytes,
            resource_version=stream.version if collection.is_synced else None,
            age=age if collection.is_synced else None,
            watchers=stream.watchers,
            source=stream.source,
        )
