"""A candidate by client-go's rules in an exploration, at the steps of the world.

Source: client-go tools/leaderelection/leaderelection.go, `tryAcquireOrRenew`, `acquire`, `renew`.
Up to 0.26 it has no fast path and judges a record by its own LeaseDuration; 0.37 judges by the
record's. It works until the last answered renewal + RetryPeriod + RenewDeadline, also when it has
read that another leads (hazard H2). Its process ends then, and another one contends.

It is not frozen here: what a frozen leader of client-go does is not of our making (contract P1,
assumption 4: other writers follow client-go's rules, in time).
"""

import math
from dataclasses import dataclass
from typing import Any

from elector_sidecar.core.lease import Lease, micro_time
from tools.explore.actors.actor import WALL, Actor, World
from tools.explore.actors.moment import Moment
from tools.explore.store import NAMESPACE, Answer, Change


@dataclass(frozen=True)
class GetLease:
    id: int


@dataclass(frozen=True)
class PutLease:
    """`base` None: a create."""

    id: int
    base: Lease | None
    renewed: str
    transitions: int


class ClientGo(Actor):
    kind = "client-go"

    def __init__(self, name: str, rate: float, *, lease: str, duration: int, is_old: bool) -> None:
        super().__init__(name, rate)
        self._lease_name = lease
        self._duration = duration
        self._deadline = duration * 10 / 15
        self._retry = duration * 2 / 15
        self._is_old = is_old
        self._forget()

    def _forget(self) -> None:
        self._record: Lease | None = None
        self._seen: tuple[Any, ...] | None = None
        self._observed_at = Moment(-math.inf)
        self._is_leading = False
        self._tried_at = Moment(-math.inf)
        self._ids = 0

    def start(self, world: World) -> None:
        self._forget()

    def restored(self, world: World) -> None:
        """It knows nothing of histories, and takes what is shown as free beside anybody."""
        super().restored(world)
        self.is_ignorant = True

    def touch(self) -> Any:
        if not self._owns_core:
            self.open, self._owns_core = dict(self.open), True
        return self

    def crash(self, world: World, steps: int) -> None:
        super().crash(world, steps)
        self.works_until = -math.inf  # its work is in the same process
        self._forget()

    def timeout(self) -> float:
        return max(1.0, self._deadline / 2)

    def floor(self) -> int:
        return 2**62

    def leads(self, time: float) -> bool:
        return self.is_up and self._is_leading and self.works_until > time

    def pending(self, step: int) -> bool:
        return not self.is_up or bool(self.mail) or step < self.cut_until

    def strike(self, world: World) -> None:
        if not self.is_up:
            return
        options = ["goes on", *(f"crashes for {n} steps" for n in world.pace.crash)]
        options += [f"is cut off for {n} steps" for n in world.pace.cut]
        self._strike(world, world.picks.pick(options, who=self.name) - 1)

    def is_watched(self, change: Change) -> bool:
        return False

    def opens_watch(self, command: Any) -> bool:
        return False

    def writes(self, command: Any) -> bool:
        return isinstance(command, PutLease)

    def asks_for(self, command: Any) -> str:
        return self._lease_name

    # ── leaderelection.go ──

    def is_due(self, world: World) -> bool:
        return not self.open and self._tried_at < self.now(world.time)

    def advance(self, world: World) -> list[Any]:
        now = self._tried_at = self.now(world.time)
        if self._is_leading and world.time >= self.works_until:
            self.generation += 1
            self._forget()
            self._tried_at = now
        record = self._record
        is_fast = not self._is_old and record is not None and self._is_mine(record)
        if is_fast and record is not None and self._is_valid(record, now):
            return [self._put(world, record, record.spec.lease_transitions)]
        return [self._get()]

    def mind(self, world: World) -> None:
        pass

    def _next_id(self) -> int:
        self._ids += 1
        return self._ids

    def _get(self) -> GetLease:
        return GetLease(self._next_id())

    def _put(self, world: World, base: Lease | None, transitions: int) -> PutLease:
        return PutLease(self._next_id(), base, micro_time(WALL + world.time), transitions)

    def serve(self, world: World, command: Any) -> Answer:
        if isinstance(command, GetLease):
            return world.store.get(self._lease_name)
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._duration,
            "acquireTime": command.renewed,
            "renewTime": command.renewed,
            "leaseTransitions": command.transitions,
        }
        if command.base is None:
            metadata = {"namespace": NAMESPACE, "name": self._lease_name}
            return world.store.post({"metadata": metadata, "spec": spec})
        return world.store.put({"metadata": command.base.raw["metadata"], "spec": spec})

    def _answered(self, world: World, command: Any, answer: Answer | None) -> None:
        if command.id not in self.open:
            return
        self.touch()
        del self.open[command.id]
        now = self.now(world.time)
        if isinstance(command, PutLease):
            if answer is not None and answer.lease is not None:
                self._observe(now, answer.lease)
                self._is_leading = True
                self.works_until = world.time + (self._retry + self._deadline) / self.rate
            elif command.base is not None and command.base is self._record:
                self._send(world, self._get())  # the fast path failed: the slow one at once
            return
        if answer is None or answer.status not in (200, 404):
            return
        if answer.lease is None:
            self._send(world, self._put(world, None, 0))
            return
        if _in_whole_seconds(answer.lease) != self._seen:
            self._observe(now, answer.lease)
        self._record = answer.lease
        spec = answer.lease.spec
        is_mine = self._is_mine(answer.lease)
        if spec.holder_identity and self._is_valid(answer.lease, now) and not is_mine:
            return
        transitions = spec.lease_transitions + (0 if is_mine else 1)
        self._send(world, self._put(world, answer.lease, transitions))

    def report(self, now: Moment, command: Any, answer: Answer | None) -> None:
        """Only of requests whose time is over: the next step tries again."""

    def _observe(self, now: Moment, lease: Lease) -> None:
        self._record, self._seen, self._observed_at = lease, _in_whole_seconds(lease), now

    def _is_mine(self, lease: Lease) -> bool:
        return lease.spec.holder_identity == self.identity

    def _is_valid(self, lease: Lease, now: Moment) -> bool:
        duration = self._duration if self._is_old else lease.spec.lease_duration or 0.0
        return self._observed_at + duration > now


def _in_whole_seconds(lease: Lease) -> tuple[Any, ...]:
    """Its record holds metav1.Time: what changed within a second has not changed."""
    spec = lease.spec
    return (
        spec.holder_identity,
        spec.lease_duration,
        (spec.acquire_time or "")[:19],
        (spec.renew_time or "")[:19],
        spec.lease_transitions,
    )
