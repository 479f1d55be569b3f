"""One line of a watch: what happened to which object.

Guarantees nothing about the object but that it is one; a line that is no event of a watch is no
usable answer, hence `Unreachable`. See https://kubernetes.io/docs/reference/using-api/api-concepts.
"""

import json
from dataclasses import dataclass
from typing import Any

from edge_sidecars.kubeapi.errors import ApiError, Unreachable, api_error


@dataclass(frozen=True)
class WatchEvent:
    """`type` is ADDED, MODIFIED, DELETED or BOOKMARK; for the latter `object` has only metadata."""

    type: str
    object: dict[str, Any]


def parse_event(line: bytes) -> WatchEvent:
    """Raises `ApiError` for an ERROR event, as its Status says, and `Unreachable` for no event."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Unreachable(f"the event is not JSON: {line[:80]!r}") from error
    if not isinstance(event, dict):
        raise Unreachable(f"the event is not a JSON object: {line[:80]!r}")
    kind, told = event.get("type"), event.get("object")
    if not isinstance(kind, str) or not isinstance(told, dict):
        raise Unreachable(f"the event lacks a type or an object: {line[:80]!r}")
    if kind == "ERROR":
        raise _error(told)
    return WatchEvent(kind, told)


def _error(status: dict[str, Any]) -> ApiError:
    """As a refusal with the same code would have been raised, `Gone` above all."""
    code = status.get("code")
    return api_error(code if isinstance(code, int) else 500, json.dumps(status).encode())
