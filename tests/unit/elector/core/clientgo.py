"""A client-go leader elector in the model, rule by rule, with its hazards.

Source: client-go v0.36 tools/leaderelection/leaderelection.go, `tryAcquireOrRenew`, `acquire`,
`renew` and `release`; v0.26 has no fast path, and judges by its own duration instead of the
holder's. Stops at the last response + P + R, and its release blanks whoever holds the Lease.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any

from elector_sidecar.core.lease import Lease, Spec, micro_time
from tests.unit.elector.core.apiserver import NAME, NAMESPACE, Answer
from tests.unit.elector.core.world import Clock, Link, World

JITTER_FACTOR = 1.2

Perform = Callable[[], Answer]


@dataclass(frozen=True)
class Sleep:
    seconds: float


@dataclass(frozen=True)
class Call:
    perform: Perform
    deadline: float


Step = Generator[Sleep | Call, Answer | None, bool]


class ClientGo:
    """One process; `is_leading` from OnStartedLeading to OnStoppedLeading."""

    def __init__(
        self,
        world: World,
        clock: Clock,
        link: Link,
        *,
        identity: str,
        lease_duration: int,
        is_old: bool,
    ) -> None:
        self.world = world
        self.clock = clock
        self.link = link
        self.identity = identity
        self.on_leading: list[Callable[[ClientGo], None]] = []
        self.is_leading = False
        self.lease_duration = lease_duration
        self.renew_deadline = lease_duration * 10 / 15
        self.retry_period = lease_duration * 2 / 15
        self._timeout = max(1.0, self.renew_deadline / 2)
        self._is_old = is_old
        self._lease: Lease | None = None
        self._record: Spec | None = None
        self._raw: Spec | None = None
        self._observed_at = 0.0
        self._is_told_to_stop = False
        self._is_dead = False
        self._run = self._main()
        self._step(None)

    def stop(self) -> None:
        """Its context is cancelled: it stops its work and releases (ReleaseOnCancel)."""
        self._is_told_to_stop = True

    def kill(self) -> None:
        self._is_dead = True
        self.is_leading = False

    # ── leaderelection.go ──

    def _main(self) -> Step:
        while not (yield from self._try(self.clock.now() + 1e9)):
            pause = self.retry_period * (1 + self.world.random.uniform(0, JITTER_FACTOR))
            yield Sleep(pause)
            if self._is_told_to_stop:
                break
        else:
            self.is_leading = True
            for listener in self.on_leading:
                listener(self)
            while not self._is_told_to_stop and (yield from self._renew()):
                yield Sleep(self.retry_period)
            self.is_leading = False
        return (yield from self._release())

    def _renew(self) -> Step:
        deadline = self.clock.now() + self.renew_deadline
        while self.clock.now() < deadline and not self._is_told_to_stop:
            if (yield from self._try(deadline)):
                return True
            yield Sleep(min(self.retry_period, max(deadline - self.clock.now(), 0.0) + 1e-6))
        return False

    def _try(self, deadline: float) -> Step:
        now = micro_time(self.clock.wall())
        spec = self._spec(acquired=now, renewed=now, transitions=0)
        record = self._record
        if not self._is_old and record and self._is_mine() and self._is_valid(record):
            spec["acquireTime"] = record.acquire_time
            spec["leaseTransitions"] = record.lease_transitions
            if (yield from self._put(spec, deadline)):
                return True
        answer = yield Call(self.world.server.get, deadline)
        if answer is None or answer.status not in (200, 404):
            return False
        if answer.lease is None:
            return (yield from self._post(spec, deadline))
        self._lease = answer.lease
        raw = _in_whole_seconds(answer.lease.spec)
        if raw != self._raw:
            self._raw = raw
            self._observe(answer.lease.spec)
        record = answer.lease.spec
        if record.holder_identity and self._is_valid(record) and not self._is_mine():
            return False
        if self._is_mine():
            spec["acquireTime"] = record.acquire_time
            spec["leaseTransitions"] = record.lease_transitions
        else:
            spec["leaseTransitions"] = record.lease_transitions + 1
        return (yield from self._put(spec, deadline))

    def _release(self) -> Step:
        """H4: reads anew, decides by what it remembers."""
        if not self._is_mine():
            return False
        answer = yield Call(self.world.server.get, self.clock.now() + self.renew_deadline)
        if answer is None or answer.lease is None:
            return False
        self._lease = answer.lease
        now = micro_time(self.clock.wall())
        transitions = answer.lease.spec.lease_transitions
        spec = self._spec(acquired=now, renewed=now, transitions=transitions)
        spec["holderIdentity"] = ""
        spec["leaseDurationSeconds"] = 1
        return (yield from self._put(spec, self.clock.now() + self.renew_deadline))

    def _put(self, spec: dict[str, Any], deadline: float) -> Step:
        assert self._lease is not None
        body = {"metadata": self._lease.raw["metadata"], "spec": spec}
        return (yield from self._store(self.world.server.put, body, deadline))

    def _post(self, spec: dict[str, Any], deadline: float) -> Step:
        body = {"metadata": {"namespace": NAMESPACE, "name": NAME}, "spec": spec}
        return (yield from self._store(self.world.server.post, body, deadline))

    def _store(
        self,
        method: Callable[[float, str, dict[str, Any]], Answer],
        body: dict[str, Any],
        deadline: float,
    ) -> Step:
        answer = yield Call(lambda: method(self.world.time, self.identity, body), deadline)
        if answer is None or answer.lease is None:
            return False
        self._lease = answer.lease
        self._observe(answer.lease.spec)
        return True

    def _spec(self, *, acquired: str, renewed: str, transitions: int) -> dict[str, Any]:
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self.lease_duration,
            "acquireTime": acquired,
            "renewTime": renewed,
            "leaseTransitions": transitions,
        }

    def _observe(self, record: Spec) -> None:
        self._record = record
        self._observed_at = self.clock.now()

    def _is_mine(self) -> bool:
        return self._record is not None and self._record.holder_identity == self.identity

    def _is_valid(self, record: Spec) -> bool:
        duration = self.lease_duration if self._is_old else record.lease_duration or 0.0
        return self._observed_at + duration > self.clock.now()

    # ── the process ──

    def _step(self, answer: Answer | None) -> None:
        if self._is_dead:
            return
        try:
            wish = self._run.send(answer)
        except StopIteration:
            return
        if isinstance(wish, Sleep):
            self.world.after(wish.seconds / self.clock.rate, lambda: self._step(None))
            return
        settled = [False]

        def settle(result: Answer | None) -> None:
            if not settled[0]:
                settled[0] = True
                self._step(result)

        self.link.exchange(wish.perform, settle)
        limit = min(self._timeout, max(wish.deadline - self.clock.now(), 0.0))
        self.world.after(limit / self.clock.rate, lambda: settle(None))


def _in_whole_seconds(spec: Spec) -> Spec:
    """Its record holds metav1.Time: what changed within a second has not changed."""
    return replace(
        spec,
        acquire_time=spec.acquire_time and spec.acquire_time[:19],
        renew_time=spec.renew_time and spec.renew_time[:19],
    )
