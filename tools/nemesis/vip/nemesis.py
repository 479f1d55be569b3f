"""Random faults on mains, electors and networks of nodes that share an address, and the verdict.

Owns the schedule: what is drawn is decided by the seed alone; what a draw meets, by the machine.
Knows no more of nodes than `Ground` says. Guarantees: at most one fault per resource at a time;
when `run` returns, all faults have ended.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Protocol

from tools.harness.controlplane.clients.answer import boottime
from tools.nemesis.vip.node_observer import NodeObserver
from tools.nemesis.vip.ownership import Finding

# Begins when it is called, and ends when what it returns is called.
Fault = Callable[[], Callable[[], None]]
# Seconds from one fault's beginning to the next one's, and how long they hold: longer and shorter
# than a lease, and often several at once.
PAUSES = (0.5, 5.0)
LENGTHS = (0.2, 10.0)
# How often a fault meets the present owner on purpose.
OWNER_SHARE = 0.5
WORKERS = 8
# Seconds between two looks at what was seen so far.
LOOK_INTERVAL = 30.0


class Ground(Protocol):
    """What is played on: nodes in namespaces, or in containers."""

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def node_observer(self) -> NodeObserver: ...
    def faults(self, name: str) -> Mapping[str, Mapping[str, Fault]]:
        """By resource (main, elector, …), by kind."""
        ...

    def log_text(self, name: str) -> str:
        """What its elector and its keepalived have logged."""
        ...


@dataclass(frozen=True)
class Outcome:
    """`owned`: the share of the time in which somebody owned the address; `gaps`: seconds without
    an owner between two; `settled_in`: after all faults had ended."""

    counts: Mapping[str, int]
    findings: Sequence[Finding]
    complaints: Sequence[str]
    hand_overs: int
    gaps: Sequence[float]
    owned: float
    settled_in: float | None

    @property
    def is_good(self) -> bool:
        return not self.findings and not self.complaints


class Nemesis:
    def __init__(self, ground: Ground, *, seed: int, say: Callable[[str], None]) -> None:
        self._ground = ground
        self._node_observer = ground.node_observer
        self._random = random.Random(seed)
        self._say = say
        self._lock = threading.Lock()
        self._busy: set[tuple[str, str]] = set()
        self._counts: Counter[str] = Counter()
        self._complaints: list[str] = []
        self._running: list[Future[None]] = []

    def run(self, faults: int) -> Outcome:
        self._node_observer.settled()
        started = looked = boottime()
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="fault") as workers:
            begun = 0
            while begun < faults and not self._node_observer.findings():
                time.sleep(self._random.uniform(*PAUSES))
                begun += self._begin(workers)
                self._look_after()
                if boottime() - looked > LOOK_INTERVAL:
                    looked = boottime()
                    owner = ", ".join(self._node_observer.owners()) or "nobody"
                    self._say(f"{begun} of {faults} faults; the address is {owner}'s")
        self._look_after()
        return self._end(started)

    def _begin(self, workers: ThreadPoolExecutor) -> bool:
        chance = self._random
        name, meets_owner = chance.choice(self._ground.names), chance.random() < OWNER_SHARE
        owners = self._node_observer.owners()
        if meets_owner and owners:
            name = owners[0]
        by_resource = self._ground.faults(name)
        kinds = [(each, kind) for each in sorted(by_resource) for kind in sorted(by_resource[each])]
        resource, kind = chance.choice(kinds)
        seconds = chance.uniform(*LENGTHS)
        with self._lock:
            if (name, resource) in self._busy:
                return False
            self._busy.add((name, resource))
        fault = by_resource[resource][kind]
        self._running.append(workers.submit(self._hold, name, resource, kind, fault, seconds))
        return True

    def _hold(self, name: str, resource: str, kind: str, fault: Fault, seconds: float) -> None:
        at = boottime()
        try:
            undo = fault()
            time.sleep(seconds)
            undo()
        finally:
            with self._lock:
                self._busy.remove((name, resource))
        self._counts[f"{resource} {kind}"] += 1
        self._say(f"{at:.2f} +{boottime() - at:.2f}s {name} {resource} {kind}")

    def _look_after(self) -> None:
        """Whatever broke in a worker."""
        for future in [each for each in self._running if each.done()]:
            self._running.remove(future)
            future.result()

    def _end(self, started: float) -> Outcome:
        settled_in = None
        since = boottime()
        try:
            self._node_observer.settled()
            settled_in = boottime() - since
        except AssertionError as error:
            self._complaints.append(f"after all faults: {error}")
        found = [each for each in self._node_observer.spells() if each.until > started]
        pairs = list(pairwise(found))
        owned = sum(min(each.until, since) - max(each.since, started) for each in found)
        return Outcome(
            counts=self._counts,
            findings=self._node_observer.findings(),
            complaints=self._complaints,
            hand_overs=sum(before.node != after.node for before, after in pairs),
            gaps=[after.since - before.until for before, after in pairs if before.until < inf],
            owned=owned / max(since - started, 1e-9),
            settled_in=settled_in,
        )
