"""How many bytes of unfinished requests one listener keeps, of all its connections together.

Knows no HTTP and no socket. Guarantee: at most `limit` bytes; past that the connection that keeps
most gives up what it has (limits.md, section 2), so that a flood costs clients nothing that send
little.
"""

from typing import Final, Protocol

# Bytes; two of the longest writes that an API server takes (3 MiB) beside heads.
MAX_UNFINISHED: Final = 8 * 1024 * 1024


class Sender(Protocol):
    def give_up(self) -> None:
        """Answers, closes, and frees what was read; calls `Inflow.holds` with 0."""


class Inflow:
    def __init__(self, limit: int = MAX_UNFINISHED) -> None:
        self.limit = limit
        self.used = 0
        self.evicted = 0
        self._held: dict[Sender, int] = {}

    def holds(self, sender: Sender, size: int) -> None:
        """Takes the place of what it said before; others may have to give up for it."""
        self.used += size - self._held.pop(sender, 0)
        if size:
            self._held[sender] = size
        while self.used > self.limit:
            largest = max(self._held, key=self._held.__getitem__)
            self.evicted += 1
            largest.give_up()
            # Whatever it does, it counts no longer.
            self.used -= self._held.pop(largest, 0)
