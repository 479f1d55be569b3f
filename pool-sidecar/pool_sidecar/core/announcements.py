"""What a member writes of itself to the API, and when. Pure.

Guarantees: all well, it writes nothing (N7). A link is announced when it has been the same for
`HELD` seconds, so that flapping writes little. The report is written while this member, or one
that it hears, sees a member that is not ALIVE: on change, then every 10 s for 5 minutes, then every
60 s; not once all that it names are judged; and once more, empty, when all are well. `sequence`
goes on from what the API has. The status says that the link is the own one only while the condition
is known to say so, and says that it is lent before the condition does: so a member that starts
knows of each condition that it may have to take back.
"""

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

# Seconds (pool.md 3).
HELD: Final = 10.0
OFTEN: Final = 10
SELDOM: Final = 60
OFTEN_FOR: Final = 300.0
# Seconds between two writes: a status that somebody changes is not fought over.
PAUSE: Final = 2.0


@dataclass(frozen=True, slots=True)
class Situation:
    """What there is to say. `is_trouble`: a peer that is heard names a member that is not ALIVE."""

    addresses: tuple[str, ...]
    certificates: tuple[str, ...]
    link: Link
    via: str
    verdicts: Mapping[str, Standing]
    is_trouble: bool
    judged: Collection[str]


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
        self._reported_at = 0.0
        self._trouble_since: float | None = None
        self._tried_at = -PAUSE

    def found(self, status: MemberStatus) -> None:
        """What the API has of this member."""
        if self._written is None and status.link is Link.OWN:
            self._condition = CloudLink(True)
        self._written = status

    def status(self, it: Situation, now: float) -> MemberStatus | None:
        """What to write now; None where all is said. Only with a link, after `found`."""
        if self._written is None or now - self._tried_at < PAUSE:
            return None
        told = self._written
        link, via = self._held_link(it, now)
        if link is Link.OWN and self._condition != CloudLink(True):
            link, via = told.link, told.via
        report = self._report(it, now)
        wanted = MemberStatus(it.addresses, it.certificates, link, via, report)
        if wanted == told:
            return None
        self._tried_at = now
        return wanted

    def condition(self, it: Situation, now: float) -> CloudLink | None:
        """The Node's condition, where it is to be written."""
        link, via = self._held_link(it, now)
        if link is None or link is Link.NONE:
            return None
        wanted = CloudLink(link is Link.OWN, via)
        told = self._written
        if not wanted.is_up and (told is None or told.link is not Link.LENT):
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
        told = self._written
        if told is None:
            return None, ""
        if now - self._link_since >= HELD and it.link is not Link.NONE:
            return present
        return told.link, told.via

    def _report(self, it: Situation, now: float) -> Report | None:
        told = None if self._written is None else self._written.report
        before = () if told is None else told.verdicts
        is_trouble = bool(it.verdicts) or it.is_trouble
        if not is_trouble:
            self._trouble_since = None
            return self._next(told, OFTEN, ()) if before else told
        if self._trouble_since is None:
            self._trouble_since = now
        named = _verdicts(it.verdicts, now)
        is_change = {(v.node, v.verdict) for v in named} != {(v.node, v.verdict) for v in before}
        if is_change:
            return self._next(told, OFTEN, named)
        if named and all(v.node in it.judged for v in named):
            return told
        every = OFTEN if now - self._trouble_since <= OFTEN_FOR else SELDOM
        # It counts as fresh for three of the periods that it names itself.
        promised = 0 if told is None else told.every
        is_due = now - self._reported_at >= min(every, promised)
        return self._next(told, every, named) if is_due else told

    def _next(self, told: Report | None, every: int, named: tuple[PeerVerdict, ...]) -> Report:
        return Report(1 if told is None else told.sequence + 1, every, named)


def _verdicts(verdicts: Mapping[str, Standing], now: float) -> tuple[PeerVerdict, ...]:
    return tuple(
        PeerVerdict(name, it.verdict, max(int(now - it.since), 0))
        for name, it in sorted(verdicts.items())
    )
