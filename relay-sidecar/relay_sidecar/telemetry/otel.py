"""OpenTelemetry over OTLP/HTTP: the metrics of `metrics`, and one span per outage of the link.

Imported only when OTEL_EXPORTER_OTLP_ENDPOINT is set; endpoint, headers, intervals and resource
are read by the SDK from the standard OTEL_* variables. Exporting happens in the SDK's own threads,
from values that the loop took before, so that nothing is looked at while it changes.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable
from typing import Protocol

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from edge_sidecars.runtime.metrics import Kind, Metric
from edge_sidecars.runtime.process import Farewell
from relay_sidecar.telemetry.status import RelayStatus

SCOPE = "relay_sidecar"
# Seconds between two looks at the relay; the SDK exports each minute by default.
INTERVAL = 5.0
NANOSECONDS = 1_000_000_000
# Seconds that a collector has for the last export, and between two looks whether it is done.
FAREWELL = 1.5
FAREWELL_POLL = 0.02


class Measured(Protocol):
    def measured(self) -> list[Metric]:
        """As of now."""
        ...

    def status(self) -> RelayStatus:
        """As of now."""
        ...


class RelayTelemetry:
    """Exports from `run` until `close`, which flushes."""

    def __init__(self, relay: Measured, *, namespace: str, version: str) -> None:
        self._relay = relay
        self._latest = {metric.name: metric for metric in relay.measured()}
        resource = Resource.create(
            {
                "service.name": "relay-sidecar",
                "service.version": version,
                "service.instance.id": socket.gethostname(),
                "k8s.namespace.name": namespace,
            }
        )
        self._meters = MeterProvider(
            [PeriodicExportingMetricReader(OTLPMetricExporter())],
            resource=resource,
            shutdown_on_exit=False,  # it would wait for a collector that does not answer
        )
        self._traces = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._is_closed = False
        self._traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._traces.get_tracer(SCOPE, version)
        # Unix time; outages that began until then are exported.
        self._exported_until = 0.0
        meter = self._meters.get_meter(SCOPE, version)
        for metric in self._latest.values():
            make = (
                meter.create_observable_gauge
                if metric.kind is Kind.GAUGE
                else meter.create_observable_counter
            )
            make(metric.name, [self._observe(metric.name)], description=metric.text)

    async def run(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(INTERVAL)

    async def close(self) -> None:
        """Exports what is left, as far as the collector takes it within `FAREWELL` seconds;
        once."""
        if self._is_closed:
            return
        self._is_closed = True
        self._look()
        farewell = Farewell((self._traces.shutdown, self._meters.shutdown))
        for _ in range(int(FAREWELL / FAREWELL_POLL)):
            if farewell.is_done:
                return
            await asyncio.sleep(FAREWELL_POLL)

    def _look(self) -> None:
        self._latest = {metric.name: metric for metric in self._relay.measured()}
        link = self._relay.status().link
        for outage in link.outages:
            if outage.began > self._exported_until:
                self._exported_until = outage.began
                span = self._tracer.start_span(
                    "upstream out of reach",
                    attributes={"server.address": link.server or ""},
                    start_time=int(outage.began * NANOSECONDS),
                )
                span.end(int((outage.began + outage.seconds) * NANOSECONDS))

    def _observe(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            for labels, value in self._latest[name].samples:
                yield Observation(value, labels)

        return observe
