"""OpenTelemetry over OTLP/HTTP: the metrics of `metrics`, and one span per term of leadership.

Imported only when OTEL_EXPORTER_OTLP_ENDPOINT is set; endpoint, headers, intervals and resource
are read by the SDK from the standard OTEL_* variables. Exporting happens in the SDK's own threads.
"""

import asyncio
from collections.abc import Callable, Iterable

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span

from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.metrics import Kind
from edge_sidecars.runtime.process import Farewell
from elector_sidecar.elector import Elector
from elector_sidecar.metrics import measure

SCOPE = "elector_sidecar"
MAX_SLEEP = 60.0
# Seconds that a collector has for the last export, and between two looks whether it is done.
FAREWELL = 1.5
FAREWELL_POLL = 0.02


class Telemetry:
    """Exports from `run` until `close`, which flushes."""

    def __init__(self, elector: Elector) -> None:
        self._elector = elector
        self._term: Span | None = None
        self._token: int | None = None
        resource = Resource.create(
            {
                "service.name": "elector-sidecar",
                "service.instance.id": elector.identity,
                "k8s.namespace.name": elector.config.namespace,
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
        self._tracer = self._traces.get_tracer(SCOPE)
        self._register()

    @property
    def is_flushed(self) -> bool:
        return self._token == self._elector.status(boottime()).view.fencing_token

    async def run(self) -> None:
        while True:
            if self.is_flushed:
                await self._elector.changed(MAX_SLEEP)
            else:
                self._follow_term()

    async def close(self) -> None:
        """Exports what is left, as far as the collector takes it within `FAREWELL` seconds;
        once."""
        if self._is_closed:
            return
        self._is_closed = True
        self._end_term("the sidecar ends")
        farewell = Farewell((self._traces.shutdown, self._meters.shutdown))
        for _ in range(int(FAREWELL / FAREWELL_POLL)):
            if farewell.is_done:
                return
            await asyncio.sleep(FAREWELL_POLL)

    def _follow_term(self) -> None:
        status = self._elector.status(boottime())
        self._end_term(status.reason)
        self._token = status.view.fencing_token
        if self._token is not None:
            self._term = self._tracer.start_span(
                "leadership term",
                attributes={
                    "lease.namespace": status.namespace,
                    "lease.name": status.name,
                    "lease.fencing_token": self._token,
                    "lease.holder_identity": status.identity,
                },
            )

    def _end_term(self, reason: str) -> None:
        if self._term is not None:
            self._term.set_attribute("lease.end_reason", reason)
            self._term.end()
            self._term = None

    def _register(self) -> None:
        meter = self._meters.get_meter(SCOPE)
        for metric in measure(self._elector, boottime()):
            make = (
                meter.create_observable_gauge
                if metric.kind is Kind.GAUGE
                else meter.create_observable_counter
            )
            make(metric.name, [self._observe(metric.name)], description=metric.text)

    def _observe(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            for metric in measure(self._elector, boottime()):
                if metric.name == name:
                    for labels, value in metric.samples:
                        yield Observation(value, labels)

        return observe
