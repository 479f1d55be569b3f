"""What the core asks of its shell: intents from above, requests to the API server below.

Plain values. The shell performs each request once and reports once how it ended; a watch reports
each event besides.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Intent(Enum):
    """What the candidate is to do about the Lease."""

    CONTEND = "contend"
    HOLD = "hold"  # go on renewing, but answer 503: the main is stopping
    RELEASE = "release"
    ABSTAIN = "abstain"


class Purpose(Enum):
    """What a write is for."""

    ACQUIRE_OR_RENEW = "acquire or renew"
    RELEASE = "release"
    CREATE_VACANT = "create vacant"  # creates the Lease without a holder


@dataclass(frozen=True)
class ReadLease:
    """A quorum read of the Lease (no resourceVersion)."""

    id: int
    sent_at: float


@dataclass(frozen=True)
class WatchLease:
    """Watch the Lease from here (None: from its present state); ends the watch before it."""

    id: int
    resource_version: int | None


@dataclass(frozen=True)
class WriteLease:
    """One attempt. `creates`: by POST, else by PUT on exactly `base_version` of the same uid.
    `renews`: the record names this candidate already."""

    id: int
    purpose: Purpose
    body: dict[str, Any]
    stamp: str
    sent_at: float
    base_version: int
    creates: bool
    renews: bool = False


Command = ReadLease | WriteLease | WatchLease
