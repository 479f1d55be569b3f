"""What is seen of nodes that share an address: by their kernels, by a client, by who asks electors.

Owns no process; judges with ownership.py. Times are seconds on CLOCK_BOOTTIME.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tools.harness.controlplane.clients.answer import boottime
from tools.harness.pods.observers.observer import Observer, wait_for
from tools.nemesis.vip.ownership import (
    Finding,
    Spell,
    owners,
    seen_twice,
    shared,
    spells,
    unfounded,
)

# keepalived.conf: CHECK_FALL x CHECK_INTERVAL + CHECK_TIMEOUT.
HOLD = 2.0
# By which an outsider on a busy machine sees a 200 too late.
SLACK = 0.5
# From nothing to an owner: electors and keepalived start, the hold, a check, three adverts.
SETTLE_TIMEOUT = 60.0


class Told(Protocol):
    """Lines that were printed up to now."""

    def so_far(self) -> Sequence[Mapping[str, Any]]: ...


class Elector(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def is_running(self) -> bool: ...
    def is_leader(self) -> bool: ...


class NodeObserver:
    """`kernels`: watch_address.py of each node, by its elector's name; `client`: ask_network.py."""

    def __init__(
        self,
        electors: Sequence[Elector],
        *,
        kernels: Mapping[str, Told],
        client: Told,
        observer: Observer,
    ) -> None:
        self._electors = electors
        self._kernels = kernels
        self._client = client
        self._observer = observer

    def spells(self) -> list[Spell]:
        return spells({name: told.so_far() for name, told in self._kernels.items()})

    def owners(self) -> list[str]:
        return owners(self.spells(), boottime())

    def answering(self) -> Sequence[str]:
        """Whose hardware address the client was told last."""
        told: list[str] = self._client.so_far()[-1]["owners"]
        return told

    def findings(self) -> list[Finding]:
        """All broken promises up to now."""
        found, answers = self.spells(), self._observer.answers()
        return [
            *shared(found),
            *seen_twice(self._client.so_far()),
            *unfounded(found, answers, hold=HOLD + SLACK),
        ]

    def settled(self) -> str:
        """The name of the one that leads and owns the address, once the client sees it there."""

        def is_settled() -> bool:
            leaders = [each.name for each in self._electors if each.is_running and each.is_leader()]
            return len(leaders) == 1 and leaders == self.owners() and len(self.answering()) == 1

        wait_for(is_settled, timeout=SETTLE_TIMEOUT, what="an owner that leads", interval=0.1)
        return self.owners()[0]

    def hand_over(self, old: str, *, since: float, timeout: float) -> float:
        """Seconds from `since` until another node than `old` owned the address."""

        def another() -> list[Spell]:
            return [each for each in self.spells() if each.since > since and each.node != old]

        wait_for(lambda: bool(another()), timeout=timeout, what="another owner")
        return another()[0].since - since
