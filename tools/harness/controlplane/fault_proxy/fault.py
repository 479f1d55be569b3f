"""What a fault proxy does to the bytes between a client and its server at one moment.

Guarantees: values only, no sockets, no time. A connection asks the present fault again for each
chunk, so that a change holds at once for everything that was not delivered yet.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

# Seconds after which Linux sends a lost segment again, doubling: TCP_RTO_MIN of include/net/tcp.h.
RETRANSMISSION = 0.2
# Of one chunk: luckier ones would stall for minutes, which a test does not wait for.
MOST_RETRANSMISSIONS = 5


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


@dataclass(frozen=True)
class Delay:
    """Seconds that each chunk waits, plus its own random share of `jitter` seconds."""

    seconds: float = 0.0
    jitter: float = 0.0

    def __post_init__(self) -> None:
        if min(self.seconds, self.jitter) < 0:
            raise ValueError(f"a delay cannot be negative: {self}")

    def of(self, luck: float) -> float:
        """Seconds for a chunk that drew `luck` in [0, 1)."""
        return self.seconds + self.jitter * luck


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One setting of the proxy."""

    mode: Mode = Mode.PASS
    request_delay: Delay = Delay()
    response_delay: Delay = Delay()
    # The share of segments that the wire loses, either way: what is lost is sent again later, and
    # all that follows waits for it.
    loss: float = 0.0
    # Bytes a second either way, which all connections share in turn; None: without a limit.
    bandwidth: float | None = None
    # LOSE_RESPONSE: of how many connections, the next ones that send something; None: of all,
    # also of those that are waiting for a response already.
    losses: int | None = None
    # LOSE_RESPONSE: the client gets a reset in place of the response, not silence.
    reset_after_loss: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.loss < 1:
            raise ValueError(f"a share is at least 0 and below 1: {self.loss}")
        if self.bandwidth is not None and self.bandwidth <= 0:
            raise ValueError(f"a bandwidth is more than 0: {self.bandwidth}")

    def delay(self, direction: Direction, luck: float) -> float:
        """Seconds that a chunk which travels that way and drew `luck` in [0, 1) stays on its way:
        of `loss` of all chunks the first sending is lost, of as many of these the next one."""
        delay = self.request_delay if direction is Direction.REQUEST else self.response_delay
        return delay.of(luck) + RETRANSMISSION * (2.0 ** self._retransmissions(luck) - 1)

    def _retransmissions(self, luck: float) -> int:
        if luck >= self.loss:
            return 0
        if luck <= 0:
            return MOST_RETRANSMISSIONS
        return min(math.floor(math.log(luck, self.loss)), MOST_RETRANSMISSIONS)


@dataclass(kw_only=True)
class Traffic:
    """What went through a proxy since it was started; bytes count when they are delivered."""

    connections: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    # Connections of which at least one response was dropped.
    lost_responses: int = 0
