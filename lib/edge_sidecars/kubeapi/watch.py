"""One line of a watch, as a client meets it: an event, a bookmark, or what ended the watch.

The framing is `apimachinery.watch_events`, which is pure and the relay's too. See
https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from edge_sidecars.apimachinery.watch_events import Bookmark, EventType, Failure, parse_line
from edge_sidecars.kubeapi.errors import Unreachable, status_error

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """`type` is ADDED, MODIFIED or DELETED."""

    type: EventType
    object: T


def parse_event(line: bytes, decode: Callable[[bytes], T]) -> WatchEvent[T] | Bookmark:
    """`decode` raises ValueError for what is no object.

    Raises `ApiError` for an ERROR event, as its Status says (`Gone` above all), and `Unreachable`
    for no event.
    """
    try:
        event = parse_line(line, lambda type, raw: WatchEvent(type, decode(raw)))
    except (ValueError, RecursionError) as error:
        raise Unreachable(f"no event of a watch: {error}: {line[:80]!r}") from error
    if isinstance(event, Failure):
        raise status_error(event.code, event.reason, event.message)
    return event
