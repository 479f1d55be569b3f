"""Objects and events as kube-apiserver writes them, for the tests of the relay's core."""

import json
from collections.abc import Mapping

from edge_sidecars.apimachinery.objects import Event, Item, read_event, read_item


def metadata(
    name: str,
    version: int | str,
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    uid: str = "",
) -> dict[str, object]:
    meta: dict[str, object] = {"name": name, "resourceVersion": str(version)}
    if namespace:
        meta["namespace"] = namespace
    if labels:
        meta["labels"] = dict(labels)
    if uid:
        meta["uid"] = uid
    return meta


def encoded(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def pod(
    name: str,
    version: int | str,
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    uid: str = "",
) -> bytes:
    meta = metadata(name, version, namespace=namespace, labels=labels, uid=uid)
    return encoded({"kind": "Pod", "apiVersion": "v1", "metadata": meta})


def item(
    name: str, version: int, *, labels: Mapping[str, str] | None = None, uid: str = ""
) -> Item:
    return read_item(pod(name, version, labels=labels, uid=uid))


def line(type: str, raw: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (type.encode(), raw)


def event(type: str, name: str, version: int, *, labels: Mapping[str, str] | None = None) -> Event:
    return read_event(line(type, pod(name, version, labels=labels)))


def bookmark_line(version: int) -> bytes:
    meta = {"resourceVersion": str(version), "creationTimestamp": None}
    return line("BOOKMARK", encoded({"kind": "Pod", "apiVersion": "v1", "metadata": meta}))


def bookmark(version: int) -> Event:
    return read_event(bookmark_line(version))


# What looks like its version stands everywhere.
NESTED = encoded(
    {
        "kind": "Pod",
        "apiVersion": "v1",
        "status": {"metadata": {"name": "inner", "namespace": "x", "resourceVersion": "1"}},
        "metadata": {
            "annotations": {"last": '{"metadata":{"name":"a","resourceVersion":"2"}}'},
            "labels": {"resourceVersion": "3", "name": "b"},
            "name": "outer",
            "namespace": "default",
            "resourceVersion": "42",
            "managedFields": [{"metadata": {"resourceVersion": "4"}}],
        },
        "resourceVersion": "5",
        "spec": {"template": {"metadata": {"name": "c", "resourceVersion": "6"}}},
    }
)
