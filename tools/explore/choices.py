"""What may go otherwise in one step: each run of a step asks here, and all answers are tried.

A step is run again for each way that it can go, from a copy of the state before it, with the
answers given so far and the default for the rest. Answer 0 is the default and costs nothing; any
other costs what the asker says, usually one fault of the budget.
"""

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import NamedTuple


class Choice(NamedTuple):
    """What was answered, out of how many, and in words."""

    answer: int
    of: int
    label: str


class Choices:
    """The answers of one run of one step."""

    def __init__(self, given: Sequence[int], *, budget: int) -> None:
        self._given = given
        self.budget = budget
        self.made: list[Choice] = []
        # Where the order was chosen, and whether another one may lead elsewhere.
        self._order_at: int | None = None
        self._orders: list[tuple[int, ...]] = []
        self._names: Sequence[str] = ()
        self.colliding: set[str] = set()

    def order(self, names: Sequence[str]) -> Sequence[int]:
        """Who acts first: any order, at no cost; but of those that differ only in where somebody
        acts who is not `colliding`, which is known after that, one is tried."""
        self._orders, self._names = list(permutations(range(len(names)))), names
        said = ["order: " + ", ".join(names[it] for it in order) for order in self._orders]
        self._order_at = len(self.made)
        return self._orders[self.pick(said, who="in the", cost=0)]

    def pick(self, options: Sequence[str], *, who: str, cost: int = 1) -> int:
        """The index of an option; 0 where nothing may go otherwise any more."""
        if len(options) < 2 or self.budget < cost:
            return 0
        place = len(self.made)
        answer = self._given[place] if place < len(self._given) else 0
        label = f"{who} {options[answer]}" if answer else ""
        self.made.append(Choice(answer, len(options), label))
        if answer:
            self.budget -= cost
        return answer

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(choice.label for choice in self.made if choice.label)

    def others(self) -> Iterator[tuple[int, ...]]:
        """The answers to give to other runs, so that each way is run once."""
        answers = tuple(choice.answer for choice in self.made)
        at = self._order_at
        if at is not None and at < len(self.made) and not answers[at]:
            # From there on with every fault, by the runs of that order.
            for other in self._other_orders():
                yield (*answers[:at], other)
        for place in range(len(self._given), len(self.made)):
            if place == at:
                continue
            for other in range(1, self.made[place].of):
                yield (*answers[:place], other)

    def _other_orders(self) -> Iterator[int]:
        known = {self._order_of_colliding(self._orders[0])}
        for other, order in enumerate(self._orders):
            shown = self._order_of_colliding(order)
            if shown not in known:
                known.add(shown)
                yield other

    def _order_of_colliding(self, order: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._names[it] for it in order if self._names[it] in self.colliding)


class Script:
    """The answers of a play: by their words, once each."""

    def __init__(self, labels: Sequence[str]) -> None:
        self._left = list(labels)
        self.budget = len(self._left)
        self.labels: tuple[str, ...] = tuple(labels)
        self.colliding: set[str] = set()

    def order(self, names: Sequence[str]) -> Sequence[int]:
        for order in permutations(range(len(names))):
            label = "in the order: " + ", ".join(names[it] for it in order)
            if label in self._left:
                self._left.remove(label)
                return order
        return range(len(names))

    def pick(self, options: Sequence[str], *, who: str, cost: int = 1) -> int:
        for index, option in enumerate(options):
            if index and f"{who} {option}" in self._left:
                self._left.remove(f"{who} {option}")
                return index
        return 0

    @property
    def unused(self) -> list[str]:
        return self._left
