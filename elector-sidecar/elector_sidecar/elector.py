"""The pump: asks the pure cores what to do, does it, reports what happened.

Owns every task that talks to the API server or the main. Knows no rule of election: those are in
`election` and `tenure`. Anything unforeseen ends `run` with the exception, and so the process.
"""

import asyncio
import math
import random
import time
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any

from kubeapi import (
    ApiError,
    ApiServer,
    Conflict,
    Forbidden,
    Gone,
    NotFound,
    Unreachable,
    parse_event,
)

from .clock import boottime
from .config import Config
from .election import Candidate, Election, Read, Watch
from .lease import MalformedLease, parse_lease
from .log import fields, logger
from .main_container import REFUSAL_RECHECK, MainContainer
from .status import Status, describe
from .tenure import Facts, Health, Plan, Policy, Tenure
from .term import Write

# So long the pump sleeps at most: a suspend does not stretch its timers beyond this.
MAX_SLEEP = 10.0
# The API server ends a watch after a random time of 30 to 60 minutes anyway; asked for here so
# that a forgotten connection is not for ever.
WATCH_SECONDS = 3600
# One line about the same trouble so often.
COMPLAINT_INTERVAL = 60.0
# Contract P6: a release is given up after two requests' time; the Lease expires then.
RELEASE_ATTEMPTS = 2


class Elector:
    """One candidate. `status(now)` is what handlers answer from; `changed()` wakes long polls."""

    def __init__(
        self, config: Config, server: ApiServer, main: MainContainer, *, identity: str
    ) -> None:
        now = boottime()
        self.config = config
        self.identity = identity
        self._server = server
        self._main = main
        self._election = Election(
            Candidate(identity, config.namespace, config.lease, config.timing, config.take_missing),
            now=now,
        )
        self._tenure = Tenure(_policy(config), now=now)
        self._plan = self._tenure.plan(now, self._facts(now))
        self._kick = asyncio.Event()
        self._change = asyncio.Event()
        self._told: Status | None = None
        self._outcome = 0
        self._due_at = now
        self._drain: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._group: asyncio.TaskGroup | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._complaints: dict[str, float] = {}
        base = f"/apis/coordination.k8s.io/v1/namespaces/{config.namespace}/leases"
        self._collection_path = base
        self._path = f"{base}/{config.lease}"
        self.terms = 0
        self.api_requests: dict[tuple[str, str], int] = {}

    # ── what is true ──

    def status(self, now: float) -> Status:
        return describe(
            self._election.view(now),
            now=now,
            identity=self.identity,
            config=self.config,
            plan=self._plan,
            is_open=self._tenure.is_open,
        )

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
        self._tenure.terminate(now, self._facts(now))
        if self._group is not None:
            self._advance()

    async def resign(self, cooldown: float) -> bool | None:
        """True when released, False if in doubt, None if there was nothing to resign from."""
        now = boottime()
        before = self._tenure.outcome.number
        if not self._tenure.resign(now, self._facts(now), cooldown=cooldown):
            return None
        self._advance()
        while self._tenure.outcome.number == before and not self._plan.is_over:
            await self.changed(MAX_SLEEP)
        return self._tenure.outcome.was_released

    def listener_checked(self, *, is_alive: bool) -> None:
        self._tenure.listener_checked(is_alive=is_alive)
        self._kick.set()

    # ── the pump ──

    async def run(self) -> None:
        """Until terminated and given up in order (P6)."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            if self.config.health_url:
                self._spawn(self._check_health(self.config.health_url))
            while True:
                self._kick.clear()
                self._advance()
                if self._plan.is_over:
                    break
                await self._sleep()
            # Requests too: their outcome cannot matter any more, and kubelet is waiting.
            for task in self._tasks:
                task.cancel()

    def _advance(self) -> None:
        now = boottime()
        self._plan = self._planned(now)
        wall = time.time()
        while commands := self._election.advance(now, wall=wall, chance=random.random()):
            for command in commands:
                self._perform(command)
        if self._plan.drains and self._drain is None:
            self._drain = self._spawn(self._drain_main())
        elif not self._plan.drains and self._drain is not None:
            self._drain.cancel()
            self._drain = None
        self._due_at = min(
            self._election.wake_at(now),
            self._tenure.wake_at(),
            self._lapses_at(now),
            now + MAX_SLEEP,
        )
        self._announce(now)

    def _planned(self, now: float) -> Plan:
        """The stance may settle facts that change the plan at once (nothing to release)."""
        plan = self._tenure.plan(now, self._facts(now))
        while plan.stance is not self._election.stance:
            self._election.set_stance(now, plan.stance)
            plan = self._tenure.plan(now, self._facts(now))
        return plan

    def _facts(self, now: float) -> Facts:
        view = self._election.view(now)
        return Facts(
            is_leader=view.is_leader,
            holds_record=self._election.holds_record,
            may_hold=self._election.may_hold,
            is_released=self._election.is_released,
            holder=view.holder,
            free_since=self._election.free_since(now),
            is_unpreferred=view.preferred_holder not in (None, "", self.identity),
        )

    def _lapses_at(self, now: float) -> float:
        valid_until = self._election.view(now).valid_until
        return math.inf if valid_until is None else valid_until

    async def _sleep(self) -> None:
        try:
            async with asyncio.timeout(max(self._due_at - boottime(), 0.0)):
                await self._kick.wait()
        except TimeoutError:
            return

    def _announce(self, now: float) -> None:
        status, before = self.status(now), self._told
        outcome, ended = self._tenure.outcome.number, self._outcome
        if before is not None and status.is_same_state(before) and outcome == ended:
            return
        self._told, self._outcome = status, outcome
        self._change.set()
        self._change = asyncio.Event()
        token = status.view.fencing_token
        if token is not None and (before is None or before.view.fencing_token != token):
            self.terms += 1
        if before is None or before.is_leader != status.is_leader:
            message = "became leader" if status.is_leader else "is not leader"
            logger.info(message, extra=fields(holder=status.holder, reason=status.reason))
        elif before.holder != status.holder or before.role != status.role:
            logger.info(
                "election changed",
                extra=fields(role=status.role, holder=status.holder, reason=status.reason),
            )

    # ── commands ──

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        if self._group is None:
            raise RuntimeError("the elector does not run")
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _perform(self, command: Read | Write | Watch) -> None:
        match command:
            case Read():
                self._spawn(self._read(command))
            case Write():
                self._spawn(self._write(command))
            case Watch():
                if self._watching is not None:
                    self._watching.cancel()
                self._watching = self._spawn(self._watch(command))

    async def _read(self, read: Read) -> None:
        try:
            lease = parse_lease(await self._call("get", "GET", self._path))
        except NotFound:
            self._election.read_answered(read.id, boottime(), None)
        except (ApiError, Unreachable, MalformedLease) as error:
            self._complain("reading the Lease failed", "get", error)
            self._election.read_failed(read.id, boottime(), retry_after=_retry_after(error))
        else:
            self._election.read_answered(read.id, boottime(), lease)
        self._kick.set()

    async def _write(self, write: Write) -> None:
        verb = "create" if write.creates else "update"
        method, path = ("POST", self._collection_path) if write.creates else ("PUT", self._path)
        election = self._election
        try:
            lease = parse_lease(await self._call(verb, method, path, body=write.body))
        except (Conflict, NotFound) as error:
            if isinstance(error, NotFound) and write.creates:
                self._complain("creating the Lease failed", verb, error)
                election.write_refused(write.id, boottime())
            else:
                election.write_conflicted(write.id, boottime())
        except ApiError as error:
            self._complain("writing the Lease failed", verb, error)
            report = election.write_refused if error.is_refusal else election.write_lost
            report(write.id, boottime(), retry_after=error.retry_after)
        except (Unreachable, MalformedLease) as error:
            self._complain("writing the Lease failed", verb, error)
            election.write_lost(write.id, boottime())
        else:
            election.write_answered(write.id, boottime(), lease)
        self._kick.set()

    async def _watch(self, watch: Watch) -> None:
        is_orderly = False
        try:
            is_orderly = await self._follow(watch)
        except Gone:
            logger.debug("the watch expired")
        except (ApiError, Unreachable, MalformedLease) as error:
            self._complain("watching the Lease failed", "watch", error)
        self._election.watch_ended(watch.id, boottime(), is_orderly=is_orderly)
        self._kick.set()

    async def _follow(self, watch: Watch) -> bool:
        """Reports each event; True when the server ended the watch in order."""
        params = {
            "watch": "true",
            "fieldSelector": f"metadata.name={self.config.lease}",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        if watch.resource_version is not None:
            params["resourceVersion"] = str(watch.resource_version)
        self._count("watch", "sent")
        lines = self._server.lines(
            self._collection_path, open_timeout=self.config.timing.request_timeout, params=params
        )
        async with aclosing(lines):
            async for line in lines:
                event = parse_event(line)
                self._election.event_arrived(
                    watch.id,
                    boottime(),
                    parse_lease(event.object),
                    is_deleted=event.type == "DELETED",
                )
                self._kick.set()
        return True

    async def _call(self, verb: str, method: str, path: str, *, body: object = None) -> object:
        self._count(verb, "sent")
        try:
            return await self._server.request(
                method, path, timeout=self.config.timing.request_timeout, body=body
            )
        except (ApiError, Unreachable) as error:
            code = str(error.status) if isinstance(error, ApiError) else "unreachable"
            self._count(verb, code)
            raise

    # ── the main ──

    async def _check_health(self, url: str) -> None:
        interval = self.config.health_interval
        while True:
            started_at = boottime()
            before = self._tenure.health
            health = await self._main.health(url, timeout=interval)
            self._tenure.health_checked(boottime(), health)
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
        self._tenure.main_stopped()
        self._kick.set()

    # ── accounts ──

    def _count(self, verb: str, result: str) -> None:
        key = (verb, result)
        self.api_requests[key] = self.api_requests.get(key, 0) + 1

    def _complain(self, message: str, verb: str, error: Exception) -> None:
        """WARNING once a minute for the same trouble; with the missing rule where RBAC forbids."""
        told: dict[str, object] = {"error": str(error)}
        if isinstance(error, Forbidden):
            told["missing_rule"] = missing_rule(self.config, verb)
        now, key = boottime(), f"{message} {type(error).__name__}"
        is_new = now - self._complaints.get(key, -math.inf) >= COMPLAINT_INTERVAL
        if is_new:
            self._complaints[key] = now
        (logger.warning if is_new else logger.debug)(message, extra=fields(**told))


def missing_rule(config: Config, verb: str) -> str:
    """The RBAC rule (one line of YAML) that a 403 asks for."""
    names = "" if verb == "create" else f', resourceNames: ["{config.lease}"]'
    return (
        f'Role in namespace {config.namespace}: {{apiGroups: ["coordination.k8s.io"], '
        f'resources: ["leases"], verbs: ["{verb}"]{names}}}'
    )


def _policy(config: Config) -> Policy:
    return Policy(
        has_health=config.health_url is not None,
        health_failures=config.health_failures,
        health_grace=config.health_grace,
        health_backoff=config.health_backoff,
        has_drain=config.drain_url is not None,
        drain_timeout=config.drain_timeout,
        release_on_term=config.release_on_term,
        release_timeout=RELEASE_ATTEMPTS * config.timing.request_timeout,
    )


def _retry_after(error: Exception) -> float | None:
    return error.retry_after if isinstance(error, ApiError) else None
