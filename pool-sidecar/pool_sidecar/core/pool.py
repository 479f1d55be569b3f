"""The member's role, its way to the cloud, and from whom it borrows: functions of now. Pure.

    own link up for BACK_AFTER s ----------------------------> Own
    own link down, or back for less: the lender, while it lends; else the next one ----> Lent
    neither -------------------------------------------------> None

Guarantees: A borrower never lends. Without news about it the own link counts as down. A member does
not lead whose own link is not up, whose relay does not follow all pool-scoped streams, or whose
claim ends within `LEAD_MARGIN` seconds. The order of lenders is stable, differs from node to node,
and needs no agreement.
"""

import hashlib
import math
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final

from pool_sidecar.core.members import Directory
from pool_sidecar.core.peers import HeardState, Peers
from pool_sidecar.core.pool_member import Link
from pool_sidecar.core.pool_streams import RelayStreams, StreamHealth

# Seconds for which the relay's word about the link counts; it is asked each second (pool.md 2).
LINK_VALID: Final = 3.0
# Seconds for which the own link was up before it is used, and before its owner leads (pool.md 3).
BACK_AFTER: Final = 10.0
# Seconds of a claim that must be left.
LEAD_MARGIN: Final = 2.0
# Seconds for which a lender that refused, or over which nothing came, is not asked again, unless
# there is no other one.
SHUN: Final = 30.0
# Seconds for which a peer's offer to lend counts: two rounds (pool.md 2).
LENDER_VALID: Final = 4.0
# Looks in a row that fail over one lender where there is no other one (pool.md 7). Where there is,
# one is enough: the second one would cost the node its Lease's 20 s (N1).
MAX_FAILURES: Final = 2


class Role(StrEnum):
    LEADER = "Leader"
    FOLLOWER = "Follower"
    PENDING = "Pending"


class OwnLink:
    """As the relay of this node judges it."""

    def __init__(self) -> None:
        self._is_up = False
        self._seen_at = -LINK_VALID
        self._up_since = 0.0

    def observed(self, *, is_up: bool, now: float) -> None:
        if is_up and not self.is_up(now):
            self._up_since = now
        self._is_up, self._seen_at = is_up, now

    def void(self) -> None:
        """This process stood still: what it knew is of before."""
        self._is_up = False

    def is_up(self, now: float) -> bool:
        return self._is_up and now - self._seen_at <= LINK_VALID

    def up_for(self, now: float) -> float:
        """Seconds; 0.0 while it is down."""
        return now - self._up_since if self.is_up(now) else 0.0


class OwnClaim:
    """The last answer of the elector of this node: that it leads, until `valid_until`."""

    def __init__(self) -> None:
        self.transitions = 0
        self._valid_until = 0.0

    def observed(self, *, transitions: int, valid_until: float) -> None:
        self.transitions, self._valid_until = transitions, valid_until

    def void(self) -> None:
        self._valid_until = 0.0

    def remaining(self, now: float) -> float:
        return max(self._valid_until - now, 0.0)


class Borrowing:
    """Whom this node borrows from. `is_usable(name, now)`: that one lends now."""

    def __init__(self, name: str, own: OwnLink, is_usable: Callable[[str, float], bool]) -> None:
        self._name = name
        self._own = own
        self._is_usable = is_usable
        self._lender = ""
        self._failures = 0
        self._shunned: dict[str, float] = {}
        self._peers: tuple[str, ...] = ()

    def link(self, now: float) -> Link:
        if self._own.is_up(now) and not self._lender:
            return Link.OWN
        if self._lender and self._is_usable(self._lender, now):
            return Link.LENT
        return Link.OWN if self._own.is_up(now) else Link.NONE

    def lender(self, now: float) -> str:
        """ "" unless the link is lent now."""
        return self._lender if self.link(now) is Link.LENT else ""

    def advance(self, peers: Iterable[str], now: float) -> None:
        """Keeps the lender, takes the next one, or goes back to the own link."""
        self._peers = tuple(peers)
        self._shunned = {name: until for name, until in self._shunned.items() if now < until}
        up_for = self._own.up_for(now)
        if up_for >= BACK_AFTER or (self._own.is_up(now) and not self._lender):
            self._take("")
        elif not (self._lender and self._is_usable(self._lender, now)):
            self._take("" if self._own.is_up(now) else self._next(self._peers, now))

    def refused(self, lender: str, now: float) -> None:
        """It answered 429 or 503, or did not answer."""
        self._shunned[lender] = now + SHUN
        if lender == self._lender:
            self._take("")

    def looked(self, lender: str, *, is_answered: bool, now: float) -> None:
        """A request to the cloud over that lender ended."""
        if lender != self._lender:
            return
        self._failures = 0 if is_answered else self._failures + 1
        if self._failures >= MAX_FAILURES:
            self.refused(lender, now)

    def was_silent(self, lender: str, now: float) -> None:
        """A look at the Lease over that lender had no answer at all."""
        if lender == self._lender and self._has_another(now):
            self.refused(lender, now)
        else:
            self.looked(lender, is_answered=False, now=now)

    def _has_another(self, now: float) -> bool:
        """Whether a lender that has not failed lately would take its place."""
        others = (it for it in self._peers if it != self._lender)
        return any(
            self._is_usable(it, now) and now >= self._shunned.get(it, -math.inf) for it in others
        )

    def _next(self, peers: Iterable[str], now: float) -> str:
        usable = [name for name in peers if self._is_usable(name, now)]
        welcome = [name for name in usable if name not in self._shunned] or usable
        return min(welcome, key=self._rank, default="")

    def _rank(self, name: str) -> bytes:
        return hashlib.sha256(f"{self._name}/{name}".encode()).digest()

    def _take(self, lender: str) -> None:
        if lender != self._lender:
            self._lender, self._failures = lender, 0


class Pool:
    """One member's machine: what it is, by what it last saw."""

    def __init__(self, name: str, *, lends: bool = True) -> None:
        self.directory = Directory(name)
        self.peers = Peers()
        self.own = OwnLink()
        self.claim = OwnClaim()
        self.streams = RelayStreams()
        self.borrowing = Borrowing(name, self.own, self.is_lender)
        self._lends = lends

    def follow(self, directory: Directory) -> None:
        self.directory = directory
        self.peers.follow(directory.peers)

    def stood_still(self) -> None:
        """Whatever was known of others, of the link and of leading, is of before."""
        self.peers.stood_still()
        self.own.void()
        self.claim.void()
        self.streams.void()

    def advance(self, now: float) -> None:
        self.borrowing.advance(self.directory.peers, now)

    def link(self, now: float) -> Link:
        return self.borrowing.link(now)

    def via(self, now: float) -> str:
        return self.borrowing.lender(now)

    def lends(self, now: float) -> bool:
        """Whether this member passes on bytes of others now."""
        return self._lends and self.link(now) is Link.OWN

    def is_eligible(self, now: float) -> bool:
        """Whether its elector may contend."""
        is_settled = self.own.up_for(now) >= BACK_AFTER and self.link(now) is Link.OWN
        return self.is_candidate and is_settled and self.streams.are_live(now)

    @property
    def is_candidate(self) -> bool:
        """Whether it may lead, as soon as it can."""
        return bool(self.directory.pool) and self.directory.may_lead

    def leads(self, now: float) -> bool:
        return self.is_eligible(now) and self.claim.remaining(now) >= LEAD_MARGIN

    def role(self, now: float) -> Role:
        if self.leads(now):
            return Role.LEADER
        return Role.PENDING if self.link(now) is Link.NONE else Role.FOLLOWER

    def hub(self, now: float) -> str:
        """The peer that leads, by its own word and the directory's; "" where there is none. Of two
        claims the later acquisition counts: the other one is about to lapse."""
        claims = [
            (it.state.leads.transitions, it.state.node)
            for it in self.peers.heard(now)
            if self._is_hub(it, now) and it.state.leads is not None
        ]
        return max(claims, default=(0, ""))[1]

    def _is_hub(self, heard: HeardState, now: float) -> bool:
        peer = self.directory.peers.get(heard.state.node)
        claim = heard.state.leads
        is_claimed = claim is not None and claim.remaining - (now - heard.at) > 0
        return peer is not None and peer.may_lead and is_claimed

    def serves(self, now: float) -> bool:
        """Whether peers may read the pool-scoped streams of this node's relay: it shows what is
        live, and nothing of what it knew."""
        return self.streams.are_shown(now)

    def live(self, name: str, now: float) -> dict[str, int]:
        """Cursors of a peer's streams that are live, by its own word."""
        state = self.peers.state(name, now)
        return (
            {} if state is None else {it.resource: it.cursor for it in state.streams if it.is_live}
        )

    def stream_health(self, now: float) -> tuple[StreamHealth, ...]:
        """Of each stream that this node's relay shares or the hub shows, by resource."""
        own = self.streams.shared(now)
        leads, hub = self.leads(now), self.hub(now)
        live = {it.resource for it in own if it.is_live} if leads else set(self.live(hub, now))
        resources = sorted({it.resource for it in own} | live)
        return tuple(StreamHealth(it, leads or bool(hub), it in live) for it in resources)

    def is_lender(self, name: str, now: float) -> bool:
        """Whether that member lends now; also one whose kubelet is ill: bytes do not pass through
        that."""
        state = self.peers.state(name, now, within=LENDER_VALID)
        return state is not None and state.link is Link.OWN
