"""Whether this pod should lead at all: the gate on its main's health, and giving up in order.

Pure: reports and `now` come in, a `LifecyclePlan` comes out. Knows nothing of Leases beyond
`LeaseFacts`. Guarantees (P6): RELEASE is planned only after the main confirmed that it has stopped,
is gone, or `release_on_term` vouches for it; otherwise the Lease is left to expire. One refused
connection or one failed check closes no gate; a main whose port has no listener is gone,
which alone proves that its work has ended.

    GATED  ◄──health──► CONTENDING ──term, resign, failing main──► DRAINING ──stopped, gone──┐
       ▲                    ▲   └──────── main gone ───────────────────┼──► RELEASING ◄──────┘
       │                    └───────────── BACKOFF ◄──── time-out ─────┴────────┘
       └── unhealthy ───────────────────────┘  └─ or STOPPED, when terminating
"""

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import get_args

from elector_sidecar.core.handover import (
    SUCCESSION,
    Cause,
    Contending,
    Draining,
    Gated,
    Handover,
    HandoverCause,
    Intent,
    Phase,
    Releasing,
    Stopped,
    SwitchoverTo,
    TermBackoff,
    intent_in,
)

# An ex-leader's backoff ends early when no pod took the free Lease for so long (contract, 2).
UNCLAIMED_LIMIT = 2.0
# After giving up for a hold: the term is over before the pod contends again, whatever it is then.
HOLD_BACKOFF = 1.0
# One refused connection may be a restart of a listener between two calls; two in a row are not.
REFUSALS = 2


class Health(Enum):
    OK = "ok"
    FAILING = "failing"  # answered, but not 2xx
    HUNG = "hung"  # no answer in time
    REFUSED = "refused"  # connection refused: no process listens


class HealthGate:
    """Without a health URL (`is_used` False) it is always open."""

    def __init__(self, *, is_used: bool, failures: int, patience: float, pause: float, now: float):
        self._failures_limit = failures
        # Seconds that the Lease is free before a failing main is tried, and between two tries.
        self._patience = patience
        self._pause = pause
        self._failures = 0
        self._refusals = 0
        self._closed_at = now
        self._probation_at = -math.inf
        self.health: Health | None = None
        self.is_open = not is_used

    @property
    def is_main_gone(self) -> bool:
        return self._refusals >= REFUSALS

    def checked(self, now: float, health: Health) -> None:
        self.health = health
        self._refusals = self._refusals + 1 if health is Health.REFUSED else 0
        if health is Health.OK:
            self._failures = 0
            self.is_open = True
            return
        self._failures += 1
        if self.is_main_gone or self._failures >= self._failures_limit:
            if self.is_open:
                self._closed_at = now
            self.is_open = False

    def is_probation_due(self, now: float, *, free_since: float | None) -> bool:
        """A main that is healthy only when leading would otherwise never lead: once in `pause`
        it may contend while it fails, if the Lease was free for so long that no other pod can."""
        if self.health is not Health.FAILING or free_since is None:
            return False
        waited = now - max(free_since, self._closed_at)
        return waited >= self._patience and now - self._probation_at >= self._pause

    def begin_probation(self, now: float) -> None:
        self._probation_at = now


@dataclass(frozen=True)
class LifecyclePolicy:
    """What the flags say; seconds."""

    has_health: bool
    health_failures: int
    health_grace: float
    health_backoff: float
    has_drain: bool
    drain_timeout: float
    release_on_term: bool
    release_timeout: float
    # The main confirms by itself that it has stopped (shards), or what it was promised passes.
    has_confirmations: bool = False


@dataclass(frozen=True)
class LeaseFacts:
    """What the election says at this moment. `may_hold`: the record names us, or may soon.
    `is_unasked`: this process never answered that it leads. `asked`: why the record asks its holder
    to give up."""

    is_leader: bool
    holds_record: bool
    may_hold: bool
    is_released: bool
    free_since: float | None
    is_unpreferred: bool
    # Terms that began so far: even one that no plan saw may have put the main to work.
    terms: int = 0
    is_unasked: bool = False
    asked: Cause | None = None


@dataclass(frozen=True)
class LifecyclePlan:
    """`drains`: the drain URL is to be called now. `reason`: why not CONTEND; "" if it is. `cause`:
    why the lead is given up now, or was."""

    intent: Intent
    reason: str
    drains: bool
    is_over: bool
    cause: str = ""


class Lifecycle:
    def __init__(self, policy: LifecyclePolicy, *, now: float) -> None:
        self._policy = policy
        self._gate = HealthGate(
            is_used=policy.has_health,
            failures=policy.health_failures,
            patience=policy.health_grace + policy.health_backoff,
            pause=policy.health_backoff,
            now=now,
        )
        self._phase: Phase = Gated() if policy.has_health else Contending()
        self._is_terminating = False
        self._is_listener_unresponsive = False
        # Whether the main may be at work because of a 200: until the Lease is lost or released
        # after the main's own word, nothing else proves that it is not.
        self._work_may_run = False
        self._terms = 0
        self.outcome = Handover(0, None, was_released=False)

    @property
    def phase(self) -> Phase:
        return self._phase

    @property
    def is_open(self) -> bool:
        """Whether the gate lets this pod contend: no health URL, or the main is healthy."""
        return self._gate.is_open

    @property
    def health(self) -> Health | None:
        return self._gate.health

    # ── reports ──

    def health_checked(self, now: float, health: Health) -> None:
        self._gate.checked(now, health)

    def main_stopped(self) -> None:
        """The drain URL answered 2xx, or refused the connection."""
        if isinstance(self._phase, Draining):
            self._phase = replace(self._phase, is_main_stopped=True)

    def listener_checked(self, *, is_alive: bool) -> bool:
        """Whether that is news."""
        is_news = self._is_listener_unresponsive is is_alive
        self._is_listener_unresponsive = not is_alive
        return is_news

    def terminate(self, now: float, facts: LeaseFacts, *, is_main_there: bool = False) -> None:
        """SIGTERM: what is held is given up, then it is over. With `is_main_there`, though
        `release_on_term`: this process alone ends, and the next one of the pod may go on (P11)."""
        if self._is_terminating:
            return
        self._is_terminating = True
        self._note_term(facts)
        match self._phase:
            case Draining() as draining if self._policy.release_on_term and not is_main_there:
                self._release(now, draining.cause)
            case Draining() | Releasing() | Stopped():
                return
            case _ if is_main_there or not facts.may_hold:
                self._finish(now, HandoverCause.TERMINATION, was_released=False)
            case _ if self._policy.release_on_term or not self._work_may_run or facts.is_unasked:
                # A main that was never allowed to begin is not at work.
                self._release(now, HandoverCause.TERMINATION)
            case TermBackoff():  # its time to drain is over already: it is left to expire
                self._finish(now, HandoverCause.TERMINATION, was_released=False)
            case _:
                self._drain(now, HandoverCause.TERMINATION)

    def resign(
        self,
        now: float,
        facts: LeaseFacts,
        *,
        cooldown: float,
        cause: Cause = HandoverCause.RESIGNATION,
    ) -> bool:
        """False if there is nothing to resign from."""
        # While it is given up already, another resignation would only move the deadline.
        if not facts.is_leader or not isinstance(self._phase, Contending):
            return False
        if self._policy.has_drain:
            self._drain(now, cause, cooldown=cooldown)
        else:  # the request itself is the main's word that it has stopped
            self._release(now, cause, cooldown=cooldown)
        return True

    # ── the plan ──

    def plan(self, now: float, facts: LeaseFacts) -> LifecyclePlan:
        """What to do now. Phases may follow one another at one moment."""
        for _ in get_args(Phase):
            before = type(self._phase)
            self._step(now, facts)
            if type(self._phase) is before:
                break
        return LifecyclePlan(
            intent=intent_in(self._phase),
            reason=_reason_for(self._phase, now, health=self._gate.health),
            drains=isinstance(self._phase, Draining) and self._policy.has_drain,
            is_over=isinstance(self._phase, Stopped),
            cause="" if isinstance(self._phase, Gated | Contending) else self._phase.cause.value,
        )

    def wake_at(self) -> float:
        """When time alone changes the plan; what depends on the Lease is seen at each report."""
        match self._phase:
            case Draining(deadline=deadline) | Releasing(deadline=deadline):
                return deadline
            case TermBackoff(until=until) if not self._is_listener_unresponsive:
                return until
            case _:
                return math.inf

    def _step(self, now: float, facts: LeaseFacts) -> None:
        match self._phase:
            case Gated():
                self._step_gated(now, facts)
            case Contending() as contending:
                self._step_contending(now, facts, contending)
            case Draining() as draining:
                self._step_draining(now, facts, draining)
            case Releasing(cause, deadline, cooldown):
                # What a fresh look does not show as released by then is left to expire.
                if facts.is_released or now >= deadline:
                    self._finish(now, cause, was_released=facts.is_released, cooldown=cooldown)
            case TermBackoff() as backoff:
                self._step_backoff(now, facts, backoff)
            case Stopped():
                pass

    def _step_gated(self, now: float, facts: LeaseFacts) -> None:
        if self._gate.is_open:
            self._phase = Contending()
        elif self._gate.is_probation_due(now, free_since=facts.free_since):
            self._gate.begin_probation(now)
            self._phase = Contending(is_probation=True)

    def _step_contending(self, now: float, facts: LeaseFacts, phase: Contending) -> None:
        if self._note_term(facts):
            phase = replace(phase, led_at=min(phase.led_at, now))
        if not facts.is_leader and not facts.holds_record:
            # The Lease is lost: its next holder has waited until the time of our work was over.
            self._work_may_run = False
            phase = replace(phase, led_at=math.inf)
        self._phase = phase
        if self._is_listener_unresponsive:
            # No client can read our 503 (P9): the main acts on an older 200 for ever.
            self._drain(now, HandoverCause.LISTENER_UNRESPONSIVE)
        elif facts.is_unpreferred and facts.holds_record:
            self._drain(now, HandoverCause.UNPREFERRED)
        elif facts.asked is not None and facts.is_leader:
            self._give_up_as_asked(now, facts, facts.asked)
        elif self._gate.is_open:
            self._phase = replace(phase, is_probation=False)
        elif facts.may_hold:
            self._give_up_if_failing(now, phase)
        elif not phase.is_probation or facts.free_since is None:
            # A probation ends without the Lease as soon as another pod may lead.
            self._phase = Gated()

    def _note_term(self, facts: LeaseFacts) -> bool:
        """Whether it leads, or has led since the last plan: a 200 was answered then."""
        has_led = facts.is_leader or facts.terms > self._terms
        if has_led:
            self._terms = facts.terms
            self._work_may_run = True
        return has_led

    def _give_up_as_asked(self, now: float, facts: LeaseFacts, cause: Cause) -> None:
        # A successor has its time; a hold keeps all electors out by itself.
        cooldown = SUCCESSION if isinstance(cause, SwitchoverTo) else HOLD_BACKOFF
        if facts.is_unasked:
            self._release(now, cause, cooldown=cooldown)
        else:
            self._drain(now, cause, cooldown=cooldown)

    def _give_up_if_failing(self, now: float, phase: Contending) -> None:
        if self._gate.is_main_gone:
            # Its work has ended with it: no drain, and no grace (P7).
            self._release(now, HandoverCause.GONE)
        elif now >= phase.led_at + self._policy.health_grace:
            self._drain(now, HandoverCause.UNHEALTHY)

    def _step_draining(self, now: float, facts: LeaseFacts, phase: Draining) -> None:
        if not facts.may_hold:
            # Another pod holds the Lease already: there is nothing left to release.
            self._finish(now, phase.cause, was_released=False, cooldown=phase.cooldown)
        elif phase.is_main_stopped or self._gate.is_main_gone:
            self._release(now, phase.cause, cooldown=phase.cooldown)
        elif now >= phase.deadline:
            # The main may still work: the Lease is not renewed any more, and expires (H3).
            self._finish(now, phase.cause, was_released=False, cooldown=phase.cooldown)

    def _step_backoff(self, now: float, facts: LeaseFacts, phase: TermBackoff) -> None:
        was_unhealthy = phase.cause is HandoverCause.UNHEALTHY
        if was_unhealthy and facts.holds_record and self._gate.is_main_gone:
            # It failed before, and has ended while the Lease expires: restarted by kubelet.
            self._release(now, HandoverCause.GONE)
            return
        if self._is_listener_unresponsive:
            return
        since = facts.free_since
        is_unclaimed = since is not None and now - since >= UNCLAIMED_LIMIT
        if now >= phase.until or (phase.may_end_early and is_unclaimed):
            # Work of a term that ended in doubt may still run: only the Lease's loss ends that.
            self._phase = Contending() if self._gate.is_open else Gated()

    # ── giving up ──

    def _drain(self, now: float, cause: Cause, *, cooldown: float | None = None) -> None:
        # Without a drain URL only its end proves that the main has stopped: that is worth renewing
        # for while kubelet ends it too. A main that fails or hangs may do so for ever.
        is_ending = self._policy.has_health and cause is HandoverCause.TERMINATION
        can_learn = self._policy.has_drain or self._policy.has_confirmations or is_ending
        deadline = now + (self._policy.drain_timeout if can_learn else 0.0)
        self._phase = Draining(
            cause, deadline, is_main_stopped=not self._work_may_run, cooldown=cooldown
        )

    def _release(self, now: float, cause: Cause, *, cooldown: float | None = None) -> None:
        self._phase = Releasing(cause, now + self._policy.release_timeout, cooldown)

    def _finish(
        self,
        now: float,
        cause: Cause,
        *,
        was_released: bool,
        cooldown: float | None = None,
    ) -> None:
        self.outcome = Handover(self.outcome.number + 1, cause, was_released)
        self._work_may_run = self._work_may_run and not was_released
        if self._is_terminating:
            self._phase = Stopped(cause)
            return
        seconds = self._policy.health_backoff if cooldown is None else cooldown
        # A main that is well again contends as soon as it is clear that no other pod will; a
        # resignation or an unresponsive listener is to keep this pod out.
        may_end_early = cause in (HandoverCause.UNHEALTHY, HandoverCause.GONE)
        self._phase = TermBackoff(cause, now + seconds, may_end_early)


def _reason_for(phase: Phase, now: float, *, health: Health | None) -> str:
    """Why the pod does not contend, in words; "" if it does."""
    match phase:
        case Contending():
            return ""
        case Gated():
            return f"the main is not healthy: {health.value if health else 'not asked yet'}"
        case Draining(cause=cause):
            return f"waiting for the main to stop: {cause.value}"
        case Releasing(cause=cause):
            return f"releasing the Lease: {cause.value}"
        case TermBackoff(cause=cause, until=until):
            return f"not contending for another {max(until - now, 0.0):.1f}s: {cause.value}"
        case Stopped(cause=cause):
            return cause.value
