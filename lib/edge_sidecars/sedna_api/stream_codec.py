"""The stream's messages as bytes, through the code generated from stream.proto.

Guarantees: what is encoded decodes to an equal value; whatever the peer sent that is no message of
ours raises `NotAMessage`, nothing else. Messages of a later version that say nothing to this one
(an unknown member of the oneof) are None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.message import DecodeError, Message

from edge_sidecars.sedna_api import stream_pb2 as wire
from edge_sidecars.sedna_api.core import messages
from edge_sidecars.sedna_api.core.api_object import Document, NotADocument
from edge_sidecars.sedna_api.core.messages import FromNode, Hello, Put, ToNode
from edge_sidecars.sedna_api.core.report import Report

# `rpc Connect` of stream.proto.
SERVICE = "edgesidecars.sedna.v1.Hub"
METHOD = f"/{SERVICE}/Connect"
# Bytes of one message to a node: etcd takes 1.5 MiB, --max-request-bytes; an object is no larger.
MAX_TO_NODE: Final = 4 * 1024 * 1024
# https://github.com/grpc/grpc/blob/master/doc/keepalive.md, of both ends. A ping without an answer
# ends the connection after ping_timeout, which is a minute by default, whatever keepalive_timeout
# says.
KEEPALIVE: Final = (
    ("grpc.keepalive_time_ms", 5000),
    ("grpc.keepalive_timeout_ms", 5000),
    ("grpc.http2.ping_timeout_ms", 5000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)


class NotAMessage(ValueError):
    """Bytes that are none of the stream's messages."""


# Types by member of the oneof; a field has the same name in both.
_FROM_NODE: Final = {"hello": Hello, "report": Report}
_TO_NODE: Final = {
    "put": Put,
    "delete": messages.Delete,
    "snapshot_end": messages.SnapshotEnd,
    "ack": messages.Ack,
    "refused": messages.ReportRefused,
    "drain": messages.Drain,
    "rewound": messages.Rewound,
    "pace": messages.Pace,
}
_MEMBERS: Final[Mapping[type, str]] = {of: member for member, of in (_FROM_NODE | _TO_NODE).items()}
_FIELDS: Final = {
    member.name: tuple(it.name for it in member.message_type.fields)
    for envelope in (wire.FromNode, wire.ToNode)
    for member in envelope.DESCRIPTOR.fields
    if member.message_type is not None
}


def encode_from_node(message: FromNode) -> bytes:
    return wire.FromNode(**_content(message)).SerializeToString()


def encode_to_node(message: ToNode) -> bytes:
    return wire.ToNode(**_content(message)).SerializeToString()


def _content(message: FromNode | ToNode) -> dict[str, Any]:
    if isinstance(message, Put):
        return {"put": {"kind": message.document.kind, "object": message.document.raw}}
    member = _MEMBERS[type(message)]
    return {member: {name: getattr(message, name) for name in _FIELDS[member]}}


def decode_from_node(data: bytes) -> FromNode | None:
    """Raises `NotAMessage`."""
    try:
        found: FromNode | None = _decoded(wire.FromNode.FromString(data), _FROM_NODE)
    except DecodeError as error:
        raise NotAMessage("not a message from a node") from error
    return found


def decode_to_node(data: bytes) -> ToNode | None:
    """Raises `NotAMessage`."""
    try:
        found: ToNode | None = _decoded(wire.ToNode.FromString(data), _TO_NODE)
    except (DecodeError, NotADocument) as error:
        raise NotAMessage(f"not a message from GM: {error}") from error
    return found


def _decoded(envelope: Message, types: Mapping[str, Any]) -> Any:
    member = envelope.WhichOneof("message")
    if member is None:
        return None
    content: Any = getattr(envelope, member)
    if types[member] is Put:
        return Put(Document.parse(content.object, content.kind))
    values = {name: getattr(content, name) for name in _FIELDS[member]}
    if types[member] is Hello:
        values["known"] = dict(values["known"])
    return types[member](**values)
