"""A member of an election for shards in an exploration, with its main.

The main reads the document at each step and works on each shard until the validity that it was
told for it. What is handed over it confirms at once, late, or never.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from elector_sidecar.core.handover import Intent
from elector_sidecar.core.lease_watch import ReadLease
from elector_sidecar.core.lease_writes import Candidate, WriteLease
from elector_sidecar.core.resume import AnswersAt
from elector_sidecar.core.timing import Timing
from elector_sidecar.shards.lease_stream import ListLeases, ReadNamed, WatchLeases
from elector_sidecar.shards.members.member_lease import MEMBER_ANNOTATION
from elector_sidecar.shards.members.membership import ShardMember as Membership
from elector_sidecar.shards.shard_election import ShardElection
from elector_sidecar.shards.table.shard_table import (
    ELECTION_LABEL,
    TABLE_ANNOTATION,
    MalformedTable,
    decode,
)
from elector_sidecar.shards.table.table_writes import WriteNamed
from tools.explore.actors.actor import WALL, Actor, World
from tools.explore.actors.moment import Moment
from tools.explore.store import NAMESPACE, Answer, Change, has_label

TABLE = "ring"
LABEL = (ELECTION_LABEL, TABLE)
Make = Callable[..., ShardElection]


class ShardMember(Actor):
    kind = "shards"

    def __init__(
        self,
        name: str,
        rate: float,
        timing: Timing,
        *,
        shards: int,
        settle: float,
        make: Make = ShardElection,
        resumes: bool = False,
    ) -> None:
        super().__init__(name, rate)
        # All its processes listen at one address.
        self._answers_at = AnswersAt(name, "here", "boot") if resumes else None
        self._timing = timing
        self.shards = shards
        self._settle = settle
        self._make = make
        self._is_news = False
        # Until when the main works on each shard, in true time.
        self.told: dict[int, float] = {}
        # By shard and token: the step at which the main stops.
        self.stops: dict[tuple[int, int], float] = {}
        self.is_leaving = False

    def start(self, world: World) -> None:
        candidate = Candidate(
            self.identity,
            NAMESPACE,
            f"{TABLE}-{self.name}",
            self._timing,
            take_missing=True,
            shares_watch=True,
            answers_at=self._answers_at,
        )
        member = Membership(candidate, TABLE, self.shards, self._settle)
        self.core = self._make(member, now=self.now(world.time))
        self.stops, self.is_leaving, self._is_news = {}, False, True
        self.told = dict(self.told)  # its main works on

    def touch(self) -> Any:
        if not self._owns_core:
            self.told, self.stops = dict(self.told), dict(self.stops)
        self._is_news = True
        return super().touch()

    def key(self, command: Any) -> Any:
        kind = command.__class__
        if kind is ReadLease or kind is WriteLease:
            return "own", command.id
        return ("stream" if kind in (ListLeases, ReadNamed, WatchLeases) else "table"), command.id

    def timeout(self) -> float:
        return self._timing.request_timeout

    def floor(self) -> int:
        return int(self.core._stream.version)

    def owned(self, time: float) -> list[int]:
        owned: list[int] = self.core.owned(self.now(time)) if self.is_up else []
        return owned

    def leads(self, time: float) -> bool:
        return bool(self.owned(time))

    def works_on(self, time: float) -> set[int]:
        """What its main works on, or a 200 would be answered for now, if only on waking."""
        return {shard for shard, until in self.told.items() if until > time}

    def pending(self, step: int) -> bool:
        is_absent = not self.is_up or step < max(self.frozen_until, self.cut_until)
        is_held = self.watch is not None and self.watch.held_until > step
        return is_absent or is_held or bool(self.mail) or self.is_leaving

    # ── the core ──

    def is_due(self, world: World) -> bool:
        now = self.now(world.time)
        return self._is_news or bool(self.core.wake_at(now) <= now)

    def advance(self, world: World) -> list[Any]:
        self._is_news = False
        now = self.now(world.time)
        commands: list[Any] = self.core.advance(now, wall=WALL + world.time, chance=0.0)
        return commands

    def writes(self, command: Any) -> bool:
        return isinstance(command, WriteLease | WriteNamed)

    def asks_for(self, command: Any) -> str:
        match command:
            case ReadLease() | WriteLease():
                return f"{TABLE}-{self.name}"
            case ReadNamed(name=name) | WriteNamed(name=name):
                return name
        return ""

    def opens_watch(self, command: Any) -> bool:
        return isinstance(command, WatchLeases)

    def is_watched(self, change: Change) -> bool:
        return has_label(change.lease, LABEL)

    def serve(self, world: World, command: Any) -> Answer:
        store = world.store
        match command:
            case ReadLease():
                return store.get(f"{TABLE}-{self.name}")
            case ReadNamed(name=name):
                return store.get(name)
            case ListLeases():
                return store.list(LABEL)
            case _:
                return (store.post if command.creates else store.put)(command.body)

    def report(self, now: Moment, command: Any, answer: Answer | None) -> None:
        core = self.core
        match command:
            case ReadLease(id=id_):
                if answer is None:
                    core.election.read_failed(id_, now)
                else:
                    core.election.read_answered(id_, now, answer.lease)
            case WriteLease(id=id_):
                if answer is None:
                    core.election.write_lost(id_, now)
                elif answer.lease is None:
                    core.election.write_conflicted(id_, now)
                else:
                    core.election.write_answered(id_, now, answer.lease)
            case ListLeases(id=id_):
                if answer is None:
                    core.list_failed(id_, now)
                else:
                    core.list_answered(id_, now, answer.leases, answer.resource_version)
            case ReadNamed(id=id_):
                if answer is None:
                    core.named_failed(id_, now)
                else:
                    core.named_answered(id_, now, answer.lease)
            case _:
                if answer is None:
                    core.write_failed(command.id, now)
                elif answer.lease is None:
                    core.write_rejected(command.id, now)
                else:
                    core.write_answered(command.id, now, answer.lease)

    def deliver(self, now: Moment, watch_id: int, change: Change) -> None:
        self.core.event_arrived(watch_id, now, change.lease, is_deleted=change.is_deleted)

    def end_watch(self, now: Moment, watch_id: int) -> None:
        self.core.watch_ended(watch_id, now, is_orderly=False)

    # ── the main ──

    def strike(self, world: World) -> None:
        super().strike(world)
        if not self.is_up or self.is_frozen(world.step):
            return
        self._stop(world)
        if self.is_leaving:
            self._leave(world)
        elif self.leads(world.time) and world.picks.pick(["stays", "leaves"], who=self.name):
            self.touch().set_intent(self.now(world.time), Intent.HOLD)
            self.is_leaving = True
            self._leave(world)

    def _leave(self, world: World) -> None:
        """As SIGTERM: releases when its main has stopped, ends, and is started again."""
        core, now = self.core, self.now(world.time)
        self._ask_to_stop(world)
        if core.election.intent is Intent.HOLD and core.is_settled(now):
            self.touch().set_intent(now, Intent.RELEASE)
        elif core.election.is_released:
            self.crash(world, world.pace.out)
            self.is_leaving = False

    def _ask_to_stop(self, world: World) -> None:
        late = world.pace.late_confirmation
        options = ("stops at once", f"stops {late} steps later", "never stops")
        for shard, it in self.core.ownership.handing_over.items():
            key = (shard, it.fencing_token)
            if key not in self.stops:
                answer = world.picks.pick(options, who=f"{self.name}'s main of shard {shard}")
                self.touch()
                self.stops[key] = world.step + (0, late, math.inf)[answer]
        self._stop(world)

    def _stop(self, world: World) -> None:
        for (shard, token), at in self.stops.items():
            if at <= world.step and at > -math.inf:
                self.touch()
                self.told.pop(shard, None)
                self.core.confirm(self.now(world.time), shard, token)
                self.stops[shard, token] = -math.inf

    def mind(self, world: World) -> None:
        core, now = self.core, self.now(world.time)
        until = core.valid_until(now)
        owned = self.owned(world.time)
        if until is not None and owned:
            is_news = self._is_news
            self.touch().tell(now, owned, until)
            self._is_news = is_news
            self.told.update(dict.fromkeys(owned, until / self.rate))
        self._ask_to_stop(world)


def said(metadata: Mapping[str, Any]) -> tuple[object, ...]:
    """The table and the member's word in the annotations of a Lease or of a body."""
    annotations = metadata.get("annotations") or {}
    table: object = None
    if TABLE_ANNOTATION in annotations:
        try:
            table = decode(annotations[TABLE_ANNOTATION])
        except MalformedTable:
            table = annotations[TABLE_ANNOTATION]
    note: object = None
    if MEMBER_ANNOTATION in annotations:
        content = json.loads(annotations[MEMBER_ANNOTATION])
        del content["digest"]
        note = tuple(content.values())
    return table, note
