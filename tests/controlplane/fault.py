"""What a fault proxy does to the bytes between a client and its server at one moment.

Guarantees: values only, no sockets, no time. A connection asks the present fault again for each
chunk, so that a change holds at once for everything that was not delivered yet.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Mode(enum.Enum):
    """What happens to connections as a whole."""

    PASS = "pass"
    # The port is closed: ECONNREFUSED; existing connections are reset.
    REFUSE = "refuse"
    # Existing and new connections are reset.
    RESET = "reset"
    # Connections are accepted and kept, nothing is forwarded, no end of a stream either.
    BLACK_HOLE = "black_hole"
    # Requests are forwarded, what the server says then is not.
    LOSE_RESPONSE = "lose_response"


class Direction(enum.Enum):
    """Which way a chunk travels."""

    REQUEST = "request"
    RESPONSE = "response"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One setting of the proxy; delays in seconds, each chunk adds its own share of `jitter`."""

    mode: Mode = Mode.PASS
    request_delay: float = 0.0
    response_delay: float = 0.0
    jitter: float = 0.0
    # LOSE_RESPONSE: the client gets a reset in place of the response, not silence.
    reset_after_loss: bool = False

    def __post_init__(self) -> None:
        if min(self.request_delay, self.response_delay, self.jitter) < 0:
            raise ValueError(f"a delay cannot be negative: {self}")

    def delay(self, direction: Direction, luck: float) -> float:
        """Seconds for a chunk that drew `luck` in [0, 1) when it was read."""
        request = direction is Direction.REQUEST
        base = self.request_delay if request else self.response_delay
        return base + self.jitter * luck if base > 0 else 0.0


@dataclass(kw_only=True)
class Traffic:
    """What went through a proxy since it was started; bytes count when they are delivered."""

    connections: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    # Connections of which at least one response was dropped.
    lost_responses: int = 0
