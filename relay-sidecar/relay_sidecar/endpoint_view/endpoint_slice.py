"""One EndpointSlice (discovery.k8s.io/v1): its endpoints, and its bytes with other conditions.

Guarantees: without an overlay the bytes are upstream's own; with one, only `ready` and `serving`
of the endpoints concerned differ. What is no EndpointSlice has no endpoints.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct

from edge_sidecars.apimachinery.objects import Malformed, decode

EndpointId = tuple[str, str, tuple[str, ...]]
"""Node, uid of the target, addresses."""


class Overlay(StrEnum):
    """Why an endpoint is shown otherwise than upstream has it."""

    SILENT = "silent"
    KEPT = "kept"


class Endpoint(Struct, frozen=True, gc=False):
    """Its conditions as consumers take them, where they may be left out (EndpointConditions in
    k8s.io/api/discovery/v1: no `ready` is true, no `serving` is as `ready`)."""

    node: str
    uid: str
    is_ready: bool
    is_serving: bool
    is_terminating: bool


class _Conditions(Struct):
    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class _TargetRef(Struct):
    uid: str = ""


class _Endpoint(Struct, rename="camel"):
    addresses: list[str]
    conditions: _Conditions | None = None
    node_name: str | None = None
    target_ref: _TargetRef | None = None


class _SliceDocument(Struct):
    endpoints: list[_Endpoint] | None = None


_SLICE: Final = msgspec.json.Decoder(_SliceDocument)
# What consumers read: ready is false and so is serving, or both are true.
_SHOWN: Final = {
    Overlay.SILENT: {"ready": False, "serving": False},
    Overlay.KEPT: {"ready": True, "serving": True},
}


def read_endpoints(raw: bytes) -> dict[EndpointId, Endpoint]:
    try:
        found = decode(_SLICE, raw).endpoints or ()
    except Malformed:
        return {}
    endpoints: dict[EndpointId, Endpoint] = {}
    for id, endpoint in map(_read, found):
        other = endpoints.get(id)
        endpoints[id] = endpoint if other is None else _worse(endpoint, other)
    return endpoints


def rendered(raw: bytes, shown: Mapping[EndpointId, Overlay]) -> bytes:
    """The slice with these overlays on its endpoints."""
    if not shown:
        return raw
    document = msgspec.json.decode(raw)
    for endpoint in document["endpoints"]:
        overlay = shown.get(_id_of(endpoint))
        if overlay is not None:
            endpoint["conditions"] = (endpoint.get("conditions") or {}) | _SHOWN[overlay]
    return msgspec.json.encode(document)


def _read(found: _Endpoint) -> tuple[EndpointId, Endpoint]:
    conditions = found.conditions or _Conditions()
    uid = "" if found.target_ref is None else found.target_ref.uid
    node = found.node_name or ""
    is_ready = conditions.ready is not False
    is_serving = is_ready if conditions.serving is None else conditions.serving
    endpoint = Endpoint(node, uid, is_ready, is_serving, bool(conditions.terminating))
    return (node, uid, tuple(found.addresses)), endpoint


def _worse(one: Endpoint, other: Endpoint) -> Endpoint:
    """Of an endpoint that a slice names twice: what holds of both."""
    return Endpoint(
        one.node,
        one.uid,
        one.is_ready and other.is_ready,
        one.is_serving and other.is_serving,
        one.is_terminating or other.is_terminating,
    )


def _id_of(endpoint: dict[str, Any]) -> EndpointId:
    uid = (endpoint.get("targetRef") or {}).get("uid", "")
    return endpoint.get("nodeName") or "", uid, tuple(endpoint["addresses"])
