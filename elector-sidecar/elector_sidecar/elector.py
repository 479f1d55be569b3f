"""The pump: asks the pure cores what to do, does it, reports what happened.

Owns every task, the plan in force and the announcement of changes. Knows no rule of election:
those are in `core`. Anything unforeseen ends `run` with the exception, and so the process.
"""

import asyncio
import math
import random
import time
import uuid
from collections.abc import Awaitable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Protocol

from edge_sidecars.runtime.cli.values import without_user
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.runtime.metrics import Histogram
from edge_sidecars.runtime.tasks import Tasks
from elector_sidecar.config.config import Config
from elector_sidecar.core.candidacy import ElectionView
from elector_sidecar.core.handover import HandoverCause, Intent, SwitchoverTo
from elector_sidecar.core.history import Terms
from elector_sidecar.core.lifecycle import Health, LeaseFacts, Lifecycle, LifecyclePolicy
from elector_sidecar.core.moves.annotations import Switchover
from elector_sidecar.machine import Machine
from elector_sidecar.main_container import REFUSAL_RECHECK, MainContainer
from elector_sidecar.promised_clients import PromisedClients
from elector_sidecar.status import ElectorStatus, describe

# So long the pump sleeps at most: a suspend does not stretch its timers beyond this.
MAX_SLEEP = 10.0
# Contract P6: a release is given up after two requests' time; the Lease expires then.
RELEASE_ATTEMPTS = 2
# Seconds after --drain-timeout in which a wrapped program is killed and found dead.
KILL_GRACE = 2.0


class StopMain(Protocol):
    def __call__(self, *, timeout: float) -> Awaitable[None]:
        """Returns when the main has stopped."""


class Elector:
    """One candidate. `status(now)` is what handlers answer from; `changed()` wakes long polls."""

    def __init__(
        self,
        config: Config,
        main: MainContainer,
        machine: Machine,
        *,
        stop_main: StopMain | None = None,
    ) -> None:
        """`stop_main`: how the main is stopped before a release."""
        now = boottime()
        self.config = config
        self._main = main
        self._stop_main = stop_main
        self.machine = machine
        self._election = machine.election
        # Whether this pod's lead may have been learnt, or by a way that is not seen here.
        self._was_told = machine.has_confirmations or _tells_by_itself(config)
        self._lifecycle = Lifecycle(
            _policy(config, machine, has_drain=stop_main is not None), now=now
        )
        self._plan = self._lifecycle.plan(now, self._facts(now, self._election.view(now)))
        self._kick = asyncio.Event()
        self._change = asyncio.Event()
        self._told: ElectorStatus | None = None
        self._outcome = 0
        self._problem = ""
        self._due_at = now
        self._drain: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._tasks: Tasks | None = None
        self.promised = PromisedClients()

    @property
    def identity(self) -> str:
        """A member of an election for shards goes on under that of a process that died."""
        return self._election.identity

    @property
    def terms(self) -> int:
        """Terms of leadership begun by this process."""
        return self._election.terms

    @property
    def history(self) -> Terms | None:
        """As `Election.history`."""
        return self._election.history

    @property
    def api_requests(self) -> Mapping[tuple[str, str], int]:
        """How often each (verb, result) was: "sent" counts all, other results the failed ones."""
        return self.machine.client.requests

    @property
    def renewals(self) -> Mapping[str, Histogram]:
        """How long they took, by result: as `LeaseClient.renewals`."""
        return self.machine.client.renewals

    # ── what is true ──

    def status(self, now: float) -> ElectorStatus:
        return self._described(self.machine.view(now), now)

    def _described(self, view: ElectionView, now: float) -> ElectorStatus:
        status = describe(
            view,
            now=now,
            identity=self.identity,
            config=self.config,
            plan=self._plan,
            is_open=self._lifecycle.is_open,
            refusal=self.machine.client.refusal(now),
        )
        reason = self.machine.reason(now)
        return replace(status, reason=reason) if reason else status

    def tell(self, status: ElectorStatus) -> None:
        """A main is promised this."""
        self.note_told(status)
        if status.view.valid_until is not None:
            self.machine.tell(status.now, status.view.valid_until)

    def note_told(self, status: ElectorStatus) -> None:
        """A client was answered this: if it is of the lead, a main may work from now on."""
        self._was_told = self._was_told or status.is_leader

    def lease_reason(self, now: float) -> str:
        """Why this process does not hold its own Lease, in words; if it does, what the API server
        forbids it, "" for nothing."""
        view = self._election.view(now)
        if view.is_leader:
            return self.machine.client.refusal(now)
        return self._described(view, now).reason

    def held_until(self, now: float) -> float:
        """Until when no other candidate may lead, also while the main drains; -inf as soon as
        another holder is seen."""
        return self._election.held_until(now)

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
        if self._tasks is None or not self.config.release_on_term:
            self._terminate(is_main_there=False)
        elif self._ending is None:
            self._ending = self.spawn(self._terminate_after_a_look())

    async def _terminate_after_a_look(self) -> None:
        until = self._election.held_until(boottime())
        timeout = max(until - boottime(), 0.0)
        self._terminate(is_main_there=await self.promised.are_there(timeout=timeout))

    def _terminate(self, *, is_main_there: bool) -> None:
        now = boottime()
        facts = self._facts(now, self._election.view(now))
        self._lifecycle.terminate(now, facts, is_main_there=is_main_there)
        if self._tasks is not None:
            self._advance_now()

    async def resign(self, cooldown: float, *, successor: str = "") -> bool | None:
        """True when released, False if in doubt, None if there was nothing to resign from.
        `successor`: the pod for which the Lease is left free first."""
        now = boottime()
        before = self._lifecycle.outcome.number
        facts = self._facts(now, self._election.view(now))
        cause = SwitchoverTo(successor) if successor else HandoverCause.RESIGNATION
        if not self._lifecycle.resign(now, facts, cooldown=cooldown, cause=cause):
            return None
        if successor:
            until = time.time() + self.config.drain_timeout
            self._election.name_successor(Switchover(successor, str(uuid.uuid4()), until))
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
                self.spawn(self._check_health(self.config.health_url))
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
        while commands := self.machine.advance(now, wall=wall, chance=random.random()):
            for command in commands:
                self.machine.perform(command, self)
        if self._plan.drains and self._drain is None:
            self._drain = self.spawn(self._drain_main())
        elif not self._plan.drains and self._drain is not None:
            self._drain.cancel()
            self._drain = None
        self._due_at = min(
            self.machine.wake_at(now),
            self._lifecycle.wake_at(),
            math.inf if view.valid_until is None else view.valid_until,
            now + MAX_SLEEP,
        )
        self._announce(self._described(view, now))
        self._note_problem(self._election.problem(now))

    def _note_problem(self, problem: str) -> None:
        if problem and problem != self._problem:
            logger.warning("what the Lease asks is not done", extra=fields(why=problem))
        self._problem = problem

    def _settled(self, now: float) -> ElectionView:
        """What is true under the plan, which the intent may change at once (nothing to release).

        Commands are answered later: it stays true while they are performed.
        """
        while True:
            view = self._election.view(now)
            is_holding = self._election.intent is Intent.HOLD
            if is_holding and self.machine.is_settled(now):
                self._lifecycle.main_stopped()
            self._plan = self._lifecycle.plan(now, self._facts(now, view))
            if self._plan.intent is self._election.intent:
                return self.machine.view(now)
            self._election.note_cause(self._plan.cause)
            self.machine.set_intent(now, self._plan.intent)

    def _facts(self, now: float, view: ElectionView) -> LeaseFacts:
        is_leader, terms = self.machine.work(now)
        return LeaseFacts(
            is_leader=is_leader,
            holds_record=self._election.holds_record,
            may_hold=self._election.may_hold,
            is_released=self._election.is_released,
            free_since=self._election.free_since(now),
            is_unpreferred=view.preferred_holder not in (None, "", self.identity),
            terms=terms,
            is_unasked=not (self._was_told or self._election.has_resumed),
            asked=self._election.asked(now),
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
        has_moved = self.machine.has_changed(status.now)
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
                    why=self._why_missing_waits(),
                ),
            )

    def _why_missing_waits(self) -> str:
        if self.config.take_missing:
            return "--on-missing take creates it at once, if no holder was seen"
        why = "a leader that is cut off may still act"
        is_flag = self.config.shards is None  # with shards it is refused
        return f"{why}; --on-missing take does not wait" if is_flag else why

    def _log_end(self) -> None:
        """What becomes of the Lease, for who waits for the next leader."""
        lease = f"{self.config.namespace}/{self.config.member_lease}"
        if self._lifecycle.outcome.was_released:
            logger.info("the Lease is released", extra=fields(lease=lease))
        elif self._election.may_hold:
            if self.config.release_on_term:
                remedy = "end the main first; a process that starts again in this pod leads on"
            elif self.config.drain_url is not None:
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

    # ── what machines are performed with ──

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        if self._tasks is None:
            raise RuntimeError("the elector does not run")
        return self._tasks.spawn(work)

    def wake(self) -> None:
        """Something was reported to the machine."""
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
                level(
                    "health of the main changed",
                    extra=fields(url=without_user(url), health=health.value),
                )
            self._kick.set()
            pause = interval
            if health is Health.REFUSED and before is not Health.REFUSED:
                pause = min(interval, REFUSAL_RECHECK)
            await asyncio.sleep(max(pause - (boottime() - started_at), 0.0))

    async def _drain_main(self) -> None:
        if self._stop_main is None:
            return
        await self._stop_main(timeout=self.config.drain_timeout)
        self._lifecycle.main_stopped()
        self._kick.set()


def _tells_by_itself(config: Config) -> bool:
    """Whether there is a main that the flags name, or one that learns of the lead from elsewhere:
    contrib's clients may ask any pod."""
    mains = (config.health_url, config.drain_url, config.notify_url, config.leader_label)
    return any(it is not None for it in (*mains, config.contrib_listen))


def _policy(config: Config, machine: Machine, *, has_drain: bool) -> LifecyclePolicy:
    # What the main was promised passes before the Lease is left to expire.
    promised = config.timing.validity if machine.has_confirmations else 0.0
    drain_timeout = config.drain_timeout + (KILL_GRACE if config.program else 0.0)
    return LifecyclePolicy(
        has_health=config.health_url is not None,
        health_failures=config.health_failures,
        health_grace=config.health_grace,
        health_backoff=config.health_backoff,
        has_drain=has_drain,
        drain_timeout=max(drain_timeout, promised),
        release_on_term=config.release_on_term,
        release_timeout=RELEASE_ATTEMPTS * config.timing.request_timeout,
        has_confirmations=machine.has_confirmations,
    )
