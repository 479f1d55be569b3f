"""All schedules, breadth first, each state once.

States of one step are expanded together, those with more faults left first. A state that was seen
before with as many faults left is not expanded again: it was seen at an earlier step or this one,
so all that can follow from it within the horizon follows from there too. The first violation is
one of the fewest steps.

Liveness needs no runs of its own: what follows a state without faults is its first successor, so
the steps until somebody leads are counted along these (`_quiet`), beyond the horizon by running on.
"""

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tools.explore.actors.actor import Broken, Pace
from tools.explore.choices import Choices
from tools.explore.memo import read_once
from tools.explore.state import State

FOR_EVER = 10**6


@dataclass(frozen=True)
class Config:
    """One exploration. `begin` makes the first state; `horizon`, `bound` in steps, the second one
    from a state without faults to somebody who leads; `old`: seconds after which past is past."""

    name: str
    begin: Callable[[], State]
    pace: Pace
    faults: int
    horizon: int
    bound: int
    old: float


class Step(NamedTuple):
    """How a state came to be: from which one, by which choices."""

    parent: int
    labels: tuple[str, ...]


@dataclass
class Violation:
    """`schedule`: the choices of each step, from that of the first state on."""

    what: str
    schedule: list[tuple[str, ...]]
    first: int = 0


@dataclass
class Report:
    states: int = 0
    # One for each transition that was run: the shortest schedule that ends with it. All others go
    # on as one of these does, from a state that was seen.
    schedules: int = 0
    seconds: float = 0.0
    longest: int = 0
    violation: Violation | None = None
    steps: list[int] = field(default_factory=list)


class Search:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.report = Report()
        self._nodes: list[Step] = [Step(-1, ())]
        # By digest: the node, and the most faults that were left there.
        self._seen: dict[bytes, int] = {}
        self._left: list[int] = [config.faults]
        # By node: the node that follows without a fault; steps until somebody leads.
        self._next: dict[int, int] = {}
        self._waits: dict[int, int] = {}
        self._calm: set[int] = set()
        self._wanted, self._first = "", 0

    def run(self, *, until: float = 1e18) -> Report:
        """Ends at the first violation, or when all is seen; raises TimeoutError at `until`."""
        began = time.process_time()
        # The states are trees: counting their references frees them, and looking for cycles in
        # some hundred thousand of them costs more than all else.
        gc.disable()
        try:
            with read_once():
                self._explore(until)
        except _Found as found:
            self.report.violation = found.violation
        finally:
            gc.enable()
        self.report.states = len(self._nodes)
        self.report.seconds = time.process_time() - began
        return self.report

    def _explore(self, until: float) -> None:
        config = self.config
        first = config.begin()
        self._wanted, self._first = first.wanted, first.step
        self._note(first, 0)
        frontier: dict[int, State] = {0: first}
        for _ in range(config.horizon):
            following: dict[int, State] = {}
            order = sorted(frontier, key=lambda node: -self._left[node])
            for node in order:
                if time.monotonic() > until:
                    raise TimeoutError(f"{len(self._nodes)} states, not all")
                self._expand(node, frontier.pop(node), following)
            self.report.steps.append(len(following))
            frontier = following
        for node, state in frontier.items():
            self._run_on(node, state)
        self._judge_waits()

    def _expand(self, node: int, state: State, following: dict[int, State]) -> None:
        budget = self._left[node]
        for is_quiet, choices, successor in self._successors(state, budget, node):
            key = successor.digest(
                self.config.pace, old=self.config.old, with_past=choices.budget > 0
            )
            known = self._seen.get(key)
            self.report.schedules += 1
            if known is None:
                known = self._seen[key] = len(self._nodes)
                self._nodes.append(Step(node, choices.labels))
                self._left.append(choices.budget)
                self._note(successor, known)
                following[known] = successor
            elif self._left[known] < choices.budget:
                self._left[known] = choices.budget
                self._nodes[known] = Step(node, choices.labels)
                following[known] = successor
            if is_quiet:
                self._next[node] = known

    def _successors(
        self, state: State, budget: int, node: int
    ) -> Iterator[tuple[bool, Choices, State]]:
        waiting: list[tuple[int, ...]] = [()]
        known: set[tuple[int, ...]] = set()
        while waiting:
            given = waiting.pop()
            if given in known:
                continue
            known.add(given)
            choices = Choices(given, budget=budget)
            successor = state.copy()
            try:
                successor.advance(choices, self.config.pace)
            except Broken as broken:
                raise _Found(self._violation(str(broken), node, choices.labels)) from None
            waiting.extend(choices.others())
            yield not given, choices, successor

    def _note(self, state: State, node: int) -> None:
        if state.is_done(self.config.pace):
            self._waits[node] = 0
        if state.is_calm():
            self._calm.add(node)

    # ── somebody leads in time ──

    def _run_on(self, node: int, state: State) -> None:
        """Without faults beyond the horizon, until a state whose wait is known; for a while: what
        has not come about then never does."""
        now = node
        for _ in range(self.config.horizon + 2 * self.config.bound):
            if now in self._waits or now in self._next:
                return
            choices = Choices((), budget=0)
            try:
                state.advance(choices, self.config.pace)
            except Broken as broken:
                raise _Found(self._violation(str(broken), now, ())) from None
            key = state.digest(self.config.pace, old=self.config.old, with_past=False)
            known = self._seen.get(key)
            if known is None:
                known = self._seen[key] = len(self._nodes)
                self._nodes.append(Step(now, ()))
                self._left.append(0)
                self._note(state, known)
            self._next[now] = known
            now = known

    def _judge_waits(self) -> None:
        late: list[int] = []
        for node in range(len(self._nodes)):
            path: list[int] = []
            at = node
            on_path: set[int] = set()
            while at not in self._waits:
                if at in on_path or at not in self._next:
                    for it in (*path, at):
                        self._waits[it] = FOR_EVER
                    break
                path.append(at)
                on_path.add(at)
                at = self._next[at]
            for it in reversed(path):
                self._waits.setdefault(it, self._waits[at] + 1)
                at = it
            if node in self._calm:
                self.report.longest = max(self.report.longest, self._waits[node])
                if self._waits[node] > self.config.bound:
                    late.append(node)
        if late:
            node = min(late, key=lambda it: len(self._schedule(it)))
            wait = self._waits[node]
            lasts = str(wait) if wait < FOR_EVER else "ever more"
            what = f"{self._wanted} for {lasts} steps without a fault"
            raise _Found(Violation(what, self._schedule(node), self._first))

    # ── the schedule ──

    def _violation(self, what: str, node: int, labels: tuple[str, ...]) -> Violation:
        return Violation(what, [*self._schedule(node), labels], self._first)

    def _schedule(self, node: int) -> list[tuple[str, ...]]:
        steps: list[tuple[str, ...]] = []
        while node > 0:
            step = self._nodes[node]
            steps.append(step.labels)
            node = step.parent
        return steps[::-1]


class _Found(Exception):
    def __init__(self, violation: Violation) -> None:
        super().__init__(violation.what)
        self.violation = violation
