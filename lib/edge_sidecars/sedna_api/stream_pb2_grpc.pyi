"""The types of what tools/scripts/proto makes without any, as grpc.aio uses it."""

from collections.abc import AsyncIterator

import grpc

from .stream_pb2 import FromNode, ToNode

class HubStub:
    Connect: grpc.aio.StreamStreamMultiCallable[FromNode, ToNode]
    def __init__(self, channel: grpc.aio.Channel) -> None: ...

class HubServicer:
    def Connect(  # noqa: N802 - the name of the rpc
        self,
        request_iterator: AsyncIterator[FromNode],
        context: grpc.aio.ServicerContext[FromNode, ToNode],
    ) -> AsyncIterator[ToNode]: ...

def add_HubServicer_to_server(  # noqa: N802 - generated
    servicer: HubServicer, server: grpc.aio.Server
) -> None: ...
