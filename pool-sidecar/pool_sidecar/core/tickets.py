"""By what a member is known again before its next handshake: a word that it alone was given. Pure.

Pods leave a node under its address, so that a flood of theirs would use up the handshakes of the
node's member. A ticket says whose handshake this is; it proves nothing else: the certificate still
does. Guarantees: a ticket is of one member, and for minutes; who left the pool has none.
"""

from collections.abc import Callable, Container
from typing import Final

# Seconds for which it is good, and after which the member gets another one.
VALID: Final = 600.0
RENEWED: Final = 300.0


class Tickets:
    """`make`: a word that cannot be guessed, and may be a name in DNS."""

    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make
        self._owners: dict[str, tuple[str, float]] = {}
        self._newest: dict[str, tuple[str, float]] = {}

    def of(self, member: str, now: float) -> str:
        """The one that this member is to use from now on."""
        found = self._newest.get(member)
        if found is None or now - found[1] >= RENEWED:
            found = self._newest[member] = (self._make(), now)
            self._forget(now)
            self._owners[found[0]] = (member, now)
        return found[0]

    def owner(self, ticket: str, now: float) -> str | None:
        found = self._owners.get(ticket)
        return None if found is None or now - found[1] >= VALID else found[0]

    def keep(self, members: Container[str]) -> None:
        """Only those of these members."""
        self._newest = {name: it for name, it in self._newest.items() if name in members}
        self._owners = {word: it for word, it in self._owners.items() if it[0] in members}

    def _forget(self, now: float) -> None:
        self._owners = {word: it for word, it in self._owners.items() if now - it[1] < VALID}
