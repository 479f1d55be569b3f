"""A process of ours in the model: one `Election`, its clock, and a shell that may be frozen.

The shell does what the real one does: performs commands, gives each request a hard limit and
reports exactly once. A frozen process loses nothing that reaches it: it finds it on waking.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from elector_sidecar.core.candidacy import ElectionView
from elector_sidecar.core.election import Command, Election
from elector_sidecar.core.handover import Intent
from elector_sidecar.core.lease_watch import ReadLease, WatchLease
from elector_sidecar.core.lease_writes import Candidate, Purpose, WriteLease
from elector_sidecar.core.timing import Timing
from tests.unit.elector.core.apiserver import NAME, NAMESPACE, Answer, Change
from tests.unit.elector.core.world import Clock, Link, World

# The clock is never read by two steps at exactly the same moment.
STEP = 1e-6
# So many steps without time passing are a loop.
STEPS_AT_ONCE = 200

# False: there is nothing to do that was not there before, so the pump sleeps on.
Report = Callable[[Election, float], bool | None]


@dataclass(frozen=True)
class Settings:
    """What outlives a restart of the process."""

    name: str
    timing: Timing
    take_missing: bool


class Process:
    """From its start to its end; another start is another identity."""

    def __init__(
        self, world: World, clock: Clock, link: Link, settings: Settings, *, number: int
    ) -> None:
        self.world = world
        self.clock = clock
        self.link = link
        self.settings = settings
        self.identity = f"{settings.name}_{number}"
        self.on_step: list[Callable[[Process], None]] = []
        self.sent: list[Command] = []
        # What the server applies of it at this moment, for the observer.
        self.performing: WriteLease | None = None
        self.is_dead = False
        self.open_requests = 0
        self.freezes_before_write = 0.0
        self.freezes_before_answer = 0.0
        self._frozen_until = -math.inf
        self._inbox: list[tuple[bool, Report]] = []
        self._timeout = settings.timing.request_timeout / clock.rate
        self._unsent: list[Command] = []
        self._steps = (0.0, 0)
        self._wake = 0
        self._newest_answer = 0
        candidate = Candidate(
            identity=self.identity,
            namespace=NAMESPACE,
            name=NAME,
            timing=settings.timing,
            take_missing=settings.take_missing,
        )
        self.election = Election(candidate, now=clock.now())

    def start(self) -> None:
        self._advance()

    @property
    def is_frozen(self) -> bool:
        return self.world.time < self._frozen_until

    def view(self) -> ElectionView:
        return self.election.view(self.clock.now())

    def set_intent(self, intent: Intent) -> None:
        self._report(lambda election, now: election.set_intent(now, intent))

    def freeze(self, seconds: float) -> None:
        self._frozen_until = max(self._frozen_until, self.world.time + seconds)
        self.world.at(self._frozen_until, self._thaw)

    def thaw(self) -> None:
        self._frozen_until = -math.inf
        self._thaw()

    def kill(self) -> None:
        self.is_dead = True
        if self.link.watcher is not None:
            self.link.watcher.close()

    # ── the shell ──

    def _report(self, report: Report, *, is_timer: bool = False) -> None:
        if self.is_dead:
            return
        if self.is_frozen:
            self._inbox.append((is_timer, report))
            return
        if report(self.election, self.clock.now()) is False:
            self._look()
        else:
            self._advance()

    def _thaw(self) -> None:
        if self.is_frozen or self.is_dead:
            return
        self._send()
        inbox, self._inbox = self._inbox, []
        if self.world.random.random() < 0.5:
            inbox.sort(key=lambda item: item[0])  # what the sockets hold goes before the timers
        self._look()  # a request to /readyz may be the first thing that is handled
        hurry = self.world.random.random() < 0.5
        for _, report in inbox:
            report(self.election, self.clock.now())
            self._look()
            if hurry:
                self._advance()
        self._advance()

    def _look(self) -> None:
        for listener in self.on_step:
            listener(self)

    def _advance(self) -> None:
        if self.is_dead or self.is_frozen:
            return
        self._look()
        now = self.clock.now()
        chance = self.world.random.random()
        commands = self.election.advance(now, wall=self.clock.wall(), chance=chance)
        self._count_step()
        for command in commands:
            self.sent.append(command)
            if isinstance(command, WriteLease) and not command.creates:
                # P4: the newest record that it judged.
                assert command.base_version >= self._newest_answer
            if isinstance(command, WriteLease) and self.freezes_before_write:
                seconds, self.freezes_before_write = self.freezes_before_write, 0.0
                self.freeze(seconds)
            self._unsent.append(command)
        self._send()
        self._plan()

    def _learned(self, answer: Answer) -> None:
        if answer.lease is not None:
            self._newest_answer = max(self._newest_answer, answer.lease.resource_version)

    def _send(self) -> None:
        while self._unsent and not self.is_frozen:
            self._perform(self._unsent.pop(0))

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
        match command:
            case ReadLease():
                self._read(command)
            case WriteLease():
                self._write(command)
            case WatchLease():
                self.link.open_watch(
                    command.resource_version,
                    lambda change: self._event(command.id, change),
                    lambda: self._watch_ended(command.id),
                    timeout=self._timeout,
                )

    def _read(self, read: ReadLease) -> None:
        def conclude(election: Election, now: float, answer: Answer | None) -> None:
            if answer is None or answer.status not in (200, 404):
                retry_after = 5.0 if answer and answer.status == 429 else None
                election.read_failed(read.id, now, retry_after=retry_after)
            else:
                self._learned(answer)
                election.read_answered(read.id, now, answer.lease)

        self._request(lambda: self.world.server.get(), conclude)

    def _write(self, write: WriteLease) -> None:
        def perform() -> Answer:
            server = self.world.server
            method = server.post if write.creates else server.put
            self.performing = write
            return method(self.world.time, self.identity, write.body)

        def conclude(election: Election, now: float, answer: Answer | None) -> None:
            if answer is None or answer.status >= 500:
                election.write_lost(write.id, now)
            elif answer.status in (404, 409):
                election.write_conflicted(write.id, now)
            elif answer.lease is None:
                retry_after = 5.0 if answer.status == 429 else None
                election.write_refused(write.id, now, retry_after=retry_after)
            else:
                self._learned(answer)
                election.write_answered(write.id, now, answer.lease)

        self._request(perform, conclude, is_write=write.purpose is Purpose.ACQUIRE_OR_RENEW)

    def _request(
        self,
        perform: Callable[[], Answer],
        conclude: Callable[[Election, float, Answer | None], None],
        *,
        is_write: bool = False,
    ) -> None:
        open_ = [True]
        self.open_requests += 1

        def settle(answer: Answer | None) -> None:
            if is_write and answer is not None and self.freezes_before_answer:
                seconds, self.freezes_before_answer = self.freezes_before_answer, 0.0
                self.freeze(seconds)

            def report(election: Election, now: float) -> None:
                if open_:
                    open_.clear()
                    self.open_requests -= 1
                    conclude(election, now, answer)

            self._report(report, is_timer=answer is None)

        self.link.exchange(perform, settle)
        self.world.after(self._timeout, lambda: settle(None) if open_ else None)

    def _event(self, watch_id: int, change: Change) -> None:
        is_deleted = change.lease is None
        lease = change.lease or change.before
        if is_deleted and lease is not None:
            lease = replace(lease, resource_version=change.resource_version)
        self._report(
            lambda election, now: election.event_arrived(
                watch_id, now, lease, is_deleted=is_deleted
            )
        )

    def _watch_ended(self, watch_id: int) -> None:
        is_orderly = self.world.random.random() < 0.5
        self._report(
            lambda election, now: election.watch_ended(watch_id, now, is_orderly=is_orderly)
        )
