"""The pump: asks the pure cores what to do, does it, reports what happened.

Owns every task, the plan in force and the announcement of changes. Knows no rule of election:
those are in `core`. Anything unforeseen ends `run` with the exception, and so the process.
"""

import asyncio
import math
import random
import time
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edge_sidecars.kubeapi import ApiClient
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.runtime.tasks import Tasks
from elector_sidecar.config.config import Config
from elector_sidecar.core.candidacy import ElectionView
from elector_sidecar.core.election import Command, Election
from elector_sidecar.core.handover import Intent
from elector_sidecar.core.lease import Lease
from elector_sidecar.core.lease_watch import ReadLease, WatchLease
from elector_sidecar.core.lease_writes import Candidate, WriteLease
from elector_sidecar.core.lifecycle import Health, LeaseFacts, Lifecycle, LifecyclePolicy
from elector_sidecar.leases.lease_client import (
    Applied,
    Conflicted,
    Found,
    LeaseClient,
    Lost,
    Refused,
)
from elector_sidecar.main_container import REFUSAL_RECHECK, MainContainer
from elector_sidecar.status import ElectorStatus, describe

if TYPE_CHECKING:
    from elector_sidecar.sharding import Sharding
    from elector_sidecar.shards.shard_election import Command as ShardCommand
    from elector_sidecar.shards.shard_election import ShardElection

# So long the pump sleeps at most: a suspend does not stretch its timers beyond this.
MAX_SLEEP = 10.0
# Contract P6: a release is given up after two requests' time; the Lease expires then.
RELEASE_ATTEMPTS = 2


class Elector:
    """One candidate. `status(now)` is what handlers answer from; `changed()` wakes long polls."""

    def __init__(
        self,
        config: Config,
        server: ApiClient,
        main: MainContainer,
        *,
        identity: str,
        sharding: "Sharding | None" = None,
    ) -> None:
        """`sharding`: where `config.shards` is set, of the same identity."""
        now = boottime()
        self.config = config
        self.identity = identity
        # Whether anybody was told that this pod leads, or may be by a way that is not seen here.
        self._was_told = _tells_by_itself(config)
        self._main = main
        self.sharding = sharding
        self._machine: Election | ShardElection
        if sharding is None:
            self._client = LeaseClient(server, config)
            self._election = self._machine = Election(
                Candidate(
                    identity, config.namespace, config.lease, config.timing, config.take_missing
                ),
                now=now,
            )
        else:
            self._client = sharding.client
            self._machine = sharding.machine
            self._election = self._machine.election
        self._lifecycle = Lifecycle(_policy(config), now=now)
        self._plan = self._lifecycle.plan(now, self._facts(now, self._election.view(now)))
        self._kick = asyncio.Event()
        self._change = asyncio.Event()
        self._told: ElectorStatus | None = None
        self._outcome = 0
        self._due_at = now
        self._drain: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._tasks: Tasks | None = None

    @property
    def terms(self) -> int:
        """Terms of leadership begun by this process."""
        return self._election.terms

    @property
    def api_requests(self) -> Mapping[tuple[str, str], int]:
        """How often each (verb, result) was: "sent" counts all, other results the failed ones."""
        return self._client.requests

    # ── what is true ──

    def status(self, now: float) -> ElectorStatus:
        return self._described(self._view(now), now)

    def _view(self, now: float) -> ElectionView:
        """With shards it is shard 0 that is led."""
        view = self._election.view(now)
        return view if self.sharding is None else self.sharding.machine.leader_view(now, view)

    def _described(self, view: ElectionView, now: float) -> ElectorStatus:
        status = describe(
            view,
            now=now,
            identity=self.identity,
            config=self.config,
            plan=self._plan,
            is_open=self._lifecycle.is_open,
            refusal=self._client.refusal(now),
        )
        reason = "" if self.sharding is None else self.sharding.machine.reason(now)
        return replace(status, reason=reason) if reason else status

    def tell(self, status: ElectorStatus) -> None:
        """A main is told this: with shards, what it is told of the lead is of shard 0 (S6)."""
        self.note_told(status)
        if self.sharding is not None and status.view.valid_until is not None:
            self.sharding.machine.tell(status.now, [0], status.view.valid_until)

    def note_told(self, status: ElectorStatus) -> None:
        """Somebody is told this: if it is of the lead, a main may be at work from now on."""
        self._was_told = self._was_told or status.is_leader

    def membership_reason(self, now: float) -> str:
        """With shards: why this pod is no member, in words; of one that is, what the API server
        forbids it, without which it may not see the others; "" if nothing."""
        view = self._election.view(now)
        if view.is_leader:
            return self._client.refusal(now)
        return self._described(view, now).reason

    def advance_soon(self) -> None:
        """Something was reported to the shards from outside of the pump."""
        self._kick.set()

    def is_wedged(self, now: float) -> bool:
        """P9: the next planned step is overdue by more than a lease duration."""
        return now - self._due_at > self.config.timing.lease_duration

    async def changed(self, timeout: float) -> None:
        """Returns at the next change, or after `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._change.wait()
        except TimeoutError:
            return

    # ── what others ask ──

    def terminate(self) -> None:
        now = boottime()
        self._lifecycle.terminate(now, self._facts(now, self._election.view(now)))
        if self._tasks is not None:
            self._advance_now()

    async def resign(self, cooldown: float) -> bool | None:
        """True when released, False if in doubt, None if there was nothing to resign from."""
        now = boottime()
        before = self._lifecycle.outcome.number
        facts = self._facts(now, self._election.view(now))
        if not self._lifecycle.resign(now, facts, cooldown=cooldown):
            return None
        self._advance_now()
        while self._lifecycle.outcome.number == before and not self._plan.is_over:
            await self.changed(MAX_SLEEP)
        return self._lifecycle.outcome.was_released

    def listener_checked(self, *, is_alive: bool) -> None:
        if self._lifecycle.listener_checked(is_alive=is_alive):
            self._kick.set()

    # ── the pump ──

    async def run(self) -> None:
        """Until terminated and given up in order (P6)."""
        async with asyncio.TaskGroup() as group:
            tasks = self._tasks = Tasks(group)
            if self.config.health_url:
                self._spawn(self._check_health(self.config.health_url))
            while True:
                self._kick.clear()
                self._advance()
                if self._plan.is_over:
                    break
                await self._sleep()
            self._log_end()
            # Requests too: their outcome cannot matter any more, and kubelet is waiting.
            tasks.cancel()

    def _advance_now(self) -> None:
        """Before the pump wakes: the next answer is to be of the new plan."""
        self._advance()
        self._kick.set()  # it sleeps until what was due under the old one

    def _advance(self) -> None:
        now = boottime()
        view = self._settled(now)
        wall = time.time()
        while commands := self._machine.advance(now, wall=wall, chance=random.random()):
            for command in commands:
                self._perform(command)
        if self._plan.drains and self._drain is None:
            self._drain = self._spawn(self._drain_main())
        elif not self._plan.drains and self._drain is not None:
            self._drain.cancel()
            self._drain = None
        self._due_at = min(
            self._machine.wake_at(now),
            self._lifecycle.wake_at(),
            math.inf if view.valid_until is None else view.valid_until,
            now + MAX_SLEEP,
        )
        self._announce(self._described(view, now))

    def _settled(self, now: float) -> ElectionView:
        """What is true under the plan, which the intent may change at once (nothing to release).

        Commands are answered later: it stays true while they are performed.
        """
        while True:
            view = self._election.view(now)
            is_holding = self._election.intent is Intent.HOLD
            if self.sharding is not None and is_holding and self.sharding.is_settled(now):
                self._lifecycle.main_stopped()
            self._plan = self._lifecycle.plan(now, self._facts(now, view))
            if self._plan.intent is self._election.intent:
                return self._view(now)
            self._machine.set_intent(now, self._plan.intent)

    def _facts(self, now: float, view: ElectionView) -> LeaseFacts:
        is_leader, terms = view.is_leader, self._election.terms
        if self.sharding is not None:
            # A member without shards has put nothing to work.
            machine = self.sharding.machine
            is_leader, terms = bool(machine.owned(now)), machine.ownership.takes
        return LeaseFacts(
            is_leader=is_leader,
            holds_record=self._election.holds_record,
            may_hold=self._election.may_hold,
            is_released=self._election.is_released,
            free_since=self._election.free_since(now),
            is_unpreferred=view.preferred_holder not in (None, "", self.identity),
            terms=terms,
            is_unasked=not self._was_told,
        )

    async def _sleep(self) -> None:
        delay = max(self._due_at - boottime(), 0.0)
        alarm = asyncio.get_running_loop().call_later(delay, self._kick.set)
        try:
            await self._kick.wait()
        finally:
            alarm.cancel()

    def _announce(self, status: ElectorStatus) -> None:
        before = self._told
        outcome, ended = self._lifecycle.outcome.number, self._outcome
        has_moved = self.sharding is not None and self.sharding.has_changed(status.now)
        is_same = before is not None and status.is_same_state(before) and outcome == ended
        if is_same and not has_moved:
            return
        self._told, self._outcome = status, outcome
        self._change.set()
        self._change = asyncio.Event()
        if before is None or before.is_leader != status.is_leader:
            message = "became leader" if status.is_leader else "is not leader"
            logger.info(message, extra=fields(holder=status.holder, reason=status.reason))
        elif before.holder != status.holder or before.role != status.role:
            logger.info(
                "election changed",
                extra=fields(role=status.role, holder=status.holder, reason=status.reason),
            )

        if status.view.is_missing and not (before is not None and before.view.is_missing):
            logger.info(
                "the Lease does not exist",
                extra=fields(
                    lease=f"{status.namespace}/{status.name}",
                    reason=status.reason,
                    why="a leader that is cut off may still act; --on-missing take does not wait",
                ),
            )

    def _log_end(self) -> None:
        """What becomes of the Lease, for who waits for the next leader."""
        lease = f"{self.config.namespace}/{self.config.member_lease}"
        if self._lifecycle.outcome.was_released:
            logger.info("the Lease is released", extra=fields(lease=lease))
        elif self._election.may_hold:
            if self.config.drain_url is not None:
                remedy = "raise --drain-timeout, or mend what --drain-url asks"
            else:
                remedy = "name a --drain-url, or --release-on-term where the main has ended by then"
            logger.warning(
                "the Lease is left to expire: the main may be at work",
                extra=fields(
                    lease=lease,
                    next_leader_within=f"{self.config.timing.lease_duration:g}s",
                    remedy=remedy,
                ),
            )

    # ── commands ──

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        if self._tasks is None:
            raise RuntimeError("the elector does not run")
        return self._tasks.spawn(work)

    def _perform(self, command: "Command | ShardCommand") -> None:
        match command:
            case ReadLease():
                self._spawn(self._read(command))
            case WriteLease():
                self._spawn(self._write(command))
            case WatchLease():
                if self._watching is not None:
                    self._watching.cancel()
                self._watching = self._spawn(self._watch(command))
            case _ if self.sharding is not None:
                self.sharding.perform(command, self._spawn, self._kick.set)

    async def _read(self, read: ReadLease) -> None:
        match await self._client.read():
            case Found(lease):
                self._election.read_answered(read.id, boottime(), lease)
            case Lost(retry_after):
                self._election.read_failed(read.id, boottime(), retry_after=retry_after)
        self._kick.set()

    async def _write(self, write: WriteLease) -> None:
        match await self._client.write(write):
            case Applied(lease):
                self._election.write_answered(write.id, boottime(), lease)
            case Conflicted():
                self._election.write_conflicted(write.id, boottime())
            case Refused(retry_after):
                self._election.write_refused(write.id, boottime(), retry_after=retry_after)
            case Lost(retry_after):
                self._election.write_lost(write.id, boottime(), retry_after=retry_after)
        self._kick.set()

    async def _watch(self, watch: WatchLease) -> None:
        def on_event(lease: Lease, *, is_deleted: bool) -> None:
            if self._election.event_arrived(watch.id, boottime(), lease, is_deleted=is_deleted):
                self._kick.set()

        is_orderly = await self._client.watch(watch, on_event)
        self._election.watch_ended(watch.id, boottime(), is_orderly=is_orderly)
        self._kick.set()

    # ── the main ──

    async def _check_health(self, url: str) -> None:
        interval = self.config.health_interval
        while True:
            started_at = boottime()
            before = self._lifecycle.health
            health = await self._main.health(url, timeout=interval)
            self._lifecycle.health_checked(boottime(), health)
            if health is not before:
                level = logger.info if health is Health.OK else logger.warning
                level("health of the main changed", extra=fields(url=url, health=health.value))
            self._kick.set()
            pause = interval
            if health is Health.REFUSED and before is not Health.REFUSED:
                pause = min(interval, REFUSAL_RECHECK)
            await asyncio.sleep(max(pause - (boottime() - started_at), 0.0))

    async def _drain_main(self) -> None:
        if self.config.drain_url is None:
            return
        await self._main.drain(self.config.drain_url, timeout=self.config.drain_timeout)
        self._lifecycle.main_stopped()
        self._kick.set()


def _tells_by_itself(config: Config) -> bool:
    """Whether there is a main that the flags name, or one that learns of the lead from elsewhere:
    contrib's clients may ask any pod."""
    mains = (config.health_url, config.drain_url, config.notify_url, config.leader_label)
    others = (config.contrib_listen, config.shards)
    return any(it is not None for it in (*mains, *others))


def _policy(config: Config) -> LifecyclePolicy:
    has_shards = config.shards is not None
    # With shards, what the main was told of their validity passes before the Lease is let expire.
    drain_timeout = max(config.drain_timeout, config.timing.validity if has_shards else 0.0)
    return LifecyclePolicy(
        has_health=config.health_url is not None,
        health_failures=config.health_failures,
        health_grace=config.health_grace,
        health_backoff=config.health_backoff,
        has_drain=config.drain_url is not None,
        drain_timeout=drain_timeout,
        release_on_term=config.release_on_term,
        release_timeout=RELEASE_ATTEMPTS * config.timing.request_timeout,
        has_confirmations=has_shards,
    )
