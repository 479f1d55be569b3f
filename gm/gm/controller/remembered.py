"""What the controller remembers of an object between two plans.

Guarantees: of one child only the last refusal counts. Knows neither queues nor the API.
"""

from dataclasses import dataclass

from gm.core.engine.view import ChildRefusal


@dataclass
class Remembered:
    """What is remembered of an object between two plans."""

    uid: str = ""
    failures: int = 0
    refusals: tuple[ChildRefusal, ...] = ()
    refused_until: float | None = None
    # Reports that have no effect and do not stand in the status either: node, epoch, seq.
    refused: frozenset[tuple[str, int, int]] = frozenset()
    waits_for: str = ""

    def add(self, refusal: ChildRefusal) -> None:
        """In the place of an earlier one of the same child; the next plan says until when."""
        child = (refusal.kind, refusal.name)
        others = (it for it in self.refusals if (it.kind, it.name) != child)
        self.refusals = (*others, refusal)
        self.refused_until = None

    def expire(self, now: float) -> None:
        """`now` on CLOCK_BOOTTIME."""
        if self.refused_until is not None and now >= self.refused_until:
            self.refusals, self.refused_until = (), None
