"""An outside observer of P1: polls /readyz of every pod and keeps every answer with its times.

Fencing tokens order the terms, so two holders at once show as an answer that was asked for after
a newer term's first 200 had been received, and yet bears an older token.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, Self, TypeVar

from tools.harness.controlplane.clients.answer import Answer
from tools.harness.pods.observers.polling import Polling

POLL_INTERVAL = 0.02


@dataclass(frozen=True)
class Ready:
    """One 200 of /readyz."""

    pod: str
    identity: str
    token: int
    sent: float
    received: float
    valid_until: float

    @classmethod
    def found(cls, answer: Answer | None, *, pod: str, identity: str) -> Self | None:
        """None for another answer, and for none."""
        if answer is None or answer.status != 200:
            return None
        return cls(
            pod=pod,
            identity=identity,
            token=int(answer.headers["X-Leader-Fencing-Token"]),
            sent=answer.sent,
            received=answer.received,
            valid_until=float(answer.headers["X-Leader-Valid-Until"]),
        )


@dataclass(frozen=True)
class Overlap:
    """A 200 of an older term, and the newer term's first 200 that had been seen before."""

    stale: Ready
    newer: Ready

    @property
    def seconds(self) -> float:
        return self.stale.sent - self.newer.received


class Observed(Protocol):
    """An elector as a process or in a container."""

    @property
    def name(self) -> str: ...
    @property
    def identity(self) -> str: ...
    @property
    def is_running(self) -> bool: ...
    @property
    def port(self) -> int: ...
    def ask(self, path: str) -> Answer | None: ...
    def is_leader(self) -> bool: ...


Pod = TypeVar("Pod", bound=Observed)


class Observer(Polling):
    """Polls from one thread per pod while it is entered."""

    def __init__(self, pods: Sequence[Observed], *, interval: float = POLL_INTERVAL) -> None:
        asks = [(f"observe-{pod.name}", partial(self._ask, pod)) for pod in pods]
        super().__init__(asks, interval=interval, is_last_seen=True)
        self._lock = threading.Lock()
        self._answers: list[Ready] = []

    def answers(self) -> list[Ready]:
        """All 200s so far, in the order of their receipt."""
        with self._lock:
            return sorted(self._answers, key=lambda ready: ready.received)

    def overlaps(self) -> list[Overlap]:
        """Every violation of P1 that was seen."""
        return overlaps(self.answers())

    def assert_exclusive(self) -> None:
        found = self.overlaps()
        assert not found, f"two holders at once: {found[0]} (and {len(found) - 1} more)"

    def tokens(self) -> list[int]:
        """Fencing tokens in the order in which their terms were first seen."""
        return list(dict.fromkeys(ready.token for ready in self.answers()))

    def _ask(self, pod: Observed) -> None:
        if not pod.is_running or not pod.port:
            return
        ready = Ready.found(readiness(pod.ask), pod=pod.name, identity=pod.identity)
        if ready is not None:
            with self._lock:
                self._answers.append(ready)


def readiness(ask: Callable[[str], Answer | None]) -> Answer | None:
    """What /readyz answers to who only looks. An elector of an earlier release refuses the
    parameter, and counts no client as a main."""
    answer = ask("/readyz?promise=false")
    return ask("/readyz") if answer is not None and answer.status == 400 else answer


def overlaps(answers: Sequence[Ready]) -> list[Overlap]:
    """`answers` in any order."""
    first: dict[int, Ready] = {}
    for ready in sorted(answers, key=lambda each: each.received):
        first.setdefault(ready.token, ready)
    found = []
    for ready in answers:
        newer = [
            start
            for start in first.values()
            if start.token > ready.token and start.received < ready.sent
        ]
        if newer:
            found.append(Overlap(ready, min(newer, key=lambda start: start.received)))
    return found


def wait_for(
    condition: Callable[[], bool], *, timeout: float, what: str, interval: float = 0.02
) -> float:
    """Seconds until the condition held; fails after `timeout`."""
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > timeout:
            raise AssertionError(f"not within {timeout:g}s: {what}")
        time.sleep(interval)
    return time.monotonic() - start


def wait_for_leader(pods: Sequence[Pod], *, timeout: float) -> Pod:
    """The one pod that leads."""
    leaders: list[Pod] = []

    def found() -> bool:
        leaders[:] = [pod for pod in pods if pod.is_running and pod.is_leader()]
        return len(leaders) == 1

    wait_for(found, timeout=timeout, what=f"a leader among {[pod.name for pod in pods]}")
    return leaders[0]
