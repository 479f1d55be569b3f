"""grpc.health.v1: whether this GM takes LCs now, for kubelet's probes and load balancers.

Guarantees: an answer is true at the moment of asking. "" and the stream's service have the same
health; others are not known here.
Source: https://github.com/grpc/grpc/blob/master/doc/health-checking.md
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeAlias

import grpc
import grpc.aio
from grpc_health.v1.health_pb2 import DESCRIPTOR, HealthCheckRequest, HealthCheckResponse

from gm.hub.hub import LOOK_EVERY, Hub

_Context: TypeAlias = grpc.aio.ServicerContext[HealthCheckRequest, HealthCheckResponse]


def health_handler(hub: Hub, service: str) -> grpc.GenericRpcHandler:
    """For a server that serves `service` while the hub does."""
    answers = _Health(hub, service)
    methods = {
        "Check": grpc.unary_unary_rpc_method_handler(
            answers.check,
            request_deserializer=HealthCheckRequest.FromString,
            response_serializer=HealthCheckResponse.SerializeToString,
        ),
        "Watch": grpc.unary_stream_rpc_method_handler(
            answers.watch,
            request_deserializer=HealthCheckRequest.FromString,
            response_serializer=HealthCheckResponse.SerializeToString,
        ),
    }
    name = DESCRIPTOR.services_by_name["Health"].full_name
    return grpc.method_handlers_generic_handler(name, methods)


class _Health:
    def __init__(self, hub: Hub, service: str) -> None:
        self._hub = hub
        self._known = ("", service)

    async def check(self, request: HealthCheckRequest, context: _Context) -> HealthCheckResponse:
        if request.service not in self._known:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no service {request.service!r:.80}")
        return self._answer(request)

    async def watch(
        self, request: HealthCheckRequest, context: _Context
    ) -> AsyncIterator[HealthCheckResponse]:
        told: HealthCheckResponse | None = None
        while True:
            answer = self._answer(request)
            if told is None or answer.status != told.status:
                told = answer
                yield answer
            await asyncio.sleep(LOOK_EVERY)

    def _answer(self, request: HealthCheckRequest) -> HealthCheckResponse:
        if request.service not in self._known:
            return HealthCheckResponse(status=HealthCheckResponse.SERVICE_UNKNOWN)
        is_serving = self._hub.unavailable() is None
        serving, not_serving = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING
        return HealthCheckResponse(status=serving if is_serving else not_serving)
