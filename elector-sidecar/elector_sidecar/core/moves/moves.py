"""Who is to lead next, as far as it is asked for: switchovers, holds, priorities.

Pure. Every rule here only makes a candidate wait longer, or makes a leader give up in order: none
frees a Lease, shortens a wait for another holder, or renews anything. Guarantees:

- a switchover is begun once, by the holder, and only if its main can say that it has stopped;
- a release that names a successor is left to that pod for `SUCCESSION`, by the own clock of each
  candidate since it saw the release, however the annotation is edited meanwhile;
- a hold ends: when it says so by the wall clock, and `LONGEST_HOLD` after this candidate saw it;
- a priority moves the lead to a strictly higher one, and not sooner than `MOVE_INTERVAL` after the
  last change of holder.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from elector_sidecar.core.handover import SUCCESSION, Cause, HandoverCause, SwitchoverTo
from elector_sidecar.core.lease import Lease, pod_name, wall_seconds
from elector_sidecar.core.moves.annotations import (
    HOLD_ANNOTATION,
    PRIORITY_ANNOTATION,
    SWITCHOVER_ANNOTATION,
    Hold,
    MalformedMove,
    Switchover,
    hold_of,
    priority_of,
    switchover_of,
)

# A hold whose time is a mistake does not keep the Lease free for ever: seconds.
LONGEST_HOLD = 7 * 86400.0
# Seconds between a change of holder and a switchover that a priority asks for.
MOVE_INTERVAL = 60.0
# The same holder is asked again only after this: what kept it from giving up is seldom over soon.
ASK_AGAIN = 600.0
# Seconds within which the holder is to begin a switchover that a priority asks for.
ASK_FOR = 30.0


@dataclass(frozen=True)
class MovePolicy:
    """`can_drain`: something says when the main has stopped. `settle`: seconds that this candidate
    contends before its priority counts; `interval`: `MOVE_INTERVAL`; `again`: `ASK_AGAIN`."""

    can_drain: bool
    priority: int = 0
    settle: float = 30.0
    interval: float = MOVE_INTERVAL
    again: float = ASK_AGAIN


class Moves:
    """What one candidate knows of it. Without a policy nothing is asked of it, and nothing of its
    own is written."""

    def __init__(self, identity: str, policy: MovePolicy | None, *, now: float) -> None:
        self._identity = identity
        self._pod = pod_name(identity)
        self._policy = policy
        # The release that names a successor: of which Lease, and when by its own stamp.
        self._release: tuple[str, str | None] | None = None
        self._yields_until = -math.inf
        self._hold_id = ""
        self._hold_seen_at = -math.inf
        # The id of the switchover for which this candidate has given up.
        self._begun = ""
        # By `POST /resign?to=`, not by the record.
        self._named: Switchover | None = None
        # Of a priority only.
        self._contends_since = now if self._has_priority else -math.inf
        self._term: tuple[str, str | None] | None = None
        self._holder_since = -math.inf
        self._holder_priority = 0
        self._settles_since = -math.inf
        self._asked_of = ""
        self._asked_at = -math.inf

    @property
    def _has_priority(self) -> bool:
        return self._policy is not None and self._policy.priority > 0

    # ── what is learnt ──

    def adopt(self, now: float, lease: Lease, *, wall: float) -> None:
        if self._policy is None:
            return
        self._adopt_release(now, lease)
        hold = _hold(lease)
        if hold is not None and hold.id != self._hold_id:
            self._hold_id, self._hold_seen_at = hold.id, now
        if self._has_priority:
            self._adopt_holder(now, lease, wall=wall)

    def _adopt_release(self, now: float, lease: Lease) -> None:
        if lease.spec.holder_identity:
            self._yields_until = -math.inf
        switchover = _switchover(lease)
        if lease.spec.holder_identity or switchover is None:
            return
        release = (lease.uid, lease.spec.renew_time)
        is_named = switchover.released != "" and switchover.released == lease.spec.renew_time
        if is_named and release != self._release:
            self._release = release
            is_mine = switchover.to == self._pod
            self._yields_until = -math.inf if is_mine else now + SUCCESSION

    def _adopt_holder(self, now: float, lease: Lease, *, wall: float) -> None:
        spec, priority = lease.spec, priority_of(lease)
        term = (spec.holder_identity, spec.acquire_time)
        if spec.holder_identity and term != self._term:
            # Of the first one it is not known how long it has led but by what the Lease says.
            acquired = wall_seconds(spec.acquire_time) if self._term is None else None
            ago = 0.0 if acquired is None else max(wall - acquired, 0.0)
            self._term, self._holder_since = term, now - ago
            self._settles_since = now
        if priority != self._holder_priority:
            self._holder_priority, self._settles_since = priority, now

    # ── when to wait ──

    def free_from(self, now: float, lease: Lease | None, *, wall: float) -> float:
        """Until then nothing is acquired, whatever else allows it; -inf for no such time."""
        if self._policy is None or lease is None:
            return -math.inf
        return max(self._yields_until, self.held_back_until(now, lease, wall=wall))

    def held_back_until(self, now: float, lease: Lease | None, *, wall: float) -> float:
        """The end of a hold, by the clock of `now`; -inf for none."""
        hold = None if self._policy is None or lease is None else _hold(lease)
        if hold is None:
            return -math.inf
        until = min(now + (hold.until - wall), self._hold_seen_at + LONGEST_HOLD)
        return until if until > now else -math.inf

    # ── the holder ──

    def asked(self, now: float, lease: Lease | None, *, wall: float) -> Cause | None:
        """Why the holder of this record is to give up."""
        if self.held_back_until(now, lease, wall=wall) > now:
            return HandoverCause.HOLD
        switchover = None if lease is None else _switchover(lease)
        if switchover is None or self._why_not(switchover, wall=wall):
            return None
        return SwitchoverTo(switchover.to)

    def problem(self, lease: Lease | None, *, is_mine: bool, wall: float) -> str:
        """What is asked by this record and not done, in words; "" for nothing."""
        if self._policy is None or lease is None:
            return ""
        try:
            hold_of(lease)
        except MalformedMove as error:
            return f"annotation {HOLD_ANNOTATION}: {error}"
        try:
            switchover = switchover_of(lease)
        except MalformedMove as error:
            return f"annotation {SWITCHOVER_ANNOTATION}: {error}"
        if switchover is None or not is_mine or switchover.id == self._begun:
            return ""
        return self._why_not(switchover, wall=wall)

    def _why_not(self, switchover: Switchover, *, wall: float) -> str:
        """Why this holder does not begin it; "" if it does."""
        if self._policy is None:
            return "this elector moves no lead"
        if switchover.released or switchover.id == self._begun:
            return f"the switchover {switchover.id} was begun before"
        if switchover.until <= wall:
            return f"the switchover {switchover.id} came too late"
        if switchover.to == self._pod:
            return f"the switchover {switchover.id} is to the holder itself"
        if not self._policy.can_drain:
            return f"the switchover {switchover.id}: without --drain-url nothing says that the " + (
                "main has stopped"
            )
        return ""

    def contend(self, now: float) -> None:
        """From now on."""
        if self._has_priority:
            self._contends_since = now
        self._named = None

    def give_up(self, lease: Lease | None, *, wall: float) -> None:
        """For whatever reason: what the record asks is begun with it."""
        switchover = None if lease is None else _switchover(lease)
        if switchover is not None and not self._why_not(switchover, wall=wall):
            self._begun = switchover.id

    def name_successor(self, switchover: Switchover) -> None:
        """For the next release."""
        self._named = switchover

    # ── what writes say ──

    def on_release(self, lease: Lease, *, stamp: str) -> Mapping[str, str | None]:
        """The annotations of a release at `stamp`; None: taken off."""
        if self._policy is None:
            return {}
        asked = _switchover(lease)
        successor = asked if asked is not None and asked.id == self._begun else self._named
        if successor is None or successor.to in ("", self._pod):
            return {SWITCHOVER_ANNOTATION: None, PRIORITY_ANNOTATION: None}
        text = successor.released_at(stamp).text()
        return {SWITCHOVER_ANNOTATION: text, PRIORITY_ANNOTATION: None}

    def on_hold(
        self, now: float, lease: Lease | None, *, is_mine: bool, is_contending: bool, wall: float
    ) -> Mapping[str, str | None]:
        """The annotations of a write that acquires or renews; None: taken off. A new holder answers
        no switchover that was asked of the one before; a hold that is over goes too."""
        if self._policy is None:
            return {}
        priority = self._policy.priority
        said: dict[str, str | None] = {PRIORITY_ANNOTATION: str(priority) if priority else None}
        if lease is None:
            return said
        switchover = _switchover(lease)
        is_begun = switchover is not None and switchover.id == self._begun and not is_contending
        is_kept = switchover is not None and (is_begun or not self._why_not(switchover, wall=wall))
        if not (is_mine and is_kept):
            said[SWITCHOVER_ANNOTATION] = None
        if self.held_back_until(now, lease, wall=wall) <= now:
            said[HOLD_ANNOTATION] = None
        return said

    # ── a higher priority ──

    def ask_at(self, now: float, lease: Lease | None, *, wall: float) -> float:
        """When to ask the holder for a switchover to this pod; +inf: never."""
        policy = self._policy
        if policy is None or lease is None or not lease.is_marked:
            return math.inf
        is_asked = lease.annotation(SWITCHOVER_ANNOTATION) is not None
        is_held = self.held_back_until(now, lease, wall=wall) > now
        is_mine = lease.spec.holder_identity == self._identity
        if is_mine or is_asked or is_held or policy.priority <= self._holder_priority:
            return math.inf
        again = policy.again if lease.spec.holder_identity == self._asked_of else policy.interval
        return max(
            self._contends_since + policy.settle,
            self._settles_since + policy.settle,
            self._holder_since + policy.interval,
            self._asked_at + again,
        )

    def ask(self, now: float, lease: Lease, *, wall: float, number: int) -> Mapping[str, str]:
        """The annotation that asks for it; `number` is of this write alone."""
        self._asked_of, self._asked_at = lease.spec.holder_identity, now
        switchover = Switchover(
            self._pod, f"{self._identity.rpartition('_')[2]}.{number}"[-80:], wall + ASK_FOR
        )
        return {SWITCHOVER_ANNOTATION: switchover.text()}

    def ask_conflicted(self) -> None:
        """It was not applied, and the next version of the record may be asked for the same."""
        self._asked_of, self._asked_at = "", -math.inf


def _switchover(lease: Lease) -> Switchover | None:
    """None for what asks nothing too."""
    try:
        return switchover_of(lease)
    except MalformedMove:
        return None


def _hold(lease: Lease) -> Hold | None:
    try:
        return hold_of(lease)
    except MalformedMove:
        return None
