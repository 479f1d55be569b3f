"""What a member writes of itself to the API, and when. Pure.

Guarantees: all well, it writes nothing (N7). A link is announced when it has been the same for
`HELD` seconds, so that flapping writes little. The report is written while this member, or some
that it hears, see a member that is not ALIVE: on change, then every 10 s for 5 minutes, then every
60 s. On a node that the API has lost it is written every 10 s, however long the trouble has lasted,
since the votes have to be of after that. It is not written once all that it names are judged, and
once more, empty, when all are well. What a single neighbour makes of it, by its word or by being
well and ill in turn, is written once a minute: only a vote is taken back at once. `sequence` goes
on from what the API has. The status says that the link is the own one only while the condition is
known to say so, and says that it is lent before the condition does. So a member that starts knows
of each condition that it may have to take back.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from pool_sidecar.core.peers import Standing
from pool_sidecar.core.pool_member import (
    Link,
    MemberStatus,
    PeerVerdict,
    Report,
)
from pool_sidecar.core.votes import is_vote

# Seconds (pool.md 3).
HELD: Final = 10.0
OFTEN: Final = 10
SELDOM: Final = 60
OFTEN_FOR: Final = 300.0
# Seconds between two writes: a status that somebody changes is not fought over.
PAUSE: Final = 2.0


@dataclass(frozen=True, slots=True)
class Situation:
    """What there is to say. `is_trouble`: peers that are heard name a member that is not ALIVE;
    `is_rumour`: a single one does. `judged`, `lost`: the members that are dead to the controller,
    and those that the API does not hear."""

    addresses: tuple[str, ...]
    certificates: tuple[str, ...]
    link: Link
    via: str
    verdicts: Mapping[str, Standing]
    is_trouble: bool
    judged: Collection[str]
    lost: Collection[str] = ()
    is_rumour: bool = False


@dataclass(frozen=True, slots=True)
class CloudLink:
    """The Node's condition."""

    is_up: bool
    via: str = ""


class Announcements:
    def __init__(self) -> None:
        self._written: MemberStatus | None = None
        # None: not known.
        self._condition: CloudLink | None = None
        self._link: tuple[Link, str] | None = None
        self._link_since = 0.0
        self._reported_at = -float(SELDOM)
        self._trouble_since: float | None = None
        # When there was trouble last: what comes and goes is one trouble.
        self._trouble_at = 0.0
        # When the verdict on each peer was last the reason of a report.
        self._changed_at: dict[str, float] = {}
        # Those whose own word the last verdict on them was.
        self._by_word: set[str] = set()
        self._tried_at = -PAUSE

    def found(self, status: MemberStatus) -> None:
        """What the API has of this member."""
        if self._written is None and status.link is Link.OWN:
            self._condition = CloudLink(True)
        self._written = status

    def status(self, it: Situation, now: float) -> MemberStatus | None:
        """What to write now; None where there is nothing new. Only with a link, after `found`."""
        if self._written is None or now - self._tried_at < PAUSE:
            return None
        written = self._written
        link, via = self._held_link(it, now)
        if link is Link.OWN and self._condition != CloudLink(True):
            link, via = written.link, written.via
        report = self._report(it, now)
        wanted = MemberStatus(it.addresses, it.certificates, link, via, report)
        if wanted == written:
            return None
        self._tried_at = now
        return wanted

    def condition(self, it: Situation, now: float) -> CloudLink | None:
        """The Node's condition, where it is to be written."""
        link, via = self._held_link(it, now)
        if link is None or link is Link.NONE:
            return None
        wanted = CloudLink(link is Link.OWN, via)
        written = self._written
        if not wanted.is_up and (written is None or written.link is not Link.LENT):
            return None
        return None if wanted == self._condition else wanted

    def written(self, status: MemberStatus, now: float) -> None:
        if self._written is None or status.report != self._written.report:
            self._reported_at = now
        self._written = status

    def condition_written(self, condition: CloudLink) -> None:
        self._condition = condition

    def _held_link(self, it: Situation, now: float) -> tuple[Link | None, str]:
        present = (it.link, it.via)
        if present != self._link:
            self._link, self._link_since = present, now
        written = self._written
        if written is None:
            return None, ""
        if now - self._link_since >= HELD and it.link is not Link.NONE:
            return present
        return written.link, written.via

    def _report(self, it: Situation, now: float) -> Report | None:
        last = None if self._written is None else self._written.report
        before = () if last is None else last.verdicts
        named = _verdicts(it.verdicts, now)
        for name, standing in it.verdicts.items():
            (self._by_word.add if standing.is_word else self._by_word.discard)(name)
        if not (named or before or it.is_trouble or it.is_rumour):
            return last
        every = self._every(it, now)
        changed = self._changed(it, before, named, now)
        if changed:
            for name in changed:
                self._changed_at[name] = now
            return self._next(last, every, named)
        if named and all(v.node in it.judged for v in named):
            return last
        # It counts as fresh for three of the periods that it names itself.
        promised = every if last is None else last.every
        is_due = now - self._reported_at >= min(every, promised)
        return self._next(last, every, named) if is_due else last

    def _every(self, it: Situation, now: float) -> int:
        """Seconds between two reports of now."""
        if any(name in it.lost and name not in it.judged for name in it.verdicts):
            return OFTEN
        is_seen = any(not standing.is_word for standing in it.verdicts.values())
        if not (is_seen or it.is_trouble):
            return SELDOM
        if self._trouble_since is None or now - self._trouble_at > SELDOM:
            self._trouble_since = now
        self._trouble_at = now
        return OFTEN if now - self._trouble_since <= OFTEN_FOR else SELDOM

    def _changed(
        self,
        it: Situation,
        before: Collection[PeerVerdict],
        named: Collection[PeerVerdict],
        now: float,
    ) -> set[str]:
        """The peers whose verdict is a reason to report at once."""
        earlier = {v.node: v for v in before}
        present = {v.node: v for v in named}
        found = set()
        for name in earlier.keys() | present.keys():
            old, new = earlier.get(name), present.get(name)
            is_same = old is not None and new is not None and old.verdict is new.verdict
            takes_back = not is_same and old is not None and is_vote(old)
            becomes_vote = (
                new is not None
                and is_vote(new)
                and not (is_same and old is not None and is_vote(old))
                and name in it.lost
            )
            last = self._changed_at.get(name, -math.inf)
            if name in self._by_word:
                last = max(last, self._reported_at)
            is_calm = now - last >= SELDOM
            if takes_back or becomes_vote or (not is_same and (is_calm or name in it.lost)):
                found.add(name)
        return found

    def _next(self, last: Report | None, every: int, named: tuple[PeerVerdict, ...]) -> Report:
        return Report(1 if last is None else last.sequence + 1, every, named)


def _verdicts(verdicts: Mapping[str, Standing], now: float) -> tuple[PeerVerdict, ...]:
    return tuple(
        PeerVerdict(name, it.verdict, _seconds(now, it.since), _heard(now, it.heard_at))
        for name, it in sorted(verdicts.items())
    )


def _seconds(now: float, since: float) -> int:
    return max(int(now - since), 0)


def _heard(now: float, at: float | None) -> int | None:
    return None if at is None else _seconds(now, at)
