"""One state of an exploration, and the step from it to the next ones."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from elector_sidecar.core.lease import Lease
from tools.explore.actors.actor import WALL, Broken, Pace, Picks, World
from tools.explore.actors.shard_member import said
from tools.explore.canonical import Canonical
from tools.explore.choices import Script
from tools.explore.store import Store

# Sweeps over all actors in one step, until none has anything to do.
SWEEPS = 30
# By the step: what else tells two records apart.
Extras = Callable[[int, Lease], object]


class State:
    __slots__ = ("actors", "edits", "extras", "restores", "step", "store")
    wanted = "nobody leads"
    # What a `Canonical` is to keep that is only reported elsewhere.
    kept: tuple[str, ...] = ()

    def __init__(
        self, store: Store, actors: Sequence[Any], *, restores: int, extras: Extras | None = None
    ) -> None:
        self.store = store
        self.extras = extras
        self.actors = list(actors)
        self.step = 0
        # How often the store may still be put back, and one Lease of it by hand.
        self.restores = restores
        self.edits = 0

    def copy(self) -> "State":
        new = self.__class__.__new__(self.__class__)
        new.store, new.step = self.store.copy(), self.step
        new.restores, new.edits, new.extras = self.restores, self.edits, self.extras
        new.actors = [actor.copy() for actor in self.actors]
        return new

    # ── a step ──

    def advance(self, picks: Picks, pace: Pace) -> None:
        """All that happens at this step, and the time until the next one."""
        time = self.step * pace.step
        world = World(self.store, self.step, time, picks, pace, told=self.store.version)
        self._restore(world)
        self._edit(world)
        for actor in self.actors:
            actor.strike(world)
        for actor in self.actors:
            self._after(world, actor, actor.arrive(world))
        order = self._order(world)
        world.asked = []
        for actor in order:
            self._after(world, actor, actor.run(world))
        world.picks.colliding = _colliding(world.asked)
        world.asked = None
        for _ in range(SWEEPS):
            acted = [self._after(world, actor, actor.run(world)) for actor in self.actors]
            if True not in acted:
                break
        else:
            raise Broken("the actors do not come to rest")
        floors = [actor.floor() for actor in self.actors if actor.is_up]
        self.store.forget(min(floors, default=self.store.version))
        self.store.remember()
        self.step += 1

    def settle(self, pace: Pace, *, steps: int) -> None:
        """Goes on without a choice until so many steps after somebody leads."""
        left = steps
        while left:
            self.advance(Script(()), pace)
            left = left - 1 if self.is_done(pace) else steps

    def _restore(self, world: World) -> None:
        past = self.store.past
        if self.restores < 1 or len(past) < 2:
            return
        options = ["keeps its state"]
        options += [f"is put back to its state {n} before" for n in range(1, len(past))]
        answer = world.picks.pick(options, who="the store")
        if answer:
            self.restores -= 1
            self.store.restore(len(past) - 1 - answer)
            world.told = self.store.version
            for actor in self.actors:
                actor.restored(world)
                actor.disconnect(world)

    def _edit(self, world: World) -> None:
        copies = self.store.copies() if self.edits else []
        options = ["edits nothing"]
        options += [f"puts {name} back to its state {ago} before" for name, ago, _ in copies]
        if answer := world.picks.pick(options, who="an administrator"):
            self.edits -= 1
            self.store.put_back(copies[answer - 1][2])
            self._tell(world)

    def _order(self, world: World) -> list[Any]:
        """Who acts first, where several want to. Any order is possible; another one than the
        default leads elsewhere only if two ask for one Lease, of whom one writes it. Requests for
        different Leases commute: the store keeps them apart but for their versions, which no core
        compares across Leases until a watch has brought both, and that is after this."""
        active = [it for it in self.actors if it.wants_to_act(world)]
        rest = [it for it in self.actors if it not in active]
        if len(active) < 2:
            return active + rest
        order = world.picks.order([actor.name for actor in active])
        return [*(active[it] for it in order), *rest]

    def _after(self, world: World, actor: Any, acted: bool) -> bool:
        """The others hear of what it wrote; nobody works beside it."""
        self._tell(world)
        if acted:
            self.judge(world.time)
        return acted

    def _tell(self, world: World) -> None:
        log = self.store.log
        if log and log[-1].resource_version > world.told:
            news = tuple(it for it in log if it.resource_version > world.told)
            world.told = log[-1].resource_version
            for other in self.actors:
                other.changed(news)

    # ── what must hold ──

    def judge(self, time: float) -> None:
        """P1: one main works at most, by what it was told; nobody else would be answered 200."""
        working = [actor for actor in self.actors if actor.works_by_rule(time)]
        for one, other in combinations(working, 2):
            pairs = ((one, other), (other, one))
            if not any(it.is_excused() and its.is_ignorant for it, its in pairs):
                raise Broken(f"P1: {one.identity} and {other.identity} work at once")

    def is_done(self, pace: Pace) -> bool:
        """What is to come about when no fault is under way has come about."""
        return any(actor.leads(self.step * pace.step) for actor in self.actors)

    def is_calm(self) -> bool:
        """No fault is under way any more."""
        return not any(actor.pending(self.step) for actor in self.actors)

    # ── sameness ──

    def canonical(self, old: float) -> Canonical:
        canonical = Canonical(old=old, kept=self.kept)
        canonical.lease_extras = None if self.extras is None else partial(self.extras, self.step)
        return canonical

    def digest(self, pace: Pace, *, old: float, with_past: bool) -> bytes:
        time = self.step * pace.step
        canonical = self.canonical(old)
        canonical.at(time, WALL + time)
        canonical.add(self.store.leases)
        canonical.add(self.store.version)
        canonical.add([(it.lease, it.resource_version) for it in self.store.log])
        if with_past and (self.restores or self.edits):
            canonical.add((self.restores, self.edits))
            for snapshot in self.store.past[:-1]:
                canonical.add(snapshot.leases)
                canonical.add(snapshot.version)
        for actor in self.actors:
            canonical.at(actor.now(time), WALL + time)
            _add_actor(canonical, actor, self.step, time)
        return canonical.digest()


def _colliding(asked: list[tuple[str, str, bool]]) -> set[str]:
    """Who asked for a Lease that another one wrote, or wrote one that another one asked for."""
    writers: dict[str, set[str]] = {}
    for name, who, writes in asked:
        if writes:
            writers.setdefault(name, set()).add(who)
    found: set[str] = set()
    for name, who, _ in asked:
        if others := writers.get(name, set()) - {who}:
            found |= {who, *others}
    return found


def _relative(value: float, now: float) -> float:
    return value - now if value > now else 0.0


def _add_actor(canonical: Canonical, actor: Any, step: int, time: float) -> None:
    add = canonical.add
    add(actor.is_up)
    add(actor.identity)
    add(_relative(actor.starts_at, step) if not actor.is_up else 0.0)
    add(_relative(actor.frozen_until, step))
    add(_relative(actor.cut_until, step))
    add(round(_relative(actor.works_until, time), 6))
    excused = round(_relative(actor.excused_until, time), 6)
    add((excused, actor.is_ignorant))
    if actor.kind == "member":
        add([_relative(it, step) for it in (actor.stops_at, actor.drained_at, actor.contends_at)])
        add(actor.core)
    elif actor.kind == "shards":
        add(actor.is_leaving)
        add([(it, round(_relative(until, time), 6)) for it, until in sorted(actor.told.items())])
        stops = sorted(actor.stops.items())
        add([(key, _relative(at, step)) for key, at in stops if at > -math.inf])
        add(actor.core)
    else:
        add((actor._observed_at, actor._is_leading, actor._record))
    canonical.add_ids(actor.open)
    for mail in actor.mail:
        add(mail.due - step)
        add(mail.generation == actor.generation)
        add(mail.command)
        if actor.kind == "shards" and hasattr(mail.command, "body"):
            add(said(mail.command.body["metadata"]))
        if mail.answer is not None:
            add((mail.answer.status, mail.answer.lease))
    for command, answer in actor.inbox:
        add(command)
        add(None if answer is None else (answer.status, answer.lease))
    watch = actor.watch
    if watch is not None:
        add((watch.silent, max(watch.held_until - step, 0)))
        add([(it.lease, it.resource_version, it.is_deleted) for it in watch.events])
