"""What `/status`, `/metrics` and OpenTelemetry show about a relay, as of now."""

import time
from collections.abc import Callable, Sequence

from edge_sidecars.runtime.metrics import Metric
from edge_sidecars.runtime.process import VERSION
from edge_sidecars.runtime.web.listener_metrics import figures
from relay_sidecar.config.config import Config
from relay_sidecar.config.preload import Preload
from relay_sidecar.pool.shared_streams import shared_stream
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import Streams
from relay_sidecar.telemetry.metrics import measure
from relay_sidecar.telemetry.status import (
    EndpointViewStatus,
    JournalStatus,
    KeptTokenStatus,
    MemoryBudget,
    RelayStatus,
    RestartStatus,
    SecretsStatus,
    SharedStreamStatus,
    StreamState,
    StreamStatus,
    UpstreamLinkStatus,
)


class RelayReport:
    """`lack`: what is missing before requests can be answered, "" when nothing is."""

    def __init__(
        self,
        config: Config,
        streams: Streams,
        *,
        link: Callable[[], UpstreamLinkStatus],
        disk_failure: Callable[[], str | None],
        disk_note: str | None = None,
        secrets: Callable[[], SecretsStatus] = SecretsStatus,
        tokens: Callable[[], Sequence[KeptTokenStatus]] = tuple,
        restart: Callable[[], RestartStatus] = RestartStatus,
        endpoint_view: Callable[[], EndpointViewStatus] | None = None,
    ) -> None:
        self.lack = "starting"
        self.counters = streams.counters
        self._config = config
        self._streams = streams
        self._link = link
        self._disk_failure = disk_failure
        self._disk_note = disk_note
        self._secrets = secrets
        self._tokens = tokens
        self._restart = restart
        self._endpoint_view = endpoint_view
        self._started_at = time.monotonic()

    def measured(self) -> list[Metric]:
        return measure(self.status(), self.counters)

    def status(self, *, of_restart: bool = False) -> RelayStatus:
        """`of_restart`: also what a restart would find, which takes longer."""
        directory = self._config.data_dir
        return RelayStatus(
            version=VERSION,
            uptime=time.monotonic() - self._started_at,
            lack=self.lack,
            access="caller" if self._config.asks_callers else "own",
            link=self._link(),
            journal=JournalStatus(
                directory=None if directory is None else str(directory),
                failure=self._disk_failure(),
                note=self._disk_note,
            ),
            streams=[self._stream_status(stream) for stream in self._streams],
            watchers=self._streams.watchers,
            max_watchers=self._config.max_watchers,
            max_objects=self._config.max_objects,
            budget=self._budget(),
            secrets=self._secrets(),
            tokens=self._tokens(),
            restart=self._restart() if of_restart else RestartStatus(),
            endpoint_view=None if self._endpoint_view is None else self._endpoint_view(),
            shared=self._shared(),
            listeners=figures(),
        )

    @property
    def link(self) -> UpstreamLinkStatus:
        return self._link()

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
        is_live = self._streams.is_live(stream)
        confirmed_at = self._streams.reflectors.confirmed_at(stream)
        age = 0.0 if is_live else max(time.time() - confirmed_at, 0.0)
        return StreamStatus(
            resource=str(scope.resource),
            namespace=scope.namespace,
            label_selector=str(scope.labels),
            field_selector=str(scope.fields),
            state=self._state(stream, is_live=is_live),
            refusal=stream.refusal.message if stream.refusal else "",
            objects=len(collection.objects),
            size_bytes=collection.size_bytes,
            resource_version=stream.version if collection.is_synced else None,
            age=age if collection.is_synced else None,
            watchers=stream.watchers,
            source=self._streams.reflectors.source(stream),
        )

    def _shared(self) -> Sequence[SharedStreamStatus] | None:
        if self._config.pool_listen is None:
            return None
        return [self._shared_status(it) for it in self._config.shared]

    def _shared_status(self, declared: Preload) -> SharedStreamStatus:
        stream = shared_stream(self._streams, declared)
        if stream is None:
            name = f"{declared.plural}.{declared.group}"
            return SharedStreamStatus(
                resource=name, state="idle", source="", cursor=None, window=None
            )
        collection = stream.collection
        return SharedStreamStatus(
            resource=str(stream.scope.resource),
            state=self._state(stream, is_live=self._streams.is_live(stream)),
            source=self._streams.reflectors.source(stream),
            cursor=collection.cursor if collection.is_synced else None,
            window=collection.window_start if collection.is_synced else None,
        )

    def _state(self, stream: Stream, *, is_live: bool) -> StreamState:
        if is_live:
            return "live"
        if not self._streams.is_started(stream):
            return "idle"
        return "catching up" if self._streams.is_up else "offline"
