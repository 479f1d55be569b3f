"""People at work and random faults at once, and the verdict when all is healed.

Owns the schedule: what is drawn is decided by the seed alone; what a draw meets, by the machine.
Guarantees: at most one fault per pod at a time; when `run` returns, all faults have ended.
"""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from tools.harness.pods.system import System
from tools.harness.system import faults
from tools.harness.system.workers import Workers
from tools.harness.system.workload import Workload

# Seconds in which everything must be final and right after the last healing (issue 5).
HEALING = 30.0
# Seconds in which it is waited for, so that late can be told from never.
PATIENCE = 120.0
# Seconds before the last healing at which people rest, at most a third of all: what their last deed
# began takes its time by itself, a round of learning half a minute.
REST = 40.0
# Seconds in which it must stay so.
STILL = 3.0
POLL_INTERVAL = 0.5
# Of many findings the first ones tell.
SHOWN = 12
# What a fault lasts at most, in seconds: longer than the Lease of the pods of tests.
MAX_LENGTH = 10.0


@dataclass
class Outcome:
    findings: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    deeds: int = 0
    children: int = 0
    taken: int = 0
    objects: int = 0
    settled_in: float | None = None

    def __str__(self) -> str:
        settled = "never" if self.settled_in is None else f"in {self.settled_in:.1f} s"
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items()))
        return (
            f"{self.faults.total()} faults ({kinds}); {self.deeds} deeds, {self.objects} objects, "
            f"{self.children} children, {self.taken} words of workers taken; settled {settled}"
        )


class Ordeal:
    """`pause`: seconds between two faults at most; `deed_every`: between two deeds; `healing`: in
    which everything must be final and right."""

    def __init__(
        self,
        system: System,
        workers: Workers,
        workload: Workload,
        *,
        seed: int,
        say: Callable[[str], None],
        pause: float = 3.0,
        deed_every: float = 0.2,
        healing: float = HEALING,
    ) -> None:
        self._system = system
        self._workers = workers
        self._workload = workload
        self._random = random.Random(seed)
        self._say = say
        self._pause = pause
        self._deed_every = deed_every
        self._healing = healing
        self._busy: set[str] = set()
        self._lock = threading.Lock()
        self._running: list[Future[None]] = []
        self._outcome = Outcome()

    def run(self, seconds: float) -> Outcome:
        """Fails fast: the first finding ends it."""
        end = time.monotonic() + seconds
        rest_at = end - min(REST, seconds / 3)
        fault_at = time.monotonic()
        with ThreadPoolExecutor(max_workers=16) as pool:
            while time.monotonic() < end and not self._outcome.findings:
                time.sleep(self._deed_every)
                if time.monotonic() < rest_at:
                    self._workload.deed()
                    self._outcome.deeds += 1
                if time.monotonic() >= fault_at:
                    fault_at = time.monotonic() + self._random.uniform(0.0, self._pause)
                    self._begin(pool)
                self._look_after()
        self._look_after()
        self._settle()
        return self._outcome

    # ── faults ──

    def _begin(self, pool: ThreadPoolExecutor) -> None:
        chance = self._random
        is_gm = chance.random() < 0.5
        kind = chance.choice(sorted(faults.GM if is_gm else faults.EDGE))
        targets = [pod.name for pod in self._system.gms] if is_gm else sorted(self._system.edges)
        index, aims_at_leader = chance.randrange(len(targets)), chance.random() < 0.6
        seconds = chance.uniform(0.1, chance.choice((1.0, MAX_LENGTH)))
        target = targets[index]
        if is_gm and aims_at_leader:
            target = self._leader() or target
        with self._lock:
            # Somebody must be left, else nothing but waiting is tested.
            gms_down = sum(pod.name in self._busy for pod in self._system.gms)
            if target in self._busy or (is_gm and gms_down >= len(self._system.gms) - 1):
                return
            self._busy.add(target)
        self._running.append(pool.submit(self._hold, kind, target, seconds))

    def _leader(self) -> str:
        for pod in self._system.gms:
            with self._lock:
                is_free = pod.name not in self._busy
            if is_free and pod.elector.readyz() == 200:
                return pod.name
        return ""

    def _hold(self, kind: str, target: str, seconds: float) -> None:
        system = self._system
        started = time.time()
        try:
            if kind in faults.GM:
                [pod] = [each for each in system.gms if each.name == target]
                with faults.GM[kind](pod):
                    time.sleep(seconds)
            else:
                with faults.EDGE[kind](system, system.edges[target]):
                    time.sleep(seconds)
        finally:
            with self._lock:
                self._busy.discard(target)
        self._outcome.faults[kind] += 1
        self._say(f"{started:.3f} +{time.time() - started:.2f}s {kind} {target}")

    def _look_after(self) -> None:
        """Whatever broke in a fault; whoever is gone without having been told to go."""
        for future in [each for each in self._running if each.done()]:
            future.result()
            self._running.remove(future)
        for resource, processes in faults.processes(self._system).items():
            for name, process in processes:
                with self._lock:
                    is_gone = resource not in self._busy and not process.is_running
                if is_gone:
                    self._find(f"{name} is gone: {process.log_text()[-3000:]}")
        api_observer = self._system.api_observer
        for what in (*api_observer.doubled, *api_observer.reopened, *self._workers.complaints):
            self._find(what)

    def _find(self, what: str) -> None:
        if what not in self._outcome.findings:
            self._outcome.findings.append(what)

    # ── the verdict ──

    def _settle(self) -> None:
        healed_at = time.monotonic()
        self._workers.quiet.set()
        quiet_since: float | None = None
        wrongs: list[str] = []
        while time.monotonic() < healed_at + PATIENCE:
            wrongs = self._wrongs()
            now = time.monotonic()
            if wrongs:
                quiet_since = None
            elif quiet_since is None:
                quiet_since = now
            elif now >= quiet_since + STILL:
                break
            time.sleep(POLL_INTERVAL)
        if quiet_since is not None:
            settled_in = self._outcome.settled_in = quiet_since - healed_at
            if settled_in > self._healing:
                self._find(f"all was final and right only {settled_in:.1f} s after the healing")
        self._workers.quiet.clear()
        self._look_after()
        for wrong in wrongs:
            self._find(wrong)
        for name, text in self._logs():
            if "Traceback" in text:
                self._find(f"{name}: {text[text.index('Traceback') - 200 :][:2000]}")
        outcome, api_observer = self._outcome, self._system.api_observer
        outcome.children, outcome.taken = api_observer.children, self._workers.taken
        outcome.objects = self._workload.objects
        if outcome.findings:
            self._tell()

    def _wrongs(self) -> list[str]:
        found = self._workload.wrongs()
        try:
            if not found:
                found = self._system.unsettled_reports()
            return found or self._system.wrong_stores()
        except AssertionError as silence:
            # Of an LC that the last healing started a moment ago.
            return [str(silence)]

    def _logs(self) -> list[tuple[str, str]]:
        found = [(pod.name, pod.gm.log_text(all_lives=True)) for pod in self._system.gms]
        return found + [
            (name, edge.lc.log_text(all_lives=True)) for name, edge in self._system.edges.items()
        ]

    def _tell(self) -> None:
        for each in self._outcome.findings[:SHOWN]:
            self._say(f"FINDING {each}")
        for pod in self._system.gms:
            answer = pod.gm.readyz()
            self._say(f"{pod.name}: readyz {answer}")
            if answer is not None:
                self._say(json.dumps(pod.gm.status())[:3000])
        for name, text in self._logs():
            self._say(f"log of {name}:\n{text[-4000:]}")
