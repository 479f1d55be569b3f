"""A member of a single election in an exploration, with its main.

The main reads the document at each step and works until `validUntil`, or until it is told that
another leads. It is asked to stop when the pod resigns: it confirms at once, late, or never; then
the pod stops renewing, and stands by for a while.
"""

import math
from collections.abc import Callable
from typing import Any

from elector_sidecar.core.candidacy import ElectionView
from elector_sidecar.core.election import Election
from elector_sidecar.core.handover import Intent
from elector_sidecar.core.lease_watch import ReadLease, WatchLease
from elector_sidecar.core.lease_writes import Candidate, WriteLease
from elector_sidecar.core.moves.moves import MovePolicy
from elector_sidecar.core.resume import AnswersAt
from elector_sidecar.core.timing import Timing
from tools.explore.actors.actor import WALL, Actor, World
from tools.explore.actors.moment import Moment
from tools.explore.moves import judge_move
from tools.explore.store import NAMESPACE, Answer, Change

NAME = "controller"
Make = Callable[..., Election]


class Member(Actor):
    kind = "member"

    def __init__(
        self,
        name: str,
        rate: float,
        timing: Timing,
        make: Make = Election,
        *,
        resumes: bool = False,
        moves: MovePolicy | None = None,
    ) -> None:
        super().__init__(name, rate)
        self._moves = moves
        # All its processes listen at one address.
        self._answers_at = AnswersAt(name, "here", "boot") if resumes else None
        self._timing = timing
        self._make = make
        # The step at which a main that was asked to stop does so, and at which it is waited for
        # no more; at which a pod that has given up contends again.
        self.stops_at = math.inf
        self.drained_at = math.inf
        self.contends_at = math.inf

    def start(self, world: World) -> None:
        candidate = Candidate(
            self.identity,
            NAMESPACE,
            NAME,
            self._timing,
            answers_at=self._answers_at,
            moves=self._moves,
        )
        self.core = self._make(candidate, now=self.now(world.time))
        self.stops_at = self.drained_at = self.contends_at = math.inf

    def timeout(self) -> float:
        return self._timing.request_timeout

    def floor(self) -> int:
        return int(self.core._lease_watch.newest)

    def view(self, time: float) -> ElectionView:
        view: ElectionView = self.core.view(self.now(time))
        return view

    def leads(self, time: float) -> bool:
        return self.is_up and self.view(time).is_leader

    # ── the core ──

    def is_due(self, world: World) -> bool:
        now = self.now(world.time)
        return bool(self.core.wake_at(now) <= now)

    def advance(self, world: World) -> list[Any]:
        now = self.now(world.time)
        commands: list[Any] = self.core.advance(now, wall=WALL + world.time, chance=0.0)
        return commands

    def opens_watch(self, command: Any) -> bool:
        return isinstance(command, WatchLease)

    def writes(self, command: Any) -> bool:
        return isinstance(command, WriteLease)

    def asks_for(self, command: Any) -> str:
        return NAME

    def serve(self, world: World, command: Any) -> Answer:
        if isinstance(command, ReadLease):
            return world.store.get(NAME)
        before = world.store.leases.get(NAME)
        method = world.store.post if command.creates else world.store.put
        answer = method(command.body)
        if self._moves is not None and answer.status == 200 and before and answer.lease:
            judge_move(before, answer.lease, self._moves, wall=WALL + world.time)
        return answer

    def report(self, now: Moment, command: Any, answer: Answer | None) -> None:
        core = self.core
        if isinstance(command, ReadLease):
            if answer is None:
                core.read_failed(command.id, now)
            else:
                core.read_answered(command.id, now, answer.lease)
        elif answer is None:
            core.write_lost(command.id, now)
        elif answer.lease is None:
            core.write_conflicted(command.id, now)
        else:
            core.write_answered(command.id, now, answer.lease)

    def deliver(self, now: Moment, watch_id: int, change: Change) -> None:
        self.core.event_arrived(watch_id, now, change.lease, is_deleted=change.is_deleted)

    def listens(self, watch_id: int) -> bool:
        return bool(self.core._lease_watch.is_watched_by(watch_id))

    def end_watch(self, now: Moment, watch_id: int) -> None:
        self.core.watch_ended(watch_id, now, is_orderly=False)

    # ── the main ──

    def strike(self, world: World) -> None:
        super().strike(world)
        if not self.is_up or self.is_frozen(world.step):
            return
        self._follow_main(world)
        if self.core.intent is Intent.CONTEND and self.leads(world.time):
            late = world.pace.late_confirmation
            is_asked = self.core.asked(self.now(world.time)) is not None
            options = ["gives up as it is asked" if is_asked else "leads on"]
            options += ["resigns, and its main stops at once"]
            options += [f"resigns, and its main stops {late} steps later"]
            options += ["resigns, and its main never stops"]
            answer = world.picks.pick(options, who=self.name)
            if answer or is_asked:
                after = (0, 0, late, math.inf)[answer]
                self.touch().set_intent(self.now(world.time), Intent.HOLD)
                self.stops_at = world.step + after
                self.drained_at = world.step + world.pace.drain
                self._follow_main(world)

    def _follow_main(self, world: World) -> None:
        now, step = self.now(world.time), world.step
        if self.stops_at <= step:
            self.works_until = min(self.works_until, world.time)
            self.stops_at = math.inf
            if self.core.intent is Intent.HOLD:
                self.touch().set_intent(now, Intent.RELEASE)
        if self.drained_at <= step:
            self.drained_at = math.inf
            self.touch().set_intent(now, Intent.ABSTAIN)
            self.contends_at = step + world.pace.out
        if self.contends_at <= step:
            self.contends_at = math.inf
            self.touch().set_intent(now, Intent.CONTEND)

    def mind(self, world: World) -> None:
        view = self.view(world.time)
        if view.is_leader and view.valid_until is not None:
            self.works_until = view.valid_until / self.rate
        elif self.core.intent is Intent.CONTEND:
            self.works_until = min(self.works_until, world.time)

    def pending(self, step: int) -> bool:
        """Whether something that a fault began is still to come."""
        is_absent = not self.is_up or step < max(self.frozen_until, self.cut_until)
        is_held = self.watch is not None and self.watch.held_until > step
        return (
            is_absent
            or is_held
            or bool(self.mail)
            or self.drained_at < math.inf
            or self.contends_at < math.inf
        )
