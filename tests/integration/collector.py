"""An OTLP/HTTP collector that keeps what it is sent: a real server for the real exporters."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """Listens while it is entered."""

    def __init__(self) -> None:
        self.metrics: list[ExportMetricsServiceRequest] = []
        self.traces: list[ExportTraceServiceRequest] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/v1/metrics":
                    owner.metrics.append(ExportMetricsServiceRequest.FromString(body))
                elif self.path == "/v1/traces":
                    owner.traces.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Silence: the test reads what came."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def metric(self, name: str) -> float | None:
        """The newest value of a metric with one sample."""
        newest = None
        for request in self.metrics:
            for resource in request.resource_metrics:
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        points = metric.gauge.data_points or metric.sum.data_points
                        if metric.name == name and points:
                            newest = points[0].as_double
        return newest

    def resource(self) -> dict[str, str]:
        """The attributes of who sent the newest metrics."""
        attributes = self.metrics[-1].resource_metrics[0].resource.attributes
        return {each.key: each.value.string_value for each in attributes}

    def span(self, name: str) -> list[Span]:
        """All of this name."""
        return [each for each in self._spans() if each.name == name]

    def spans(self) -> list[str]:
        return [each.name for each in self._spans()]

    def _spans(self) -> list[Span]:
        return [
            span
            for request in self.traces
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
