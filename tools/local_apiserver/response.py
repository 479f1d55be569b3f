"""What the API server answers: status, headers and body, for whoever speaks HTTP."""

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple

import msgspec

from edge_sidecars.apimachinery.objects import Item
from edge_sidecars.apimachinery.request.accept import Form, Representation
from edge_sidecars.apimachinery.resource_version import metadata_only
from edge_sidecars.apimachinery.status import Refused, Status, not_acceptable
from tools.local_apiserver.core.api_resource import Resource
from tools.local_apiserver.core.unstructured import Object, text

JSON = {"Content-Type": "application/json"}


class Answer(NamedTuple):
    """`body` is whole, in no content coding."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def of_status(status: Status) -> Answer:
    headers = dict(JSON)
    if status.retry_after is not None:
        headers["Retry-After"] = str(status.retry_after)
    return Answer(status.code, headers, status.body())


def of_raw(
    raw: bytes, wanted: Representation, *, status: int = HTTPStatus.OK, warnings: Sequence[str] = ()
) -> Answer:
    """An object; `warnings` go into one header (RFC 9111 allowed it, client-go reads it)."""
    headers = dict(JSON)
    if warnings:
        headers["Warning"] = ", ".join(_warning(said) for said in warnings)
    body = metadata_only(raw, wanted.api_version) if wanted.form is Form.METADATA else raw
    return Answer(status, headers, body)


def of_deleted(resource: Resource, obj: Object) -> Answer:
    """What kube-apiserver says of an object that is gone."""
    told = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {
            "name": text(obj, "metadata", "name"),
            **({"group": resource.name.group} if resource.name.group else {}),
            "kind": resource.name.plural,
            "uid": text(obj, "metadata", "uid"),
        },
    }
    return Answer(HTTPStatus.OK, JSON, msgspec.json.encode(told))


def of_list(resource: Resource, items: Iterable[Item], version: int) -> Answer:
    head = msgspec.json.encode(
        {
            "kind": resource.list_kind,
            "apiVersion": resource.name.api_version,
            "metadata": {"resourceVersion": str(version)},
        }
    )
    body = b'%s,"items":[%s]}' % (head[:-1], b",".join(item.raw for item in items))
    return Answer(HTTPStatus.OK, JSON, body)


def check_acceptable(wanted: Representation) -> None:
    """Raises Refused for a client that takes no JSON. A Table's place is taken by the object."""
    if wanted.form is Form.OTHER:
        raise Refused(not_acceptable(("application/json",)))


def _warning(said: str) -> str:
    """apimachinery pkg/util/net: NewWarningHeader"""
    quoted = said.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'
