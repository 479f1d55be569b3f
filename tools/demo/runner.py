"""What steps of any demo do: tell, wait, sleep, and note how it went.

Guarantees: a wait ends with `Ended` as soon as somebody asked for the end, and with `Failed` when
its time is over or something ended that nobody killed; nothing here knows how it is shown.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from tools.demo.shutdown import Shutdown

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
class Runner:
    """`patience`: seconds until what is waited for counts as missing; `pause`: seconds between
    steps; `fallen`: what ended by itself, "" for nothing; `doing`: in words."""

    shutdown: Shutdown
    say: Callable[[str], None]
    fallen: Callable[[], str]
    pause: float
    patience: float
    doing: str = "starting"
    results: list[Result] = field(default_factory=list)

    def wait_for(self, find: Callable[[], _Found | None], what: str) -> _Found:
        """What `find` finds first. Raises Ended, Failed."""
        deadline = time.monotonic() + self.patience
        while (found := find()) is None:
            if fallen := self.fallen():
                raise Failed(f"{fallen} ended by itself")
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
        while not self.shutdown.is_asked:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, POLL_INTERVAL))
        raise Ended

    def perform(self, title: str, step: Callable[[], None]) -> bool:
        """Whether it went as promised. Raises Ended."""
        self.doing = title
        try:
            step()
        except Failed as problem:
            self.note(Result(title, "", problem=str(problem)))
            return False
        return True
