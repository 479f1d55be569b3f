"""Objects and hellos for the tests of streams."""

import json

from edge_sidecars.sedna_api.core.api_object import Document
from edge_sidecars.sedna_api.core.messages import Hello
from edge_sidecars.sedna_api.core.report import Report


def document(
    name: str = "d1", *, version: int = 1, uid: str = "", kind: str = "dataset", data: str = ""
) -> Document:
    """`uid` is the name where it is not given."""
    metadata = {
        "name": name,
        "namespace": "shop",
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
    }
    raw = json.dumps({"kind": kind, "metadata": metadata, "spec": {"data": data}}).encode()
    return Document.parse(raw, kind)


def hello(node: str = "edge-a", **known: int) -> Hello:
    return Hello(node, "store-1", known)


def report(seq: int = 1, *, uid: str = "uid-d1", body: bytes = b"{}") -> Report:
    return Report(
        store_id="store-1",
        seq=seq,
        uid=uid,
        kind="dataset",
        namespace="shop",
        name=uid.removeprefix("uid-"),
        is_event=False,
        worker="monitor",
        body=body,
    )
