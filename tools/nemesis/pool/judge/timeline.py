"""What was done to the site, and when: the truth beside which the cloud's decisions are judged.

Owns the spans of all faults. Guarantees: a span begins before its fault holds and ends after it was
healed, so that no moment at which a fault may have held is taken for a sound one. Seconds are of
the epoch, as in the audit log, and come in.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum


class What(StrEnum):
    """What does not work as it should."""

    # Of a node.
    OFF = "off"
    WAN = "wan"
    MEMBER = "member"
    RELAY = "relay"
    KUBELET = "kubelet"
    ELECTOR = "elector"
    # Its member stands still, and wakes up.
    FROZEN = "frozen"
    # What its relay has on disk is lost, or nothing can be written there.
    DISK = "disk"
    # Its member has lost whom it heard.
    FORGOTTEN = "forgotten"
    # What comes to the members' port is dropped there.
    FIREWALL = "firewall"
    # Another label.
    MOVED = "moved"
    # It reports that all others are gone.
    LIAR = "liar"
    # Of a pair: what `node` sends to `peer` is lost.
    LAN = "lan"
    # Of the cloud.
    SERVER = "server"
    CONTROLLER = "controller"


@dataclass(frozen=True)
class Span:
    """`is_shaky`: it works now and then."""

    what: What
    node: str
    begin: float
    end: float = math.inf
    peer: str = ""
    is_shaky: bool = False

    def touches(self, since: float, until: float, *, settle: float = 0.0) -> bool:
        """`settle`: seconds after its end that count, too."""
        return self.begin <= until and self.end + settle >= since

    def covers(self, since: float, until: float) -> bool:
        return self.begin <= since and self.end >= until


class Timeline:
    """Written by any thread."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._ended: list[Span] = []
        self._open: dict[int, Span] = {}
        self._next = 0

    @contextmanager
    def holding(
        self, what: What, node: str = "", *, peer: str = "", is_shaky: bool = False
    ) -> Iterator[None]:
        with self._lock:
            self._next += 1
            number = self._next
            begin = self._clock()
            self._open[number] = Span(what, node, begin, peer=peer, is_shaky=is_shaky)
        try:
            yield
        finally:
            with self._lock:
                span = self._open.pop(number)
                end = self._clock()
                self._ended.append(Span(what, node, span.begin, end, peer, is_shaky))

    def spans(self) -> Sequence[Span]:
        """So far; those that hold have no end."""
        with self._lock:
            return (*self._ended, *self._open.values())


def merged(spans: Iterable[Span]) -> list[tuple[float, float]]:
    """When any of them held: beginnings and ends, in order and apart."""
    found: list[tuple[float, float]] = []
    for begin, end in sorted((it.begin, it.end) for it in spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found
