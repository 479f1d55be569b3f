"""The pool-scoped streams of a relay: its report of them, and what peers receive. Pure.

Guarantees: a stream that a peer calls live is fed by the API server itself, not by another relay;
the report of the relay counts for `STREAMS_VALID` seconds. What is no stream raises ValueError.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from pool_sidecar.core.pool_member import MAX_NAME

# Of one relay: --pool-resource may be given so many times.
MAX_STREAMS: Final = 16
# Digits of a resourceVersion, which is an unsigned integer of 64 bits.
MAX_DIGITS: Final = 20
# Seconds for which the relay's word counts; it is asked each second.
STREAMS_VALID: Final = 3.0
# Seconds since all of them were live, for which they count as live: a watch that begins anew is to
# be proved first, which takes some round trips.
LIVE_GRACE: Final = 10.0
# Seconds since one of them was shown to peers, for which these still come in: the relay itself
# waits for so long for a watch that begins anew, and refuses what is not live then.
SHOWN_GRACE: Final = 3.0
LIVE: Final = "live"
# The source of a stream that comes from the API server.
CLOUD: Final = "cloud"


@dataclass(frozen=True, slots=True)
class PoolStream:
    """`resource`: with its version, like services.v1. and endpointslices.v1.discovery.k8s.io;
    `cursor`: the version up to which it is known; `window`: the oldest from which a watch of it may
    begin, 0 of a relay that does not say."""

    resource: str
    is_live: bool
    cursor: int
    window: int = 0

    def document(self) -> dict[str, Any]:
        return {
            "resource": self.resource,
            "live": self.is_live,
            "cursor": str(self.cursor),
            "window": str(self.window),
        }

    @classmethod
    def parse(cls, found: Any) -> Self:
        """Raises ValueError."""
        match found:
            case {"resource": str(resource), "live": bool(is_live), "cursor": cursor, **rest}:
                if 0 < len(resource) <= MAX_NAME:
                    window = _version(rest.get("window", "0"))
                    return cls(resource, is_live, _version(cursor), window)
        raise ValueError("a state with streams that are none")


@dataclass(frozen=True, slots=True)
class StreamHealth:
    """Of one that the pool shares, as this node sees it. `is_healthy`: a hub is reached, or this
    node is the hub; `is_ready`: that stream of the hub is live."""

    resource: str
    is_healthy: bool
    is_ready: bool

    def document(self) -> dict[str, Any]:
        return {"resource": self.resource, "healthy": self.is_healthy, "ready": self.is_ready}


class RelayStreams:
    """Of this node's relay, as its /status document says."""

    def __init__(self) -> None:
        self._seen_at = self._all_live_at = self._shown_at = -math.inf
        self._shared: tuple[PoolStream, ...] = ()

    def observed(self, status: Mapping[str, Any], now: float) -> None:
        """Raises ValueError where its streams are none."""
        all_live_at, shown_at = self._all_live_at, self._shown_at
        self.void()
        match status:
            case {"pool": {"streams": list(streams)}} if len(streams) <= MAX_STREAMS:
                found = list(map(_parsed, streams))
            case {"pool": None} | {"link": _}:
                found = []  # Of a relay that shows its peers nothing.
            case _:
                return
        self._seen_at = now
        self._shared = tuple(stream for _, stream in found if stream is not None)
        self._all_live_at = now if all(is_live for is_live, _ in found) else all_live_at
        self._shown_at = now if any(it.is_live for it in self._shared) else shown_at

    def void(self) -> None:
        self._seen_at = self._all_live_at = self._shown_at = -math.inf

    def are_live(self, now: float) -> bool:
        """Whether its relay follows all that its peers are to have from it, wherever from; true of
        one that is to show nothing."""
        return self._is_fresh(now) and now - self._all_live_at <= LIVE_GRACE

    def are_shown(self, now: float) -> bool:
        """Whether there is anything for peers, or was a moment ago."""
        return self._is_fresh(now) and now - self._shown_at <= SHOWN_GRACE

    def shared(self, now: float) -> tuple[PoolStream, ...]:
        """What there is for peers."""
        return self._shared if self._is_fresh(now) else ()

    def _is_fresh(self, now: float) -> bool:
        return now - self._seen_at <= STREAMS_VALID


def _version(found: Any) -> int:
    match found:
        case str(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= MAX_DIGITS:
            return int(digits)
    raise ValueError("a stream with a version that is none")


def _parsed(raw: Any) -> tuple[bool, PoolStream | None]:
    """Whether it is live, wherever from; and what peers receive, None before its first list."""
    match raw:
        case {"state": str(state), "source": str(source), "cursor": cursor, **rest}:
            is_live = state == LIVE
            if cursor is None:
                return is_live, None
            shared = {**rest, "cursor": cursor, "live": is_live and source == CLOUD}
            return is_live, PoolStream.parse(shared)
    raise ValueError("a pool-scoped stream without state, source or cursor")
