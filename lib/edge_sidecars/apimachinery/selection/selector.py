"""What label and field selectors have in common: requirements, all of which hold.

Guarantees: `covers` and `residual` are sound: what does not follow from single requirements may be
missed, never made up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

# Selectors in use at one time on a node are few; a client that makes up new ones all the time must
# not grow the process.
CACHE_SIZE = 4096


class BadSelector(ValueError):
    """The message is kube-apiserver's."""


class Requirement(Protocol):
    def implies(self, other: Self, /) -> bool:
        """True only where all that this admits, the other admits."""


R = TypeVar("R", bound=Requirement)


@dataclass(frozen=True, slots=True)
class Selector(Generic[R]):
    """`requirements` are unique and in an order that does not depend on their spelling."""

    requirements: tuple[R, ...] = ()

    @property
    def is_everything(self) -> bool:
        return not self.requirements

    def covers(self, other: Self) -> bool:
        """True only where each object that the other selects is selected by this one."""
        return all(map(other._implies, self.requirements))

    def residual(self, other: Self) -> Self:
        """What of this selector does not follow from an object being selected by the other."""
        return type(self)(tuple(it for it in self.requirements if not other._implies(it)))

    def _implies(self, requirement: R) -> bool:
        return any(known.implies(requirement) for known in self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))
