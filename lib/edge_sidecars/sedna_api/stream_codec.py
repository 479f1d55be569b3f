"""The stream's messages as bytes, through the code generated from stream.proto.

Guarantees: what is encoded decodes to an equal value; whatever the peer sent that is no message of
ours raises `NotAMessage`, nothing else. Messages of a later version that say nothing to this one
(an unknown member of the oneof) are None.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from edge_sidecars.sedna_api import stream_pb2 as wire
from edge_sidecars.sedna_api.core.api_object import Document, NotADocument
from edge_sidecars.sedna_api.core.messages import (
    Ack,
    Delete,
    Drain,
    FromNode,
    Hello,
    Pace,
    Put,
    Refused,
    Rewound,
    SnapshotEnd,
    ToNode,
)
from edge_sidecars.sedna_api.core.report import Report

# `rpc Connect` of stream.proto.
SERVICE = "edgesidecars.sedna.v1.Hub"
METHOD = f"/{SERVICE}/Connect"


class NotAMessage(ValueError):
    """Bytes that are none of the stream's messages."""


def encode_from_node(message: FromNode) -> bytes:
    if isinstance(message, Hello):
        hello = wire.Hello(
            node=message.node,
            store_id=message.store_id,
            known=message.known,
            version=message.version,
        )
        return wire.FromNode(hello=hello).SerializeToString()
    report = wire.Report(
        store_id=message.store_id,
        seq=message.seq,
        uid=message.uid,
        kind=message.kind,
        namespace=message.namespace,
        name=message.name,
        is_event=message.is_event,
        worker=message.worker,
        body=message.body,
        previous=message.previous,
    )
    return wire.FromNode(report=report).SerializeToString()


def decode_from_node(data: bytes) -> FromNode | None:
    """Raises `NotAMessage`."""
    try:
        message = wire.FromNode.FromString(data)
    except DecodeError as error:
        raise NotAMessage("not a message from a node") from error
    match message.WhichOneof("message"):
        case "hello":
            hello = message.hello
            return Hello(hello.node, hello.store_id, dict(hello.known), hello.version)
        case "report":
            return _report(message.report)
        case _:
            return None


def _report(report: wire.Report) -> Report:
    return Report(
        store_id=report.store_id,
        seq=report.seq,
        uid=report.uid,
        kind=report.kind,
        namespace=report.namespace,
        name=report.name,
        is_event=report.is_event,
        worker=report.worker,
        body=report.body,
        previous=report.previous,
    )


def encode_to_node(message: ToNode) -> bytes:
    return _to_node(message).SerializeToString()


def _to_node(message: ToNode) -> wire.ToNode:
    match message:
        case Put(document):
            return wire.ToNode(put=wire.Put(kind=document.kind, object=document.raw))
        case Delete(kind, namespace, name, uid, version):
            delete = wire.Delete(
                kind=kind, namespace=namespace, name=name, uid=uid, resource_version=version
            )
            return wire.ToNode(delete=delete)
        case SnapshotEnd():
            return wire.ToNode(snapshot_end=wire.SnapshotEnd())
        case Ack(store_id, uid, seq):
            return wire.ToNode(ack=wire.Ack(store_id=store_id, uid=uid, seq=seq))
        case Refused(store_id, uid, seq, reason):
            refused = wire.Refused(store_id=store_id, uid=uid, seq=seq, reason=reason)
            return wire.ToNode(refused=refused)
        case Drain(reason):
            return wire.ToNode(drain=wire.Drain(reason=reason))
        case Rewound():
            return wire.ToNode(rewound=wire.Rewound())
        case Pace(seconds):
            return wire.ToNode(pace=wire.Pace(seconds=seconds))


def decode_to_node(data: bytes) -> ToNode | None:
    """Raises `NotAMessage`."""
    try:
        message = wire.ToNode.FromString(data)
        return _from_gm(message)
    except (DecodeError, NotADocument) as error:
        raise NotAMessage(f"not a message from GM: {error}") from error


def _from_gm(message: wire.ToNode) -> ToNode | None:
    match message.WhichOneof("message"):
        case "put":
            return Put(Document.parse(message.put.object, message.put.kind))
        case "delete":
            gone = message.delete
            return Delete(gone.kind, gone.namespace, gone.name, gone.uid, gone.resource_version)
        case "snapshot_end":
            return SnapshotEnd()
        case "ack":
            return Ack(message.ack.store_id, message.ack.uid, message.ack.seq)
        case "refused":
            refused = message.refused
            return Refused(refused.store_id, refused.uid, refused.seq, refused.reason)
        case "drain":
            return Drain(message.drain.reason)
        case "rewound":
            return Rewound()
        case "pace":
            return Pace(message.pace.seconds)
        case _:
            return None
