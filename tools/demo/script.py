"""A script of steps, and steps that are asked for by key, which come between those of the script.

Owns what is asked for. Guarantees: no step is asked for before the first one has ended; the script
ends where a step fails or somebody asks for the end.
"""

import queue
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tools.demo.runner import Ended, Runner

# Seconds after the last step in which a key prolongs the demo.
LAST_CALL = 15.0


@dataclass(frozen=True)
class Step:
    title: str
    run: Callable[[], None]


class Script:
    """`by_hand`: steps by their keys."""

    def __init__(self, runner: Runner, steps: Sequence[Step], by_hand: Mapping[str, Step]) -> None:
        self._runner = runner
        self._steps = deque(steps)
        self._by_hand = by_hand
        self._asked: queue.SimpleQueue[str] = queue.SimpleQueue()

    def pressed(self, key: str) -> None:
        """In the thread of the keys."""
        if key == "q":
            self._runner.shutdown.ask()
        elif key in self._by_hand:
            self._runner.say(f"next: {self._by_hand[key].title}")
            self._asked.put(key)

    def play(self, *, has_keys: bool) -> None:
        """All steps, unless one fails or somebody asks for the end."""
        runner, steps = self._runner, self._steps
        try:
            while steps or (has_keys and self._wait_for_key()):
                if runner.results and not self._asked.empty():
                    steps.appendleft(self._by_hand[self._asked.get()])
                step = steps.popleft()
                if not runner.perform(step.title, step.run):
                    return
                runner.doing = "next step follows"
                runner.sleep(runner.pause)
        except Ended:
            runner.say("ending")

    def _wait_for_key(self) -> bool:
        deadline = time.monotonic() + LAST_CALL
        self._runner.say("press a key to go on by hand")
        while self._asked.empty():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            doing = f"done; the demo ends in {left:.0f} s unless a key is pressed"
            self._runner.doing = doing
            self._runner.sleep(0.1)
        return True
