"""An outside observer of P1: polls /readyz of every pod and keeps every answer with its times.

Fencing tokens order the terms, so two holders at once show as an answer that was asked for after
a newer term's first 200 had been received, and yet bears an older token.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TypeVar

from tests.pods.elector import Answer

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


class Observer:
    """Polls from one thread per pod while it is entered."""

    def __init__(self, pods: Sequence[Observed], *, interval: float = POLL_INTERVAL) -> None:
        self._pods = pods
        self._interval = interval
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._answers: list[Ready] = []
        self._threads = [
            threading.Thread(target=self._poll, args=(pod,), name=f"observe-{pod.name}")
            for pod in pods
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

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

    def _poll(self, pod: Observed) -> None:
        while not self._stop.wait(self._interval):
            self._ask(pod)
        self._ask(pod)  # what the test saw last is in the record too

    def _ask(self, pod: Observed) -> None:
        if not pod.is_running or not pod.port:
            return
        answer = pod.ask("/readyz")
        if answer is None or answer.status != 200:
            return
        ready = Ready(
            pod=pod.name,
            identity=pod.identity,
            token=int(answer.headers["X-Leader-Fencing-Token"]),
            sent=answer.sent,
            received=answer.received,
            valid_until=float(answer.headers["X-Leader-Valid-Until"]),
        )
        with self._lock:
            self._answers.append(ready)


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
