"""The gRPC carrier of streams, and the standard health service beside it.

Guarantees: UNAVAILABLE while the hub serves no LC, before anything else. A dead peer is found
within ten seconds (keepalive, and TCP_USER_TIMEOUT, which gRPC sets to the keepalive's time-out).
What one LC does not read waits in its own queue, and what it may send is bounded. A stream that
ends says Drain where it can, and never waits for an LC that does not read. grpc.health.v1 tells
kubelet's probes and load balancers whether this GM takes LCs now, as of the moment of asking: ""
and the stream's service have the same health, others are not known here. Source:
https://github.com/grpc/grpc/blob/master/doc/health-checking.md
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from ipaddress import ip_address
from typing import Any, Final, NoReturn, TypeAlias
from urllib.parse import unquote

import grpc
import grpc.aio
from grpc_health.v1.health_pb2 import DESCRIPTOR, HealthCheckRequest, HealthCheckResponse

from edge_sidecars.runtime.cli.values import Address, describe_failure
from edge_sidecars.runtime.log import fields, logger, sparing
from edge_sidecars.runtime.web.foreign_port import FOREIGN_PORTS, ForeignPort
from edge_sidecars.runtime.web.listener import connection_limit
from edge_sidecars.sedna_api.core.messages import Hello, Put, ToNode
from edge_sidecars.sedna_api.core.report import Report
from edge_sidecars.sedna_api.stream_codec import (
    KEEPALIVE,
    MAX_TO_NODE,
    SERVICE,
    NotAMessage,
    decode_from_node,
    encode_to_node,
)
from gm.hub.core.proof import CERTIFICATE, NodeProof, token_proof
from gm.hub.core.session import EndCause, SessionEnded, flaw
from gm.hub.credentials import ServerTls, node_of_certificate, server_credentials, token_of
from gm.hub.hub import LOOK_EVERY, Hub
from gm.hub.ports import ReviewUnavailable, TokenReviewer
from gm.hub.stream import NodeStream, Task, carry

# Bytes: a report's body is 64 KiB at most, its names are short.
MAX_FROM_NODE: Final = 128 * 1024
# Seconds from the connection to the hello.
HELLO_TIMEOUT: Final = 10.0
# Connections beside those of LCs: kubelet's probes and load balancers ask for health.
PROBES: Final = 16
# Kept for the API, the other listeners and the runtime itself: a flood of connections here must
# not be an outage there.
RESERVED_DESCRIPTORS: Final = 256
# Seconds between two looks at how many connections there are.
COUNT_EVERY: Final = 10.0
# Seconds for the Drain of a stream that ends.
FAREWELL: Final = 0.5
# Seconds for what is left of streams when the server stops.
GRACE: Final = 0.5

# LC pings each 5 s as we do, and gRPC by itself to measure the link: a server that counts strikes
# ends such a connection now and then with GOAWAY "too_many_pings".
OPTIONS: Final = (
    *KEEPALIVE,
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.max_receive_message_length", MAX_FROM_NODE),
    ("grpc.max_send_message_length", MAX_TO_NODE),
    # Of one LC: its stream, and health beside it.
    ("grpc.max_concurrent_streams", 8),
    # A connection that does not even get to HTTP/2, as HTTP/1 has for its head.
    ("grpc.server_handshake_timeout_ms", 10_000),
    # A connection without a stream: an LC has one all the time, a probe comes again.
    ("grpc.max_connection_idle_ms", 60_000),
    # Two GMs on one port are a mistake, not half of the LCs each.
    ("grpc.so_reuseport", 0),
)

_CODES: Final = {
    EndCause.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    EndCause.MALFORMED: grpc.StatusCode.INVALID_ARGUMENT,
    EndCause.FOREIGN: grpc.StatusCode.PERMISSION_DENIED,
    EndCause.REPLACED: grpc.StatusCode.ABORTED,
}
# Bytes in, bytes out: the codec is ours.
_Context: TypeAlias = grpc.aio.ServicerContext[bytes, bytes]


class CannotListen(Exception):
    """The address is taken, or not ours."""


class StreamServer:
    """Serves from `start` to `stop`; the hub's `drain` comes before `stop`.

    `tls` None: in the clear. With neither a client CA nor a `reviewer`, only LCs of this machine's
    loopback are believed to be the node that they name; with `trust_any_lc` all are."""

    def __init__(
        self,
        hub: Hub,
        *,
        tls: ServerTls | None = None,
        reviewer: TokenReviewer | None = None,
        trust_any_lc: bool = False,
    ) -> None:
        self._hub = hub
        self._tls = tls
        self._reviewer = reviewer
        self._trust_any_lc = trust_any_lc
        self._port: ForeignPort | None = None
        self._counting: asyncio.Task[None] | None = None
        self._limit: int | None = None
        options: tuple[tuple[str, int], ...] = OPTIONS
        if hub.max_lcs is not None:
            self._limit = connection_limit(
                1, most=hub.max_lcs + PROBES, least=PROBES, reserved=RESERVED_DESCRIPTORS
            )
            options = (*OPTIONS, ("grpc.max_allowed_incoming_connections", self._limit))
        self._server = grpc.aio.server(options=options)
        method: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(
            self._connect
        )
        hub_handler = grpc.method_handlers_generic_handler(SERVICE, {"Connect": method})
        self._server.add_generic_rpc_handlers((hub_handler, health_handler(hub, SERVICE)))

    async def start(self, address: str) -> int:
        """Listens at host:port and returns the port. Raises `CannotListen`, and
        `UnusableCertificate`."""
        if address.startswith(":"):
            address = f"[::]{address}"  # gRPC's word for every address of both families
        try:
            if self._tls is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, server_credentials(self._tls))
        except RuntimeError as error:
            raise CannotListen(f"{address}: {describe_failure(error)}") from error
        await self._server.start()
        if self._limit is not None:
            host = address.rpartition(":")[0].strip("[]")
            self._port = ForeignPort(Address("" if host == "::" else host, port), self._limit)
            FOREIGN_PORTS.add(self._port)
            self._counting = asyncio.create_task(_tell_when_full(self._port))
        return port

    async def stop(self) -> None:
        """Resets what is left; nothing listens any more."""
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.gather(self._counting, return_exceptions=True)
        if self._port is not None:
            FOREIGN_PORTS.discard(self._port)
        await self._server.stop(GRACE)

    # One stream

    async def _connect(self, _requests: AsyncIterator[bytes], context: _Context) -> None:
        turned_away = self._hub.turn_away(may_wait=True)
        if turned_away is not None:
            await _abort(context, turned_away)
        entered = await self._greet(context)
        if isinstance(entered, SessionEnded):
            await _abort(context, entered)
        try:
            # LC may wait for its first message: it is connected.
            await context.send_initial_metadata(())
            await carry(
                entered, _write_all(context, entered), _read_all(context, entered), _take_leave
            )
        finally:
            self._hub.leave(entered)
        if entered.ended is not None:
            await _abort(context, entered.ended)

    async def _greet(self, context: _Context) -> NodeStream | SessionEnded:
        stranger = self._stranger(context)
        if stranger is not None:
            return stranger
        try:
            node, proof = await self._proven_node(context)
            async with asyncio.timeout(HELLO_TIMEOUT):
                message = await _read(context)
        except TimeoutError:
            return SessionEnded(EndCause.MALFORMED, f"no hello within {HELLO_TIMEOUT:g} s")
        except NotAMessage as error:
            return SessionEnded(EndCause.MALFORMED, str(error))
        except ReviewUnavailable as error:
            return SessionEnded(EndCause.UNAVAILABLE, f"the token could not be reviewed: {error}")
        if not isinstance(message, Hello):
            return SessionEnded(EndCause.MALFORMED, "the first message is a hello")
        found = flaw(message, node)
        if found is not None:
            logger.warning("an LC is refused", extra=fields(node=message.node, why=found.detail))
            return found
        return self._hub.enter(message, transport="grpc", may_wait=True, proof=proof)

    async def _proven_node(self, context: _Context) -> tuple[str | None, NodeProof | None]:
        """The node, None where no proof is asked for, "" where the proof names none; and the
        proof."""
        if self._tls is not None and self._tls.client_ca is not None:
            return node_of_certificate(_auth_context(context)), CERTIFICATE
        if self._reviewer is None:
            return None, None
        token = token_of(tuple(context.invocation_metadata() or ()))
        node = await self._reviewer.node_of(token) if token else None
        return (node, token_proof(token)) if node else ("", None)

    def _stranger(self, context: _Context) -> SessionEnded | None:
        """Why a caller that is asked for no credentials is refused."""
        asks = self._reviewer is not None or (
            self._tls is not None and self._tls.client_ca is not None
        )
        if asks or self._trust_any_lc or is_loopback(str(context.peer())):
            return None
        detail = (
            "this GM asks for no credentials and takes LCs of its own machine only: give it "
            "--review-tokens or --client-ca, or --trust-any-lc"
        )
        if sparing.allows("strangers"):
            logger.warning("an LC is refused", extra=fields(peer=context.peer(), why=detail))
        return SessionEnded(EndCause.FOREIGN, detail)


async def _tell_when_full(port: ForeignPort) -> None:
    """gRPC closes what is too much without a word."""
    while True:
        await asyncio.sleep(COUNT_EVERY)
        peers = await asyncio.to_thread(port.peers)
        if peers.total() >= port.limit and sparing.allows("places", str(port.bound)):
            [(peer, has)] = peers.most_common(1)
            logger.warning(
                "all connections of the stream are taken",
                extra=fields(listen=port.bound, limit=port.limit, peer=peer or "loopback", has=has),
            )


def _auth_context(context: _Context) -> Mapping[str, Sequence[bytes]]:
    found: Any = context.auth_context()
    return {str(key): tuple(values) for key, values in found.items()}


def is_loopback(peer: str) -> bool:
    """Whether gRPC's name of a peer, as `ipv4:127.0.0.1:5` or `ipv6:%5B::1%5D:5`, is of this
    machine's loopback."""
    host = unquote(peer).partition(":")[2].rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


async def _abort(context: _Context, ended: SessionEnded) -> NoReturn:
    await context.abort(_CODES[ended.cause], ended.detail)


async def _take_leave(writing: Task, _: Task) -> None:
    await asyncio.wait({writing}, timeout=FAREWELL)


async def _write_all(context: _Context, stream: NodeStream) -> None:
    while (message := await stream.next_message()) is not None:
        data = encode_to_node(message)
        if len(data) > MAX_TO_NODE:
            _skip(stream, message, len(data))
            continue
        await context.write(data)


def _skip(stream: NodeStream, message: ToNode, size: int) -> None:
    """One object that no API server would have stored must not end the stream again and again."""
    key = message.document.key if isinstance(message, Put) else type(message).__name__
    logger.error("too large to be sent", extra=fields(node=stream.node, what=key, bytes=size))


async def _read_all(context: _Context, stream: NodeStream) -> None:
    try:
        while (message := await _read(context)) is not _HUNG_UP:
            if isinstance(message, Report):
                await stream.deliver(message)
            elif isinstance(message, Hello):
                stream.end(EndCause.MALFORMED, "a second hello")
    except NotAMessage as error:
        stream.end(EndCause.MALFORMED, str(error))


class _HungUp:
    """LC sends no more."""


_HUNG_UP: Final = _HungUp()


async def _read(context: _Context) -> Hello | Report | _HungUp | None:
    """None: a message that only a later version knows. Raises `NotAMessage`."""
    data: Any = await context.read()
    return _HUNG_UP if data is grpc.aio.EOF else decode_from_node(data)


_HealthContext: TypeAlias = grpc.aio.ServicerContext[HealthCheckRequest, HealthCheckResponse]


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

    async def check(
        self, request: HealthCheckRequest, context: _HealthContext
    ) -> HealthCheckResponse:
        if request.service not in self._known:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no service {request.service!r:.80}")
        return self._answer(request)

    async def watch(
        self, request: HealthCheckRequest, context: _HealthContext
    ) -> AsyncIterator[HealthCheckResponse]:
        sent: HealthCheckResponse | None = None
        while True:
            answer = self._answer(request)
            if sent is None or answer.status != sent.status:
                sent = answer
                yield answer
            await asyncio.sleep(LOOK_EVERY)

    def _answer(self, request: HealthCheckRequest) -> HealthCheckResponse:
        if request.service not in self._known:
            return HealthCheckResponse(status=HealthCheckResponse.SERVICE_UNKNOWN)
        is_serving = self._hub.unavailable() is None
        serving, not_serving = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING
        return HealthCheckResponse(status=serving if is_serving else not_serving)
