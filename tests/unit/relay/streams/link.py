"""A link to upstream that is as a test says, whatever the time."""

from dataclasses import dataclass


@dataclass
class FixedLink:
    state: bool = True

    def is_up(self, now: float) -> bool:
        return self.state

    def is_behind(self, now: float) -> bool:
        return False
