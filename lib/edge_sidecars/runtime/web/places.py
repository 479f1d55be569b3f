"""Who has the places of one listener, by the addresses that they come from.

Knows no socket. Guarantees: a part of the places is for clients on this machine alone; no other
address has more than half of them, however many connections it opens.
"""

from collections import Counter
from ipaddress import ip_address
from typing import Final

# Places of each listener that only loopback gets: the main, kubelet's probes of a host (limits.md).
RESERVED: Final = 8
# The peer of who comes over loopback or a unix socket.
LOCAL: Final = ""


def peer_of(address: object) -> str:
    """Of what accept(2) says: the address without its port and zone, or `LOCAL`."""
    if not isinstance(address, tuple) or not address:
        return LOCAL
    host = str(address[0]).partition("%")[0]
    try:
        return LOCAL if ip_address(host).is_loopback else host
    except ValueError:
        return LOCAL


class Places:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._of_others = max(limit - RESERVED, limit // 2, 1)
        self._of_one = max(limit // 2, 1)
        self._taken: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        return self._taken.total()

    def takes(self, peer: str) -> None:
        self._taken[peer] += 1

    def leaves(self, peer: str) -> None:
        self._taken[peer] -= 1
        if self._taken[peer] <= 0:
            del self._taken[peer]

    @property
    def peers(self) -> set[str]:
        return set(self._taken)

    def rivals(self, peer: str) -> set[str] | None:
        """The peer that loses a connection so that `peer` may come; None: no one has to."""
        if peer != LOCAL:
            if self._taken[peer] >= self._of_one:
                return {peer}
            if self.taken - self._taken[LOCAL] >= self._of_others:
                return set(self._taken) - {LOCAL}
        return set(self._taken) if self.taken >= self.limit else None
