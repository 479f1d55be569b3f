"""One elector with shards in the model: its election, its clock, its main, and its link.

The shell does what the real one does; a frozen process finds on waking what has reached it. The
main acts on documents: it confirms what is handed over after a while, or never.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from elector_sidecar.core.handover import Intent
from elector_sidecar.core.lease import Lease
from elector_sidecar.core.lease_watch import ReadLease
from elector_sidecar.core.lease_writes import Candidate, WriteLease
from elector_sidecar.core.resume import AnswersAt
from elector_sidecar.core.timing import Timing
from elector_sidecar.shards.lease_stream import ListLeases, ReadNamed, WatchLeases
from elector_sidecar.shards.members.membership import ShardMember
from elector_sidecar.shards.shard_election import Command, ShardElection
from elector_sidecar.shards.table.shard_table import TABLE_ANNOTATION
from elector_sidecar.shards.table.table_writes import WriteNamed
from tests.unit.elector.core.world import Clock, Link, Trouble, World
from tests.unit.elector.shards.leases import Answer, Change, LeaseServer, has_label

NAMESPACE, TABLE = "default", "ring"
STEP = 1e-6
STEPS_AT_ONCE = 300
# How often the main reads the document, in seconds.
DOCUMENT_INTERVAL = 1.0

Report = Callable[[ShardElection, float], object]


@dataclass(frozen=True)
class Settings:
    """What outlives a restart. `confirms_after`: seconds until the main confirms; inf: never."""

    name: str
    timing: Timing
    shards: int
    settle: float = 5.0
    confirms_after: float = 0.01
    is_told: bool = True


class Process:
    """From its start to its end; another start is another identity."""

    def __init__(
        self,
        world: World,
        server: LeaseServer,
        clock: Clock,
        settings: Settings,
        *,
        number: int,
        make: Callable[..., ShardElection] = ShardElection,
        before: "Process | None" = None,
    ) -> None:
        """`before`: it is of the same pod, whose main works on."""
        self.world = world
        self.server = server
        self.clock = clock
        self.link = Link(world)
        self.settings = settings
        self.identity = f"{settings.name}_{number}"
        self.lease = f"{TABLE}-{settings.name}"
        self.on_step: list[Callable[[Process], None]] = []
        self.is_dead = False
        self.requests = 0
        self.renewals = 0
        # Of the table, as it is: one member does it for all.
        self.table_renewals = 0
        self.freezes_before_write = 0.0
        self._frozen_until = -math.inf
        self._inbox: list[Report] = []
        self._timeout = settings.timing.request_timeout / clock.rate
        self._unsent: list[Command] = []
        self._steps = (0.0, 0)
        self._wake = 0
        self._watch: _Watch | None = None
        self._confirming: set[tuple[int, int]] = set()
        # Until when the main may work on a shard: what it was told, unless it said that it stopped.
        self._told: dict[int, float] = dict(before._told) if before else {}
        pod = AnswersAt(self.identity, "here", "boot")
        self.answers_at: AnswersAt = before.answers_at if before else pod
        candidate = Candidate(
            self.identity,
            NAMESPACE,
            self.lease,
            settings.timing,
            take_missing=True,
            shares_watch=True,
            answers_at=self.answers_at,
        )
        self.election = make(
            ShardMember(candidate, TABLE, settings.shards, settings.settle), now=clock.now()
        )

    def start(self) -> None:
        self._advance()
        if self.settings.is_told:
            self.world.after(DOCUMENT_INTERVAL, self._read_document)

    @property
    def is_frozen(self) -> bool:
        return self.world.time < self._frozen_until

    def owned(self) -> list[int]:
        return self.election.owned(self.clock.now())

    def worked_on(self) -> set[int]:
        """The shards that the main may work on, by what it knows."""
        now = self.clock.now()
        return {shard for shard, until in self._told.items() if now < until}

    def freeze(self, seconds: float) -> None:
        self._frozen_until = max(self._frozen_until, self.world.time + seconds)
        self.world.at(self._frozen_until, self._thaw)

    def thaw(self) -> None:
        self._frozen_until = -math.inf
        self._thaw()

    def kill(self) -> None:
        self.is_dead = True
        if self._watch is not None:
            self._watch.close()

    def set_intent(self, intent: Intent) -> None:
        self.report(lambda election, now: election.set_intent(now, intent))

    def leave(self) -> None:
        """As SIGTERM: answers 503, renews while the main may work, releases."""
        self.set_intent(Intent.HOLD)
        self._leave_when_settled()

    def _leave_when_settled(self) -> None:
        if self.is_dead:
            return
        if not self.is_frozen and self.election.is_settled(self.clock.now()):
            self.set_intent(Intent.RELEASE)
            self.world.after(3.0, self.kill)
            return
        self.world.after(0.05, self._leave_when_settled)

    def silence_watch(self) -> None:
        if self._watch is not None:
            self._watch.is_silent = True

    def end_watch(self) -> None:
        if self._watch is not None:
            self._watch.fail()

    def heal(self) -> None:
        self.link.heal()
        self.freezes_before_write = 0.0
        if self._watch is not None and self._watch.is_silent:
            self._watch.fail()
        self.thaw()

    # ── the main ──

    def _read_document(self) -> None:
        if self.is_dead:
            return

        def read(election: ShardElection, now: float) -> None:
            view = election.view(now)
            if view.valid_until is not None:
                election.tell(now, [it.shard for it in view.owned], view.valid_until)
                self._told |= {it.shard: view.valid_until for it in view.owned}
            for it in view.handing_over:
                self._confirm_later(it.shard, it.fencing_token)

        self.report(read)
        self.world.after(DOCUMENT_INTERVAL, self._read_document)

    def _confirm_later(self, shard: int, token: int) -> None:
        if self.settings.confirms_after == math.inf or (shard, token) in self._confirming:
            return
        self._confirming.add((shard, token))
        confirm: Report = lambda election, now: election.confirm(now, shard, token)  # noqa: E731

        def stop() -> None:
            self._told.pop(shard, None)
            self.report(confirm)

        self.world.after(self.settings.confirms_after, stop)

    # ── the shell ──

    def report(self, report: Report) -> None:
        if self.is_dead:
            return
        if self.is_frozen:
            self._inbox.append(report)
            return
        if report(self.election, self.clock.now()) is False:
            self._look()
        else:
            self._advance()

    def _thaw(self) -> None:
        if self.is_frozen or self.is_dead:
            return
        self._look()  # a request may be the first thing that is handled
        while self._unsent and not self.is_frozen:
            self._perform(self._unsent.pop(0))
        inbox, self._inbox = self._inbox, []
        for report in inbox:
            report(self.election, self.clock.now())
            self._look()
        self._advance()

    def _look(self) -> None:
        for listener in self.on_step:
            listener(self)

    def _advance(self) -> None:
        if self.is_dead or self.is_frozen:
            return
        self._look()
        now, chance = self.clock.now(), self.world.random.random()
        commands = self.election.advance(now, wall=self.clock.wall(), chance=chance)
        self._count_step()
        for command in commands:
            if isinstance(command, WriteLease | WriteNamed) and self.freezes_before_write:
                seconds, self.freezes_before_write = self.freezes_before_write, 0.0
                self.freeze(seconds)
            self._unsent.append(command)
        while self._unsent and not self.is_frozen:
            self._perform(self._unsent.pop(0))
        self._look()
        if self.settings.is_told:
            for shard, it in self.election.ownership.handing_over.items():
                self._confirm_later(shard, it.fencing_token)
        self._plan()

    def _plan(self) -> None:
        self._wake += 1
        wake, due = self._wake, self.election.wake_at(self.clock.now())
        if due < math.inf:
            at = max(self.clock.true_time(due), self.world.time) + STEP
            self.world.at(at, lambda: self._advance() if wake == self._wake else None)

    def _count_step(self) -> None:
        moment, count = self._steps
        count = count + 1 if self.world.time - moment < 2 * STEP else 0
        self._steps = (self.world.time, count)
        assert count < STEPS_AT_ONCE, f"{self.identity} does not come to rest"

    def _perform(self, command: Command) -> None:
        self.requests += 1
        match command:
            case ReadLease(id=id_):
                self._request(
                    lambda: self.server.get(self.lease),
                    lambda e, now, answer: (
                        e.election.read_answered(id_, now, answer.lease)
                        if answer and answer.status in (200, 404)
                        else e.election.read_failed(id_, now)
                    ),
                )
            case WriteLease():
                self.renewals += command.renews
                self._write_own(command)
            case ListLeases(id=id_):
                self._request(
                    lambda: self.server.list(TABLE),
                    lambda e, now, answer: (
                        e.list_answered(id_, now, answer.leases, answer.resource_version)
                        if answer and answer.status == 200
                        else e.list_failed(id_, now, is_refused=_is_refusal(answer))
                    ),
                )
            case ReadNamed(id=id_, name=name):
                self._request(
                    lambda: self.server.get(name),
                    lambda e, now, answer: (
                        e.named_answered(id_, now, answer.lease)
                        if answer and answer.status in (200, 404)
                        else e.named_failed(id_, now, is_refused=_is_refusal(answer))
                    ),
                )
            case WriteNamed():
                self._write_named(command)
            case WatchLeases():
                if self._watch is not None:
                    self._watch.close()
                self._watch = _Watch(self, command)

    def _write_own(self, write: WriteLease) -> None:
        def conclude(it: ShardElection, now: float, answer: Answer | None) -> None:
            election = it.election
            if answer is None or answer.status >= 500:
                election.write_lost(write.id, now)
            elif answer.status in (404, 409):
                election.write_conflicted(write.id, now)
            elif answer.lease is None:
                election.write_refused(write.id, now)
            else:
                election.write_answered(write.id, now, answer.lease)

        method = self.server.post if write.creates else self.server.put
        self._request(lambda: method(write.body), conclude)

    def _write_named(self, write: WriteNamed) -> None:
        def conclude(election: ShardElection, now: float, answer: Answer | None) -> None:
            if answer is None or answer.status >= 500:
                election.write_failed(write.id, now)
            elif answer.status == 409 or (answer.status == 404 and not write.creates):
                election.write_rejected(write.id, now)
            elif answer.lease is None:
                election.write_failed(write.id, now, is_refused=True)
            else:
                election.write_answered(write.id, now, answer.lease)

        stored = self.server.leases.get(write.name)
        if write.is_table and stored and _table_text(stored.raw) == _table_text(write.body):
            self.table_renewals += 1
        method = self.server.post if write.creates else self.server.put
        self._request(lambda: method(write.body), conclude)

    def _request(
        self,
        perform: Callable[[], Answer],
        conclude: Callable[[ShardElection, float, Answer | None], object],
    ) -> None:
        open_ = [True]

        def settle(answer: object) -> None:
            told = answer if isinstance(answer, Answer) else None
            if answer is not None and told is None:
                told = Answer(answer.status)  # type: ignore[attr-defined]

            def report(election: ShardElection, now: float) -> None:
                if open_:
                    open_.clear()
                    conclude(election, now, told)

            self.report(report)

        self.link.exchange(perform, settle)  # type: ignore[arg-type]
        self.world.after(self._timeout, lambda: settle(None) if open_ else None)


def _table_text(raw: Mapping[str, Any]) -> str | None:
    text: str | None = (raw["metadata"].get("annotations") or {}).get(TABLE_ANNOTATION)
    return text


def _is_refusal(answer: Answer | None) -> bool:
    return answer is not None and 400 <= answer.status < 500


class _Watch:
    """One watch by label; its events keep their order."""

    def __init__(self, process: Process, command: WatchLeases) -> None:
        self._process = process
        self._command = command
        self._arrived_at = 0.0
        self._is_open = False
        self.is_silent = False
        self.is_ended = False
        world = process.world
        arrives_at = process.link._one_way(Trouble.SLOW_REQUESTS)
        if arrives_at < math.inf:
            world.at(arrives_at, self._start)
        timeout = process.settings.timing.request_timeout / process.clock.rate
        world.after(timeout, lambda: None if self._is_open else self.fail())

    def _start(self) -> None:
        if self.is_ended:
            return
        self._is_open = True
        if self._process.link._has(Trouble.NO_WATCH):
            self.fail(is_orderly=False)
            return
        for change in self._process.server.changes:
            if change.resource_version > self._command.resource_version:
                self._changed(change)
        self._process.server.on_change.append(self._changed)

    def _changed(self, change: Change) -> None:
        is_shown, was_shown = has_label(change.lease, TABLE), has_label(change.before, TABLE)
        if self.is_silent or self.is_ended or not (is_shown or was_shown):
            return
        lease = change.lease if is_shown else change.before
        if lease is None:
            return
        shown: Lease = replace(lease, resource_version=change.resource_version)
        arrives_at = self._process.link.event_arrives_at()
        if arrives_at == math.inf:
            self.is_silent = True
            return
        self._arrived_at = max(arrives_at, self._arrived_at)
        world = self._process.world
        world.at(self._arrived_at, lambda: self._arrived(shown, is_deleted=not is_shown))

    def _arrived(self, lease: Lease, *, is_deleted: bool) -> None:
        if not self.is_ended:
            self._process.report(
                lambda election, now: election.event_arrived(
                    self._command.id, now, lease, is_deleted=is_deleted
                )
            )

    def close(self) -> None:
        self.is_ended = True
        if self._changed in self._process.server.on_change:
            self._process.server.on_change.remove(self._changed)

    def fail(self, *, is_orderly: bool | None = None) -> None:
        if self.is_ended:
            return
        self.close()
        orderly = self._process.world.random.random() < 0.5 if is_orderly is None else is_orderly
        self._process.report(
            lambda election, now: election.watch_ended(self._command.id, now, is_orderly=orderly)
        )
