"""Whether this pod should lead at all: the gate on its main's health, and giving up in order.

Pure: reports and `now` come in, a `LifecyclePlan` comes out. Knows nothing of Leases beyond
`LeaseFacts`.
Guarantee (P6): RELEASE is planned only after the main said that it has stopped, is gone, or
`release_on_term` vouches for it; otherwise the Lease is left to expire.

    GATED  ◄──health──► CONTENDING ──term, resign, failing main──► DRAINING ──stopped, gone──┐
       ▲                    ▲   └──────── main gone ───────────────────┼──► RELEASING ◄──────┘
       │                    └───────────── BACKOFF ◄──── time-out ─────┴────────┘
       └── unhealthy ───────────────────────┘  └─ or STOPPED, when terminating
"""

import math
from dataclasses import dataclass
from enum import Enum

from elector_sidecar.core.commands import Intent

# An ex-leader's backoff ends early when nobody took the free Lease for so long (contract, 2).
UNCLAIMED_LIMIT = 2.0
# One refused connection may be a restart of a listener between two calls; two in a row are not.
REFUSALS = 2


class Health(Enum):
    OK = "ok"
    FAILING = "failing"  # answered, but not 2xx
    HUNG = "hung"  # no answer in time
    REFUSED = "refused"  # connection refused: nobody listens


class Phase(Enum):
    GATED = "gated"
    CONTENDING = "contending"
    DRAINING = "draining"
    RELEASING = "releasing"
    BACKOFF = "backoff"
    STOPPED = "stopped"


class HandoverCause(Enum):
    """Why the lead was given up."""

    TERMINATION = "the sidecar is terminating"
    RESIGNATION = "resigned by request"
    UNHEALTHY = "the main is unhealthy"
    GONE = "the main is gone"
    LISTENER_UNRESPONSIVE = "the sidecar's own HTTP listener does not answer"
    UNPREFERRED = "another holder is preferred by the Lease's strategy"


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


@dataclass(frozen=True)
class LeaseFacts:
    """What the election says at this moment. `may_hold`: the record names us, or may soon."""

    is_leader: bool
    holds_record: bool
    may_hold: bool
    is_released: bool
    free_since: float | None
    is_unpreferred: bool
    # Terms that began so far: even one that no plan saw may have put the main to work.
    terms: int = 0


@dataclass(frozen=True)
class LifecyclePlan:
    """`drains`: the drain URL is to be called now. `reason`: why not CONTEND; "" if it is."""

    intent: Intent
    reason: str
    drains: bool
    is_over: bool


@dataclass(frozen=True)
class Handover:
    """How the last giving up ended; `number` counts them."""

    number: int
    cause: HandoverCause | None
    was_released: bool


class Lifecycle:
    def __init__(self, policy: LifecyclePolicy, *, now: float) -> None:
        self._policy = policy
        self._phase = Phase.GATED if policy.has_health else Phase.CONTENDING
        self._cause: HandoverCause | None = None
        self._is_terminating = False
        self._work_may_run = False
        self._terms = 0
        self._led_at = math.inf
        # Health.
        self._health: Health | None = None
        self._failures = 0
        self._refusals = 0
        self._is_open = not policy.has_health
        self._is_probation = False
        self._probation_at = -math.inf
        self._closed_at = now
        # Giving up.
        self._is_stopped = False
        self._deadline = math.inf
        self._backoff_until = -math.inf
        self._backoff_may_end_early = False
        self._cooldown = 0.0
        self._is_listener_unresponsive = False
        self.outcome = Handover(0, None, was_released=False)

    @property
    def phase(self) -> Phase:
        return self._phase

    @property
    def is_open(self) -> bool:
        """Whether the gate lets this pod contend: no health URL, or the main is healthy."""
        return self._is_open

    @property
    def health(self) -> Health | None:
        return self._health

    # ── reports ──

    def health_checked(self, now: float, health: Health) -> None:
        self._health = health
        self._refusals = self._refusals + 1 if health is Health.REFUSED else 0
        if health is Health.OK:
            self._failures = 0
            self._is_open = True
            return
        self._failures += 1
        if self._refusals >= REFUSALS or self._failures >= self._policy.health_failures:
            if self._is_open:
                self._closed_at = now
            self._is_open = False

    def main_stopped(self) -> None:
        """The drain URL said 2xx, or refused the connection."""
        self._is_stopped = True

    def listener_checked(self, *, is_alive: bool) -> bool:
        """Whether that is news."""
        was_unresponsive, self._is_listener_unresponsive = (
            self._is_listener_unresponsive,
            not is_alive,
        )
        return self._is_listener_unresponsive is not was_unresponsive

    def terminate(self, now: float, facts: LeaseFacts) -> None:
        """SIGTERM: what is held is given up, then it is over."""
        if self._is_terminating:
            return
        self._is_terminating = True
        self._note_term(now, facts)
        match self._phase:
            case Phase.DRAINING if self._policy.release_on_term:
                self._release(now)
            case Phase.DRAINING | Phase.RELEASING | Phase.STOPPED:
                return
            case _ if not facts.may_hold:
                self._finish(now, HandoverCause.TERMINATION, was_released=False)
            case _ if self._policy.release_on_term or not self._work_may_run:
                self._cause = HandoverCause.TERMINATION
                self._release(now)
            case Phase.BACKOFF:  # its time to drain is over already: it is left to expire
                self._finish(now, HandoverCause.TERMINATION, was_released=False)
            case _:
                self._drain(now, HandoverCause.TERMINATION)

    def resign(self, now: float, facts: LeaseFacts, *, cooldown: float) -> bool:
        """False if there is nothing to resign from."""
        if not facts.is_leader or self._phase is not Phase.CONTENDING:
            return False
        self._cooldown = cooldown
        if self._policy.has_drain:
            self._drain(now, HandoverCause.RESIGNATION)
        else:  # the request itself is the main's word that it has stopped
            self._cause = HandoverCause.RESIGNATION
            self._release(now)
        return True

    # ── the plan ──

    def plan(self, now: float, facts: LeaseFacts) -> LifecyclePlan:
        """What to do now. Phases may follow one another at one moment."""
        for _ in Phase:
            before = self._phase
            self._step(now, facts)
            if self._phase is before:
                break
        return LifecyclePlan(
            intent=_INTENTS[self._phase],
            reason=self._reason(now),
            drains=self._phase is Phase.DRAINING and self._policy.has_drain,
            is_over=self._phase is Phase.STOPPED,
        )

    def wake_at(self) -> float:
        """When time alone changes the plan; what depends on the Lease is seen at each report."""
        match self._phase:
            case Phase.DRAINING | Phase.RELEASING:
                return self._deadline
            case Phase.BACKOFF if not self._is_listener_unresponsive:
                return self._backoff_until
            case _:
                return math.inf

    def _step(self, now: float, facts: LeaseFacts) -> None:
        match self._phase:
            case Phase.GATED:
                self._step_gated(now, facts)
            case Phase.CONTENDING:
                self._step_contending(now, facts)
            case Phase.DRAINING:
                self._step_draining(now, facts)
            case Phase.RELEASING:
                if facts.is_released:
                    self._finish(now, self._cause, was_released=True)
                elif now >= self._deadline:
                    self._finish(now, self._cause, was_released=False)
            case Phase.BACKOFF:
                self._step_backoff(now, facts)
            case Phase.STOPPED:
                pass

    def _step_gated(self, now: float, facts: LeaseFacts) -> None:
        if self._is_open:
            self._contend(now)
        elif self._is_probation_due(now, facts):
            self._probation_at = now
            self._contend(now)
            self._is_probation = True

    def _is_probation_due(self, now: float, facts: LeaseFacts) -> bool:
        """A main that is healthy only when leading would otherwise never lead."""
        policy = self._policy
        if self._health is not Health.FAILING or facts.free_since is None:
            return False
        waited = now - max(facts.free_since, self._closed_at)
        return (
            waited >= policy.health_grace + policy.health_backoff
            and now - self._probation_at >= policy.health_backoff
        )

    def _step_contending(self, now: float, facts: LeaseFacts) -> None:
        self._note_term(now, facts)
        if not facts.is_leader and not facts.holds_record:
            self._work_may_run = False
            self._led_at = math.inf
        if self._is_listener_unresponsive:
            self._drain(now, HandoverCause.LISTENER_UNRESPONSIVE)
        elif facts.is_unpreferred and facts.holds_record:
            self._drain(now, HandoverCause.UNPREFERRED)
        elif self._is_open:
            self._is_probation = False
        elif facts.may_hold:
            self._give_up_if_failing(now)
        elif not self._is_probation or facts.free_since is None:
            self._is_probation = False
            self._phase = Phase.GATED

    def _note_term(self, now: float, facts: LeaseFacts) -> None:
        """A term may have begun and ended since the last plan: 200 was answered in it."""
        if facts.is_leader or facts.terms > self._terms:
            self._terms = facts.terms
            self._work_may_run = True
            self._led_at = min(self._led_at, now)

    def _give_up_if_failing(self, now: float) -> None:
        if self._refusals >= REFUSALS:
            self._cause = HandoverCause.GONE
            self._release(now)
        elif now >= self._led_at + self._policy.health_grace:
            self._drain(now, HandoverCause.UNHEALTHY)

    def _step_draining(self, now: float, facts: LeaseFacts) -> None:
        gone = self._refusals >= REFUSALS
        if not facts.may_hold:
            self._finish(now, self._cause, was_released=False)
        elif self._is_stopped or gone:
            self._release(now)
        elif now >= self._deadline:
            self._finish(now, self._cause, was_released=False)

    def _step_backoff(self, now: float, facts: LeaseFacts) -> None:
        since = facts.free_since
        unclaimed = since is not None and now - since >= UNCLAIMED_LIMIT
        if (
            self._cause is HandoverCause.UNHEALTHY
            and facts.holds_record
            and self._refusals >= REFUSALS
        ):
            # It failed before, and has ended while the Lease expires: restarted by kubelet.
            self._cause = HandoverCause.GONE
            self._release(now)
            return
        if self._is_listener_unresponsive:
            return
        if now >= self._backoff_until or (self._backoff_may_end_early and unclaimed):
            if self._is_open:
                self._contend(now)
            else:
                self._phase = Phase.GATED

    def _contend(self, now: float) -> None:
        # Work of a term that ended in doubt may still run: only the Lease's loss ends that.
        self._phase = Phase.CONTENDING
        self._led_at = math.inf
        self._is_probation = False
        self._cause = None

    def _drain(self, now: float, cause: HandoverCause) -> None:
        self._cause = cause
        self._phase = Phase.DRAINING
        self._is_stopped = not self._work_may_run
        # Without a drain URL only its end proves that the main has stopped: that is worth renewing
        # for while kubelet ends it too. A main that fails or hangs may do so for ever.
        is_ending = self._policy.has_health and cause is HandoverCause.TERMINATION
        can_learn = self._policy.has_drain or is_ending
        self._deadline = now + (self._policy.drain_timeout if can_learn else 0.0)

    def _release(self, now: float) -> None:
        self._phase = Phase.RELEASING
        self._deadline = now + self._policy.release_timeout

    def _finish(self, now: float, cause: HandoverCause | None, *, was_released: bool) -> None:
        self.outcome = Handover(self.outcome.number + 1, cause, was_released)
        self._cause = cause
        self._work_may_run = self._work_may_run and not was_released
        if self._is_terminating:
            self._phase = Phase.STOPPED
            return
        self._phase = Phase.BACKOFF
        rest = self._cooldown if cause is HandoverCause.RESIGNATION else self._policy.health_backoff
        self._backoff_until = now + rest
        self._backoff_may_end_early = cause in (HandoverCause.UNHEALTHY, HandoverCause.GONE)

    def _reason(self, now: float) -> str:
        cause = self._cause.value if self._cause else ""
        match self._phase:
            case Phase.CONTENDING:
                return ""
            case Phase.GATED:
                health = self._health.value if self._health else "not asked yet"
                return f"the main is not healthy: {health}"
            case Phase.DRAINING:
                return f"waiting for the main to stop: {cause}"
            case Phase.RELEASING:
                return f"releasing the Lease: {cause}"
            case Phase.BACKOFF:
                left = max(self._backoff_until - now, 0.0)
                return f"not contending for another {left:.1f}s: {cause}"
            case Phase.STOPPED:
                return cause


_INTENTS = {
    Phase.GATED: Intent.ABSTAIN,
    Phase.CONTENDING: Intent.CONTEND,
    Phase.DRAINING: Intent.HOLD,
    Phase.RELEASING: Intent.RELEASE,
    Phase.BACKOFF: Intent.ABSTAIN,
    Phase.STOPPED: Intent.ABSTAIN,
}
