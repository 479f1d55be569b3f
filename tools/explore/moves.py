"""An administrator who asks for switchovers and holds, and what they must not bring about.

Each annotation that is written, taken off or garbled costs a fault. What a write that was applied
must keep to is judged by the record before it, with the true time.
"""

from collections.abc import Sequence

from elector_sidecar.core.handover import SUCCESSION
from elector_sidecar.core.lease import Lease, wall_seconds
from elector_sidecar.core.moves.annotations import (
    HOLD_ANNOTATION,
    SWITCHOVER_ANNOTATION,
    Hold,
    MalformedMove,
    Switchover,
    hold_of,
    priority_of,
    switchover_of,
)
from elector_sidecar.core.moves.moves import MovePolicy
from tools.explore.actors.actor import WALL, Broken, World
from tools.explore.canonical import Canonical
from tools.explore.state import Extras, State
from tools.explore.store import Store

# Seconds: longer than a lease, so that each Lease expires meanwhile.
HELD_FOR = 6
# Seconds within which a switchover is to be begun; a hand-over at once takes less.
ASKED_FOR = 3
# Stamps of renewals grow by whole seconds, so that they may be ahead of time by one.
AHEAD = 1.0
SLACK = 1e-6


class MovingState(State):
    """`targets`: the pods that a switchover is asked for to."""

    __slots__ = ("asks", "targets")
    kept = ("moves",)

    def __init__(
        self,
        store: Store,
        actors: Sequence[object],
        *,
        restores: int,
        targets: tuple[str, ...],
        extras: Extras | None = None,
    ) -> None:
        super().__init__(store, actors, restores=restores, extras=extras)
        self.targets = targets
        self.asks = 0

    def copy(self) -> "MovingState":
        new = super().copy()
        assert isinstance(new, MovingState)
        new.targets, new.asks = self.targets, self.asks
        return new

    def _edit(self, world: World) -> None:
        lease = next(iter(self.store.leases.values()), None)
        if lease is None or not self.targets:
            return
        wall = round(WALL + world.time)
        number = f"ask-{self.asks}"
        switchovers = [Switchover(to, number, wall + ASKED_FOR) for to in self.targets]
        texts: list[tuple[str, str, str | None]] = [
            (f"asks for a switchover to {it.to or 'any'}", SWITCHOVER_ANNOTATION, it.text())
            for it in switchovers
        ]
        hold = Hold(number, wall + HELD_FOR)
        texts.append(("asks for a hold", HOLD_ANNOTATION, hold.text()))
        present = (SWITCHOVER_ANNOTATION, HOLD_ANNOTATION)
        texts += [(f"takes {it} off", it, None) for it in present if lease.annotation(it)]
        options = ["asks nothing", *(said for said, _, _ in texts)]
        if answer := world.picks.pick(options, who="an administrator"):
            _, name, text = texts[answer - 1]
            self.asks += 1
            annotations = dict(lease.raw["metadata"].get("annotations") or {})
            annotations.pop(name, None)
            if text is not None:
                annotations[name] = text
            metadata = {**lease.raw["metadata"], "annotations": annotations}
            self.store.put({**lease.raw, "metadata": metadata})
            self._tell(world)

    def is_calm(self) -> bool:
        wall = WALL + self.step
        leases = self.store.leases.values()
        return super().is_calm() and not any(is_held(lease, wall) for lease in leases)

    def canonical(self, old: float) -> Canonical:
        canonical = super().canonical(old)
        more = canonical.lease_extras
        wall = WALL + self.step

        def asked(lease: Lease) -> tuple[object, ...]:
            switchover, hold = _switchover(lease), hold_of(lease)
            found: list[object] = [priority_of(lease), None if more is None else more(lease)]
            if switchover is not None:
                is_released = switchover.released == lease.spec.renew_time
                left = max(switchover.until - wall, 0.0)
                found += [switchover.to, switchover.id, is_released, round(left)]
            if hold is not None:
                found += [hold.id, round(max(hold.until - wall, 0.0))]
            return tuple(found)

        canonical.add(self.asks)
        canonical.lease_extras = asked
        return canonical


def is_held(lease: Lease, wall: float) -> bool:
    hold = hold_of(lease)
    return hold is not None and hold.until > wall + SLACK


def judge_move(before: Lease, after: Lease, policy: MovePolicy, *, wall: float) -> None:
    """A write of a member was applied: it takes nothing that a hold or a successor keeps it from,
    and asks for no lead sooner than it may."""
    holder = after.spec.holder_identity
    who = holder.rpartition("_")[0]
    if holder == before.spec.holder_identity:
        if after.annotation(SWITCHOVER_ANNOTATION) != before.annotation(SWITCHOVER_ANNOTATION):
            _judge_ask(before, after, policy, wall=wall)
        return
    if not holder:
        return
    if is_held(before, wall):
        raise Broken(f"{holder} takes a Lease that is held")
    switchover = _switchover(before)
    if switchover is None or before.spec.holder_identity or switchover.to == who:
        return
    released_at = wall_seconds(before.spec.renew_time) or 0.0
    is_named = switchover.released == before.spec.renew_time
    if is_named and wall < released_at + SUCCESSION - SLACK:
        raise Broken(f"{holder} takes a Lease that is released for {switchover.to}")


def _judge_ask(before: Lease, after: Lease, policy: MovePolicy, *, wall: float) -> None:
    if after.spec.renew_time != before.spec.renew_time or _switchover(after) is None:
        return  # the holder renews
    since = wall - (wall_seconds(before.spec.acquire_time) or 0.0)
    if since < policy.interval - AHEAD - SLACK:
        raise Broken(f"a switchover is asked for {since:g} s after the last one")
    if policy.priority <= priority_of(before):
        raise Broken(f"priority {policy.priority} asks one of {priority_of(before)}")


def _switchover(lease: Lease) -> Switchover | None:
    try:
        return switchover_of(lease)
    except MalformedMove:
        return None
