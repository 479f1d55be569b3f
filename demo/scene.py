"""The stage of the demo: three pods, an edge node, who watches, and how a step waits for something.

Owns what steps and screens share. Guarantees: a wait ends with `Ended` as soon as somebody asked
for the end, and with `Failed` when its time is over; nothing here knows how it is shown.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from demo.cloud import Cloud
from demo.edge import Edge
from demo.ending import Ending
from demo.pod import Pod
from demo.watcher import Watcher

POLL_INTERVAL = 0.02

_Found = TypeVar("_Found")


class Ended(Exception):
    """Somebody asked for the end."""


class Failed(Exception):
    """A step did not reach what it promises; the message says what."""


@dataclass(frozen=True)
class Result:
    """How one step went. Seconds; None where a step has no such number."""

    title: str
    detail: str
    took: float | None = None
    vacant: float | None = None
    problem: str | None = None


@dataclass
class Scene:
    """`lease_duration` and `pause` (between steps) in seconds."""

    pods: Sequence[Pod]
    watcher: Watcher
    edge: Edge
    cloud: Cloud
    lease_duration: float
    pause: float
    ending: Ending
    say: Callable[[str], None]
    started_at: float = field(default_factory=time.monotonic)
    doing: str = "starting"
    results: list[Result] = field(default_factory=list)

    @property
    def patience(self) -> float:
        """How long a takeover may take before it counts as none: on a busy machine, too."""
        return 2 * self.lease_duration + 20

    def leader(self) -> Pod:
        """Waits for the one whose elector says so."""

        def find() -> Pod | None:
            leading = [
                pod for pod in self.pods if (self.watcher.elector(pod) or {}).get("isLeader")
            ]
            return leading[0] if len(leading) == 1 else None

        return self.wait_for(find, "a leader")

    def wait_for(self, find: Callable[[], _Found | None], what: str) -> _Found:
        """What `find` finds first. Raises Ended, Failed."""
        deadline = time.monotonic() + self.patience
        while (found := find()) is None:
            for pod in self.pods:
                if program := pod.ended_unasked():
                    raise Failed(f"{pod.name}: its {program} ended by itself")
            if self.edge.ended_unasked():
                raise Failed("edge: its relay-sidecar ended by itself")
            if time.monotonic() > deadline:
                raise Failed(f"not within {self.patience:g} s: {what}")
            self.sleep(POLL_INTERVAL)
        return found

    def note(self, result: Result) -> None:
        """For the summary, and as an event."""
        self.results.append(result)
        took = "" if result.took is None else f", {result.took:.2f} s"
        self.say(f"{result.title}: {result.problem or result.detail}{took}")

    def sleep(self, seconds: float) -> None:
        """Raises Ended."""
        deadline = time.monotonic() + seconds
        while not self.ending.is_asked:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, POLL_INTERVAL))
        raise Ended
