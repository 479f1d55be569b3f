"""A fact that could not be looked at."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Unknown:
    why: str
