"""What a node thinks of its peers, from the rounds of `GET /state`. Pure.

    answer, kubelet well ------------------> ALIVE
    answer, kubelet not; refused, accepted
    without an answer, wrong certificate --> DEGRADED      the host lives
    three rounds in a row without a sign --> SILENT

A vote that a node is gone weighs more than an own verdict: SILENT is one only once the kernel has
found no host at the peer's address (`testimony`); until then it is reported as DEGRADED.

Guarantees: a peer of which too little is known has no verdict, which does not count. DEGRADED and
SILENT are shown as NEVER_HEARD unless the peer was heard alive within a day, by this process or one
before it (`hearing`), over the address and certificate that it has now. So a closed port is not
taken for a death. A gap in the own loop voids all verdicts. Where most peers turn silent at
once, the trouble is here: what was shown stays for `TROUBLE_HOLD` seconds, or until most are heard
again. Times are seconds of one clock, and come in.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from pool_sidecar.core.hearing import Hearing, identity_of
from pool_sidecar.core.lan_state import LanState
from pool_sidecar.core.members import Peer
from pool_sidecar.core.pool_member import MAX_MEMBERS, Link, Verdict

# Seconds between two rounds, and for which one may take (pool.md 2).
ROUND: Final = 2.0
ROUND_DEADLINE: Final = 1.5
# Seconds for which a state is believed: three rounds (pool.md 2).
STATE_VALID: Final = 6.0
# So many rounds in a row without a sign.
SILENT_AFTER: Final = 3
# Seconds: more than a round is missing of what the own loop should have seen (pool.md 5).
STANDSTILL: Final = 2.0
# Seconds within which more than half of the others, and at least two, turn silent (pool.md 5).
TROUBLE_WINDOW: Final = 10.0
TROUBLE_HOLD: Final = 30.0
MIN_TROUBLE: Final = 2
# Seconds; an address that answered a day ago may be another machine's today.
HEARD_VALID: Final = 24 * 3600.0
# Seconds: kubelet renews its Lease every ten, so the API may have lost a node that had no link, or
# was not heard, for as long; and has made it Ready again within a minute after that. A member that
# has not heard the node since then bears no witness of it, also after a restart of its own.
MAY_BE_LOST: Final = 10.0
SETTLED_AFTER: Final = 60.0


class Sign(Enum):
    """What is known of a peer that did not answer. UNPROVEN: there is no sign, but the kernel has
    yet to find out whether its host is on the subnet."""

    HOST_LIVES = "host lives"
    UNPROVEN = "unproven"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Standing:
    """A verdict, and since when it has been so. `is_word`: the peer itself says so, of its kubelet,
    and nothing else shows it. `heard_at`: when a process before this one heard it; None where this
    one has."""

    verdict: Verdict
    since: float
    is_word: bool = field(default=False, compare=False)
    heard_at: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class HeardState:
    """A state, and when it came."""

    state: LanState
    at: float


class _PeerRecord:
    """What was seen of one peer."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.heard: HeardState | None = None
        self.alive_at: float | None = None
        # By a process before this one.
        self.is_restored = False
        # When it was last heard well, with a link; until when the API may make it Ready again.
        self.well_at = -math.inf
        self._settles_until = -math.inf
        self.seen: Standing | None = None
        self._misses = 0
        # Whether no host is at its address, by the last round without a sign.
        self._is_proven = False
        # What stays shown instead of SILENT, and since when this is no longer so.
        self.held: Standing | None = None
        self.held_until = 0.0

    def judge(self, verdict: Verdict, now: float, *, is_word: bool = False) -> None:
        self._misses = 0
        self._become(verdict, now, is_word=is_word)
        if verdict is not Verdict.SILENT:
            self.held, self.held_until = None, 0.0

    def is_settling(self, now: float) -> bool:
        """It was heard well, with a link: whether the API may make it Ready after this."""
        if now - self.well_at >= MAY_BE_LOST:
            self._settles_until = now + SETTLED_AFTER
        self.well_at = now
        return now < self._settles_until

    def missed(self, now: float, *, is_proven: bool) -> bool:
        """Whether it turned silent by this round."""
        self._misses += 1
        self._is_proven = is_proven
        is_silent = self.seen is not None and self.seen.verdict is Verdict.SILENT
        if self._misses < SILENT_AFTER or is_silent:
            return False
        self.held = self.seen
        self._become(Verdict.SILENT, now)
        return True

    def void(self) -> None:
        self._misses, self.seen, self.heard = 0, None, None
        self.held, self.held_until = None, 0.0

    @property
    def is_there(self) -> bool:
        return self.seen is not None and self.seen.verdict is not Verdict.SILENT

    def shown(self, now: float) -> Standing | None:
        seen = self.seen
        if seen is None:
            return None
        if seen.verdict is Verdict.SILENT and self.held_until:
            if now < self.held_until:
                return self.held
            seen = Standing(Verdict.SILENT, max(seen.since, self.held_until))
        if seen.verdict is Verdict.ALIVE:
            return seen
        if self.alive_at is None or now - self.alive_at > HEARD_VALID:
            return Standing(Verdict.NEVER_HEARD, seen.since, seen.is_word)
        if self.is_restored:
            return Standing(seen.verdict, seen.since, seen.is_word, self.alive_at)
        return seen

    def testified(self, now: float) -> Standing | None:
        """As a report has it."""
        shown = self.shown(now)
        if shown is None or shown.verdict is not Verdict.SILENT or self._is_proven:
            return shown
        return Standing(Verdict.DEGRADED, shown.since, shown.is_word, shown.heard_at)

    def _become(self, verdict: Verdict, now: float, *, is_word: bool = False) -> None:
        if self.seen is None or self.seen.verdict is not verdict:
            self.seen = Standing(verdict, now, is_word)
        elif self.seen.is_word is not is_word:
            self.seen = Standing(verdict, self.seen.since, is_word)


class Peers:
    def __init__(self) -> None:
        self._records: dict[str, _PeerRecord] = {}
        self._trouble_until = 0.0
        # Of peers that the directory has not named yet.
        self._restored: dict[str, Hearing] = {}
        # Grows when `hearing` has more to say than its age.
        self.news = 0

    def restore(self, heard: Mapping[str, Hearing]) -> None:
        """What a process before this one had heard, before the directory is known."""
        self._restored = dict(heard)

    def hearing(self, now: float) -> dict[str, Hearing]:
        """Whom this node has heard within `HEARD_VALID`, for the next process: as many as a pool
        has, those of nodes that left it last."""
        found = dict(self._restored)
        for name, record in self._records.items():
            if record.alive_at is not None:
                found[name] = Hearing(identity_of(record.peer), record.alive_at)
        valid = [(name, it) for name, it in found.items() if now - it.at <= HEARD_VALID]
        valid.sort(key=lambda it: (it[0] in self._records, it[1].at), reverse=True)
        return dict(valid[: MAX_MEMBERS - 1])

    def follow(self, peers: Mapping[str, Peer]) -> None:
        """The directory changed. A peer with another address or certificate was never heard."""
        before = self._records
        self._records = {}
        for name, peer in peers.items():
            record = before.get(name)
            if record is None or record.peer.identity != peer.identity:
                record = self._met(peer)
            if record.peer.is_lost and not peer.is_lost:
                record.well_at = -math.inf
            record.peer = peer
            self._records[name] = record

    def _met(self, peer: Peer) -> _PeerRecord:
        """One that is new here, or has another identity."""
        record, before = _PeerRecord(peer), self._restored.pop(peer.name, None)
        if before is not None and before.identity == identity_of(peer):
            record.alive_at, record.is_restored = before.at, True
        return record

    def answered(self, name: str, state: LanState, now: float) -> None:
        """`state` is believed of its sender only: one of another name is a wrong certificate."""
        record = self._records.get(name)
        if record is None:
            return
        if state.node != name:
            self.failed(name, Sign.HOST_LIVES, now)
            return
        record.heard = HeardState(state, now)
        if state.is_kubelet_ok:
            is_again = record.alive_at is None or now - record.alive_at >= MAY_BE_LOST
            record.alive_at, record.is_restored = now, False
            is_settling = state.link is not Link.NONE and record.is_settling(now)
            self.news += is_again or is_settling
        verdict = Verdict.ALIVE if state.is_kubelet_ok else Verdict.DEGRADED
        record.judge(verdict, now, is_word=True)
        self._judge_relief(now)

    def failed(self, name: str, sign: Sign, now: float) -> None:
        record = self._records.get(name)
        if record is None:
            return
        if sign is Sign.HOST_LIVES:
            # It does not answer any more: its last state is void.
            record.heard = None
            record.judge(Verdict.DEGRADED, now)
            self._judge_relief(now)
        elif record.missed(now, is_proven=sign is Sign.NONE):
            self._judge_trouble(now)

    def stood_still(self) -> None:
        """The own loop did not run for more than `STANDSTILL` seconds."""
        for record in self._records.values():
            record.void()

    def standing(self, name: str, now: float) -> Standing | None:
        """None where too little is known."""
        record = self._records.get(name)
        return None if record is None else record.shown(now)

    def verdicts(self, now: float) -> dict[str, Standing]:
        """On the peers that are not ALIVE, and known."""
        shown = ((name, record.shown(now)) for name, record in sorted(self._records.items()))
        return {name: it for name, it in shown if it and it.verdict is not Verdict.ALIVE}

    def testimony(self, now: float) -> dict[str, Standing]:
        """The verdicts as a report has them."""
        testified = ((name, it.testified(now)) for name, it in sorted(self._records.items()))
        return {name: it for name, it in testified if it and it.verdict is not Verdict.ALIVE}

    def state(self, name: str, now: float, *, within: float = STATE_VALID) -> LanState | None:
        """The peer's own word, of the last so many seconds."""
        record = self._records.get(name)
        heard = None if record is None else record.heard
        return heard.state if heard is not None and now - heard.at <= within else None

    def heard(self, now: float) -> Iterable[HeardState]:
        """The valid words of all peers."""
        found = (record.heard for record in self._records.values())
        return [it for it in found if it is not None and now - it.at <= STATE_VALID]

    def _judge_trouble(self, now: float) -> None:
        turned = [
            it
            for it in self._records.values()
            if it.seen is not None
            and it.seen.verdict is Verdict.SILENT
            and now - it.seen.since <= TROUBLE_WINDOW
        ]
        if now >= self._trouble_until:
            if len(turned) < MIN_TROUBLE or len(turned) * 2 <= len(self._records):
                return
            self._trouble_until = now + TROUBLE_HOLD
        for record in turned:
            record.held_until = record.held_until or self._trouble_until

    def _judge_relief(self, now: float) -> None:
        """A peer was heard. Where most are, the trouble is over, and who is silent now is so."""
        if now >= self._trouble_until:
            return
        there = [it for it in self._records.values() if it.is_there]
        if len(there) * 2 > len(self._records):
            self._trouble_until = now
            for record in self._records.values():
                record.held_until = min(record.held_until, now)
