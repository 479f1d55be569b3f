"""Why a write is refused, as a Status in kube-apiserver's words.

What the relay itself answers stands in `edge_sidecars.apimachinery.status`; these are the answers
that only the owner of the objects gives. Source: apimachinery pkg/api/errors/errors.go.
"""

from collections.abc import Sequence
from dataclasses import replace
from http import HTTPStatus

from edge_sidecars.apimachinery.status import (
    Refused,
    Status,
    StatusCause,
    bad_request,
    forbidden,
    not_found,
)
from edge_sidecars.apimachinery.status import invalid as invalid_status
from tools.local_apiserver.core.schema.field_errors import FieldError

_MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def bad(message: str) -> Refused:
    return Refused(bad_request(message))


def missing(group: str, plural: str, name: str) -> Refused:
    return Refused(not_found(plural, name, group=group))


def not_served() -> Refused:
    """A path below a group version that exists, and leads to nothing there."""
    return _refused("NotFound", "the server could not find the requested resource")


def not_allowed() -> Refused:
    return _refused(
        "MethodNotAllowed", "the server does not allow this method on the requested resource"
    )


def already_exists(group: str, plural: str, name: str, *, is_ending: bool = False) -> Refused:
    ending = "object is being deleted: " if is_ending else ""
    said = f'{ending}{_qualified(group, plural)} "{name}" already exists'
    return _refused("AlreadyExists", said, group=group, kind=plural, name=name)


def conflict(group: str, kind: str, name: str, why: str = _MODIFIED) -> Refused:
    said = f'Operation cannot be fulfilled on {_qualified(group, kind)} "{name}": {why}'
    return _refused("Conflict", said, group=group, kind=kind, name=name)


def terminating(group: str, plural: str, name: str, namespace: str) -> Refused:
    """NamespaceLifecycle (apiserver pkg/admission/plugin/namespace/lifecycle/admission.go)."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    cause = StatusCause(
        "NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace"
    )
    return Refused(replace(forbidden(plural, name, group=group, why=why), causes=(cause,)))


def unsupported_media(accepted: Sequence[str]) -> Refused:
    return _refused(
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types "
        f"include: {', '.join(accepted)}",
    )


def unprocessable_patch() -> Refused:
    """A JSON patch that does not fit the object."""
    return _refused("Invalid", "the server rejected our request due to an error in our request")


def invalid(group: str, kind: str, name: str, faults: Sequence[FieldError]) -> Refused:
    causes = [StatusCause(fault.type, fault.message, fault.path) for fault in faults]
    return Refused(invalid_status(kind, causes, group=group, name=name))


def storage_error(message: str) -> Refused:
    """What kube-apiserver's storage could not make sense of: 500 without a reason."""
    return _refused("", message)


_CODES = {
    "NotFound": HTTPStatus.NOT_FOUND,
    "MethodNotAllowed": HTTPStatus.METHOD_NOT_ALLOWED,
    "AlreadyExists": HTTPStatus.CONFLICT,
    "Conflict": HTTPStatus.CONFLICT,
    "UnsupportedMediaType": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "Invalid": HTTPStatus.UNPROCESSABLE_ENTITY,
    "": HTTPStatus.INTERNAL_SERVER_ERROR,
}


def _refused(
    reason: str,
    message: str,
    *,
    group: str = "",
    kind: str = "",
    name: str = "",
) -> Refused:
    code = _CODES[reason]
    return Refused(
        Status(code=code, reason=reason, message=message, group=group, kind=kind, name=name)
    )


def _qualified(group: str, resource: str) -> str:
    return f"{resource}.{group}" if group else resource
