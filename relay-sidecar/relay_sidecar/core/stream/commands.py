"""What a stream's reflection orders, how an order fails, and what a list shows. Values only."""

from dataclasses import dataclass
from enum import Enum, auto

from msgspec import Struct


class Trouble(Enum):
    """Why a list or watch failed."""

    UNREACHABLE = auto()
    """No answer, or the connection broke."""
    EXPIRED = auto()
    """410, as a status or as an event; or the version or token is refused in any other way."""
    DENIED = auto()
    """401 or 403."""
    GONE_RESOURCE = auto()
    """404: the resource is not served (any more)."""
    THROTTLED = auto()
    """429."""
    BROKEN = auto()
    """5xx, or what cannot be read."""


@dataclass(frozen=True, slots=True)
class ListRequest:
    """One page; limit 0 is the whole list. Never with a resourceVersion."""

    continue_token: str
    limit: int


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """With allowWatchBookmarks, never with sendInitialEvents."""

    version: int
    timeout_seconds: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do until then, or until something is reported."""

    until: float


@dataclass(frozen=True, slots=True)
class CloseRequest:
    """End the request that runs; nothing of it is to be reported any more."""

    reason: str


Command = ListRequest | WatchRequest | Wait | CloseRequest


class ListEvidence(Struct, frozen=True):
    """A list of upstream: its version, and the fingerprint of its objects, None where it was not
    complete. `asked_at` (boot clock) and `asked_at_wall`: when it was requested; `cursor`: the
    stream's version then."""

    version: int
    fingerprint: int | None
    asked_at: float
    asked_at_wall: float
    cursor: int
