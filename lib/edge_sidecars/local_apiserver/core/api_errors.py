"""Why a write is refused, as a Status in kube-apiserver's words.

What the relay itself answers stands in `edge_sidecars.apimachinery.status`; these are the answers
that only the owner of the objects gives. Source: apimachinery pkg/api/errors/errors.go.
"""

from collections.abc import Sequence
from http import HTTPStatus

from edge_sidecars.apimachinery.status import (
    Refused,
    Status,
    StatusCause,
    bad_request,
    not_found,
)
from edge_sidecars.apimachinery.status import invalid as invalid_status
from edge_sidecars.local_apiserver.core.schema.field_errors import FieldError

_MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def bad(message: str) -> Refused:
    return Refused(bad_request(message))


def missing(group: str, plural: str, name: str) -> Refused:
    return Refused(not_found(plural, name, group=group))


def not_served() -> Refused:
    """A path below a group version that exists, and leads to nothing there."""
    return Refused(
        Status(
            code=HTTPStatus.NOT_FOUND,
            reason="NotFound",
            message="the server could not find the requested resource",
        )
    )


def not_allowed() -> Refused:
    return Refused(
        Status(
            code=HTTPStatus.METHOD_NOT_ALLOWED,
            reason="MethodNotAllowed",
            message="the server does not allow this method on the requested resource",
        )
    )


def already_exists(group: str, plural: str, name: str, *, is_ending: bool = False) -> Refused:
    what = f"{plural}.{group}" if group else plural
    if is_ending:
        what = f"object is being deleted: {what}"
    return Refused(
        Status(
            code=HTTPStatus.CONFLICT,
            reason="AlreadyExists",
            message=f'{what} "{name}" already exists',
            group=group,
            kind=plural,
            name=name,
        )
    )


def conflict(group: str, kind: str, name: str, why: str = _MODIFIED) -> Refused:
    what = f"{kind}.{group}" if group else kind
    return Refused(
        Status(
            code=HTTPStatus.CONFLICT,
            reason="Conflict",
            message=f'Operation cannot be fulfilled on {what} "{name}": {why}',
            group=group,
            kind=kind,
            name=name,
        )
    )


def terminating(group: str, plural: str, name: str, namespace: str) -> Refused:
    """NamespaceLifecycle (apiserver pkg/admission/plugin/namespace/lifecycle/admission.go)."""
    what = f"{plural}.{group}" if group else plural
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    return Refused(
        Status(
            code=HTTPStatus.FORBIDDEN,
            reason="Forbidden",
            message=f'{what} "{name}" is forbidden: {why}',
            group=group,
            kind=plural,
            name=name,
            causes=(
                StatusCause(
                    "NamespaceTerminating",
                    f"namespace {namespace} is being terminated",
                    "metadata.namespace",
                ),
            ),
        )
    )


def unsupported_media(accepted: Sequence[str]) -> Refused:
    return Refused(
        Status(
            code=HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            reason="UnsupportedMediaType",
            message="the body of the request was in an unknown format - accepted media types "
            f"include: {', '.join(accepted)}",
        )
    )


def unprocessable_patch() -> Refused:
    """A JSON patch that does not fit the object."""
    return Refused(
        Status(
            code=HTTPStatus.UNPROCESSABLE_ENTITY,
            reason="Invalid",
            message="the server rejected our request due to an error in our request",
        )
    )


def invalid(group: str, kind: str, name: str, faults: Sequence[FieldError]) -> Refused:
    causes = [StatusCause(fault.type, fault.message, fault.path) for fault in faults]
    return Refused(invalid_status(kind, causes, group=group, name=name))


def storage_error(message: str) -> Refused:
    """What kube-apiserver's storage could not make sense of: 500 without a reason."""
    return Refused(Status(code=HTTPStatus.INTERNAL_SERVER_ERROR, reason="", message=message))
