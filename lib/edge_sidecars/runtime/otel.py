"""OpenTelemetry over OTLP/HTTP, for a component's metrics and spans.

Imported only when OTEL_EXPORTER_OTLP_ENDPOINT is set; endpoint, headers, intervals and resource
are read by the SDK from the standard OTEL_* variables. Exporting happens in the SDK's own threads.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from edge_sidecars.runtime.metrics import Kind, Metric
from edge_sidecars.runtime.version import VERSION

# Seconds that a collector has for the last export, and between two looks whether it is done.
SHUTDOWN_GRACE = 1.5
SHUTDOWN_POLL = 0.02


class Exporter:
    """Exports until `close`, which flushes. `measure`: the metrics of now; it is called in the
    SDK's threads. `attributes`: of the resource, beside service.version."""

    def __init__(
        self,
        scope: str,
        measure: Callable[[], Iterable[Metric]],
        *,
        attributes: Mapping[str, str],
    ) -> None:
        resource = Resource.create({"service.version": VERSION, **attributes})
        self._measure = measure
        self._meters = MeterProvider(
            [PeriodicExportingMetricReader(OTLPMetricExporter())],
            resource=resource,
            shutdown_on_exit=False,  # it would wait for a collector that does not answer
        )
        self._traces = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self.tracer = self._traces.get_tracer(scope, VERSION)
        self._is_closed = False
        meter = self._meters.get_meter(scope, VERSION)
        for metric in measure():
            make = (
                meter.create_observable_gauge
                if metric.kind is Kind.GAUGE
                else meter.create_observable_counter
            )
            # A histogram's series are counters, named as Prometheus has them: the SDK cannot
            # observe histograms.
            for name in metric.names:
                make(name, [self._observe(name)], description=metric.text)

    async def close(self) -> None:
        """Exports what is left, as far as the collector takes it within `SHUTDOWN_GRACE` seconds.

        Nothing joins these threads, as those of an event loop's executor are joined: the process
        ends without what is not done by then.
        """
        if self._is_closed:
            return
        self._is_closed = True
        works = (self._traces.shutdown, self._meters.shutdown)
        threads = [threading.Thread(target=work, daemon=True) for work in works]
        for thread in threads:
            thread.start()
        for _ in range(int(SHUTDOWN_GRACE / SHUTDOWN_POLL)):
            if not any(thread.is_alive() for thread in threads):
                return
            await asyncio.sleep(SHUTDOWN_POLL)

    def _observe(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            for metric in self._measure():
                if name in metric.names:
                    for found, labels, value in metric.series():
                        if found == name:
                            yield Observation(value, labels)

        return observe
