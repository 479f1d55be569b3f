"""EndpointSlices as the API server sends them."""

import json
from typing import Any

Json = dict[str, Any]


def endpoint(
    node: str | None,
    uid: str,
    *,
    ready: bool | None = True,
    serving: bool | None = None,
    terminating: bool | None = None,
    address: str = "",
) -> Json:
    conditions = {"ready": ready, "serving": serving, "terminating": terminating}
    made: Json = {
        "addresses": [address or f"10.0.0.{sum(uid.encode()) % 250}"],
        "conditions": {key: value for key, value in conditions.items() if value is not None},
    }
    if node is not None:
        made["nodeName"] = node
    if uid:
        made["targetRef"] = {"kind": "Pod", "namespace": "default", "name": f"p-{uid}", "uid": uid}
    return made


def endpoint_slice(name: str, endpoints: list[Json], *, version: int = 7) -> bytes:
    document = {
        "kind": "EndpointSlice",
        "apiVersion": "discovery.k8s.io/v1",
        "metadata": {
            "name": name,
            "namespace": "default",
            "resourceVersion": str(version),
            "labels": {"kubernetes.io/service-name": "web"},
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
    }
    return json.dumps(document, separators=(",", ":")).encode()


def conditions(raw: bytes) -> dict[str, Json]:
    """By the uid of the target."""
    found = json.loads(raw)["endpoints"] or []
    return {it.get("targetRef", {}).get("uid", ""): it.get("conditions") or {} for it in found}
