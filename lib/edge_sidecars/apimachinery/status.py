"""Status objects, in kube-apiserver's words.

Owns: how a refusal looks, whose one may be, and one maker for each refusal that the relay gives.
Sources: k8s.io/apimachinery v0.36, pkg/api/errors/errors.go; k8s.io/apiserver v0.36,
pkg/storage/errors.go and pkg/storage/etcd3/errors.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from http import HTTPStatus
from typing import Final

from edge_sidecars.apimachinery.go_format import json_text
from edge_sidecars.runtime.formats.media_type import is_document, is_page

# What the API server says in a Status only; with other 4xx its HTTP server answers, too.
_OF_STATUS: Final = frozenset({400, 401, 403, 404, 409, 410, 422})


@dataclass(frozen=True, slots=True)
class StatusCause:
    """`type` is a CauseType such as FieldValueForbidden; `field` is "" where none is to blame."""

    type: str
    message: str
    field: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


@dataclass(frozen=True, slots=True)
class Status:
    """`reason` is "" where kube-apiserver gives none. `retry_after` in seconds: the header
    Retry-After is to be sent with it."""

    code: int
    reason: str
    message: str
    _: KW_ONLY
    group: str = ""
    kind: str = ""
    name: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after: int | None = None

    @property
    def details(self) -> dict[str, object]:
        members: dict[str, object] = {"name": self.name, "group": self.group, "kind": self.kind}
        if self.causes:
            members["causes"] = [_cause(cause) for cause in self.causes]
        if self.retry_after is not None:
            members["retryAfterSeconds"] = self.retry_after
        return {key: value for key, value in members.items() if value != ""}

    def body(self) -> bytes:
        members: dict[str, object] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": self.details,
            "code": self.code,
        }
        # NewForbidden gives details in any case, of a path that is no resource empty ones.
        kept = ("metadata", "details") if self.code == HTTPStatus.FORBIDDEN else ("metadata",)
        filled = {key: value for key, value in members.items() if key in kept or value}
        return json_text(filled).encode() + b"\n"

    def event(self) -> bytes:
        """The last line of a watch that ends for this."""
        return b'{"type":"ERROR","object":%s}\n' % self.body().rstrip()


class Refused(Exception):
    """The request is answered with this Status."""

    def __init__(self, status: Status) -> None:
        super().__init__(f"{status.code} {status.reason}: {status.message}")
        self.status = status


def is_status(content_type: str, body: bytes) -> bool:
    """Whether the body is a Status, in any format of the API server."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        # The others name the kind as well.
        return is_document(content_type) and b"Status" in body
    return isinstance(parsed, dict) and parsed.get("kind") == "Status"


def may_be_own_word(status: int, content_type: str, body: bytes) -> bool:
    """Whether the API server may have answered so. Who has no access, or what is not there, it says
    in a Status; of a group that it does not serve, in plain text. Anything else is of a gateway, or
    of a portal before it."""
    if is_page(content_type):
        return False
    if status not in _OF_STATUS or (
        status == HTTPStatus.NOT_FOUND and not is_document(content_type)
    ):
        return True
    return is_status(content_type, body)


def bad_request(message: str) -> Status:
    return Status(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def unauthorized() -> Status:
    return Status(HTTPStatus.UNAUTHORIZED, "Unauthorized", "Unauthorized")


def forbidden(resource: str, name: str = "", *, group: str = "", why: str) -> Status:
    """`resource` is the plural; empty for a path that is no resource."""
    what = f"{_group_resource(group, resource)} " if resource else ""
    named = f'"{name}" ' if resource and name else ""
    message = f"{what}{named}is forbidden: {why}" if what else f"forbidden: {why}"
    return Status(HTTPStatus.FORBIDDEN, "Forbidden", message, group=group, kind=resource, name=name)


def not_found(resource: str, name: str, *, group: str = "") -> Status:
    """`resource` is the plural."""
    message = f'{_group_resource(group, resource)} "{name}" not found'
    return Status(HTTPStatus.NOT_FOUND, "NotFound", message, group=group, kind=resource, name=name)


def invalid(kind: str, causes: Iterable[StatusCause], *, group: str = "", name: str = "") -> Status:
    """NewInvalid."""
    listed = tuple(causes)
    messages = list(dict.fromkeys(map(str, listed)))
    joined = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    return Status(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "Invalid",
        f'{_group_resource(group, kind)} "{name}" is invalid: {joined}',
        group=group,
        kind=kind,
        name=name,
        causes=listed,
    )


def expired(asked: int | None = None, oldest: int | None = None) -> Status:
    """A version that is gone: `asked`, where `oldest` is the lowest that still can be had."""
    message = "The resourceVersion for the provided list is too old."
    if asked is not None:
        message = f"too old resource version: {asked}"
        if oldest is not None:
            message += f" ({oldest})"
    return Status(HTTPStatus.GONE, "Expired", message)


def expired_continue() -> Status:
    """A continue token that is no longer valid anywhere: the client lists anew."""
    message = (
        "The provided continue parameter is too old to display a consistent list result. "
        "You can start a new list without the continue parameter."
    )
    return Status(HTTPStatus.GONE, "Expired", message)


def too_large_version(asked: int, current: int) -> Status:
    """client-go lists anew without a version when it sees the cause."""
    return Status(
        HTTPStatus.GATEWAY_TIMEOUT,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        causes=(StatusCause("ResourceVersionTooLarge", "Too large resource version"),),
        retry_after=1,
    )


def unavailable(message: str, retry_after: int | None = None) -> Status:
    """Certainly not done. client-go and kubectl send it again after `retry_after` seconds, ten
    times: None where that would only make a person wait."""
    return Status(
        HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable", message, retry_after=retry_after
    )


def conflict(resource: str, name: str, why: str) -> Status:
    """Not done; a client reads the object again and decides anew."""
    message = f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    return Status(HTTPStatus.CONFLICT, "Conflict", message)


def no_such_resource() -> Status:
    """As client-go puts what kube-apiserver answers to a path that it does not have."""
    message = "the server could not find the requested resource"
    return Status(HTTPStatus.NOT_FOUND, "NotFound", message)


def timeout_outcome_unknown() -> Status:
    """A write that may have been applied: without Retry-After, or client-go would send it again."""
    message = "Timeout: request did not complete within the allotted timeout"
    return Status(HTTPStatus.GATEWAY_TIMEOUT, "Timeout", message)


def too_many(message: str, retry_after: int = 1) -> Status:
    return Status(HTTPStatus.TOO_MANY_REQUESTS, "TooManyRequests", message, retry_after=retry_after)


def not_acceptable(media_types: Iterable[str]) -> Status:
    """apiserver's negotiation/errors.go."""
    message = f"only the following media types are accepted: {', '.join(media_types)}"
    return Status(HTTPStatus.NOT_ACCEPTABLE, "NotAcceptable", message)


def not_shown_as(*, list_wanted: bool) -> Status:
    """apiserver's handlers/response.go, but for the Go type of what is asked for."""
    kind = "PartialObjectMetadataList" if list_wanted else "PartialObjectMetadata"
    found = "not a list" if list_wanted else "a list"
    message = f"you requested {kind}, but the requested object is {found}"
    return Status(HTTPStatus.NOT_ACCEPTABLE, "NotAcceptable", message)


def _group_resource(group: str, resource: str) -> str:
    return f"{resource}.{group}" if group else resource


def _cause(cause: StatusCause) -> dict[str, str]:
    members = {"reason": cause.type, "message": cause.message, "field": cause.field}
    return {key: value for key, value in members.items() if value}
