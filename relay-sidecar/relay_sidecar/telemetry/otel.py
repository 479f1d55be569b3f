"""OpenTelemetry: the metrics of `metrics`, and one span per outage of the link.

Imported only when OTEL_EXPORTER_OTLP_ENDPOINT is set. The SDK's threads export values that the loop
took before, so that nothing is looked at while it changes.
"""

import asyncio
import socket
from typing import Protocol

from edge_sidecars.runtime.metrics import Metric
from edge_sidecars.runtime.otel import Exporter
from relay_sidecar.telemetry.status import RelayStatus

# Seconds between two looks at the relay; the SDK exports each minute by default.
INTERVAL = 5.0
NANOSECONDS = 1_000_000_000


class Measured(Protocol):
    def measured(self) -> list[Metric]:
        """As of now."""
        ...

    def status(self) -> RelayStatus:
        """As of now."""
        ...


class RelayTelemetry:
    """Exports from `run` until `close`, which flushes."""

    def __init__(self, relay: Measured, *, namespace: str) -> None:
        self._relay = relay
        self._latest = relay.measured()
        # Unix time; outages that began until then are exported, as those of an earlier life.
        past = relay.status().link.outages
        self._exported_until = max((outage.began for outage in past), default=0.0)
        self._exporter = Exporter(
            "relay_sidecar",
            lambda: self._latest,
            attributes={
                "service.name": "relay-sidecar",
                "service.instance.id": socket.gethostname(),
                "k8s.namespace.name": namespace,
            },
        )

    async def run(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(INTERVAL)

    async def close(self) -> None:
        self._look()
        await self._exporter.close()

    def _look(self) -> None:
        self._latest = self._relay.measured()
        link = self._relay.status().link
        for outage in link.outages:
            if outage.began > self._exported_until:
                self._exported_until = outage.began
                span = self._exporter.tracer.start_span(
                    "upstream out of reach",
                    attributes={"server.address": link.server},
                    start_time=int(outage.began * NANOSECONDS),
                )
                span.end(int((outage.began + outage.seconds) * NANOSECONDS))
