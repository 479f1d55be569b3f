"""OpenTelemetry: the metrics of `metrics`, and one span per term of leadership.

Imported only when OTEL_EXPORTER_OTLP_ENDPOINT is set.
"""

from opentelemetry.trace import Span

from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.otel import Exporter
from elector_sidecar.elector import Elector
from elector_sidecar.metrics import measure

MAX_SLEEP = 60.0


class ElectorTelemetry:
    """Exports from `run` until `close`, which flushes."""

    def __init__(self, elector: Elector) -> None:
        self._elector = elector
        self._term: Span | None = None
        self._token: int | None = None
        self._exporter = Exporter(
            "elector_sidecar",
            lambda: measure(elector, boottime()),
            attributes={
                "service.name": "elector-sidecar",
                "service.instance.id": elector.identity,
                "k8s.namespace.name": elector.config.namespace,
            },
        )

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
        self._end_term("the sidecar ends")
        await self._exporter.close()

    def _follow_term(self) -> None:
        status = self._elector.status(boottime())
        self._end_term(status.reason)
        self._token = status.view.fencing_token
        if self._token is not None:
            self._term = self._exporter.tracer.start_span(
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
