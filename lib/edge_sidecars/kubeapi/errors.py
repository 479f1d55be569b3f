"""The one table from a failed call to a type.

Two families: `ApiError`, the server's own refusal, and `Unreachable`, no usable answer. After
`Unreachable` the outcome of a write is unknown: it may have been applied, or may still be; only
after `NotSent` it certainly was not.
"""

import json

from edge_sidecars.runtime.scarcity import scarcity

# Status messages are for a log line; longer ones (admission webhooks) are cut.
MESSAGE_LIMIT = 512
TOO_MANY_REQUESTS = 429


class ApiError(Exception):
    """An HTTP status >= 400 with the Status object's reason and message.

    `retry_after` in seconds, where the server gave it as a number.
    """

    def __init__(
        self, status: int, reason: str, message: str, *, retry_after: float | None = None
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    @property
    def is_refusal(self) -> bool:
        """A 4xx: certainly not applied. A 5xx may have been (etcd time-outs answer 500 and 504)."""
        return 400 <= self.status < 500


class Forbidden(ApiError):
    """403: RBAC or admission."""


class NotFound(ApiError):
    """404."""


class Conflict(ApiError):
    """409: the resourceVersion or uid is not the stored one, or the name exists."""


class Gone(ApiError):
    """410: the resourceVersion is too old to watch from."""


class Unreachable(Exception):
    """No usable answer: refused, reset, timed out, cut short or not HTTP."""

    @property
    def is_late(self) -> bool:
        """A deadline passed, and no failure was seen before."""
        return isinstance(self.__cause__, TimeoutError)

    @property
    def lack(self) -> int | None:
        """The errno of what this process has run out of, which says nothing about the server."""
        return scarcity(self)


class NotSent(Unreachable):
    """There was no connection: no byte of the request left, which may be sent again, whatever it
    asks for."""


class ProxyRefused(NotSent):
    """The CONNECT proxy on the way made no tunnel. `is_full`: for want of one that is free, which
    says nothing about the server (429)."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.is_full = status == TOO_MANY_REQUESTS


class StaleConnection(Unreachable):
    """A pooled connection ended before any byte of the answer: the server may have closed it while
    it was idle. What is safe (RFC 9110, 9.2.1) may be sent again."""


_BY_STATUS: dict[int, type[ApiError]] = {403: Forbidden, 404: NotFound, 409: Conflict, 410: Gone}


def api_error(status: int, body: bytes, *, retry_after: str | None = None) -> ApiError:
    """The error for an answer; `body` is a Status object if the server is Kubernetes'."""
    reason, message = "", body.decode("utf-8", "replace").strip()
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, dict):
        reason = str(parsed.get("reason") or "")
        message = str(parsed.get("message") or "")
    return status_error(status, reason, message, retry_after=_seconds(retry_after))


def status_error(
    status: int, reason: str, message: str, *, retry_after: float | None = None
) -> ApiError:
    """The error for a Status that was read already."""
    return _BY_STATUS.get(status, ApiError)(
        status, reason, message[:MESSAGE_LIMIT], retry_after=retry_after
    )


def _seconds(retry_after: str | None) -> float | None:
    """RFC 9110, 10.2.3: delay-seconds; an HTTP date is not used by kube-apiserver."""
    return float(retry_after) if retry_after is not None and retry_after.isdecimal() else None
