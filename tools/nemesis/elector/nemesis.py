"""Random faults, one or several at a time, and the verdict on what the electors made of them.

Owns the schedule; what a draw meets is decided by the machine. Guarantee: when `run` returns, all
faults have ended.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tools.harness.controlplane.clients.answer import boottime
from tools.harness.pods.fleet import FAST_DURATION
from tools.nemesis.elector import faults, moves, restarts
from tools.nemesis.elector.faults import Draw
from tools.nemesis.elector.history import History
from tools.nemesis.elector.testbed import BOGUS, Candidate, ElectionTestbed
from tools.nemesis.elector.verdict import Rules, Verdict, Worked, judge, transitions
from tools.nemesis.ordeal import Ordeal

# Seconds between two groups of faults: at most so long is quiet, in which a leader settles.
MAX_PAUSE = 5.0
# How many faults a group has.
GROUP_SIZES = (1, 1, 1, 1, 2, 2, 3)
# Faults hold up to so many lease durations.
MAX_LENGTH = 2.0
# Seconds between two looks at the verdict so far.
JUDGE_INTERVAL = 60.0
# Seconds without a fault, in which a priority asks for the lead, and from one of them to the next.
CALM, CALM_EVERY = 70.0, 300.0
# Seconds that a wrapped program works on after its whole pod was frozen and woken, on a machine
# with two cores that are all busy; the contract has 50 ms for a quiet one.
AFTER_THAW = 0.5
# Of many findings the first ones tell; they are shown with the log of so many seconds around.
SHOWN = 5
BEFORE, AFTER = 15.0, 3.0


@dataclass(frozen=True)
class Outcome:
    verdict: Verdict
    complaints: list[str]
    counts: Counter[str]
    transitions: int
    healed_in: float | None
    # Terms in which a wrapped program worked.
    worked: int

    @property
    def faults(self) -> int:
        return self.counts.total()

    @property
    def is_good(self) -> bool:
        return not self.verdict.findings and not self.complaints


class Nemesis(Ordeal):
    def __init__(self, testbed: ElectionTestbed, *, seed: int, say: Callable[[str], None]) -> None:
        super().__init__(seed=seed, say=say)
        self._testbed = testbed
        self._known: set[str] = set()

    @property
    def _candidates(self) -> Sequence[Candidate]:
        return self._testbed.candidates

    def run(self, seconds: float) -> Outcome:
        """Fails fast: the first finding ends it."""
        self._testbed.wait_for_leader()
        end = time.monotonic() + seconds
        judge_at = time.monotonic() + JUDGE_INTERVAL
        calm_at = time.monotonic() + CALM_EVERY
        verdict = self._judge()
        with ThreadPoolExecutor(max_workers=16) as workers:
            while time.monotonic() < end and not self._complaints and not verdict.findings:
                time.sleep(self._random.random() * MAX_PAUSE)
                if time.monotonic() >= calm_at and end - time.monotonic() > CALM:
                    self._be_calm()
                    calm_at = time.monotonic() + CALM_EVERY
                for _ in range(self._random.choice(GROUP_SIZES)):
                    self._begin(workers, self._draw())
                self._look_after()
                if time.monotonic() >= judge_at:
                    judge_at += JUDGE_INTERVAL
                    verdict = self._judge()
                    self._tell(verdict, left=end - time.monotonic())
        self._look_after()
        return self._end()

    def _be_calm(self) -> None:
        end = time.monotonic() + CALM
        while time.monotonic() < end or self._busy:
            self._look_after()
            time.sleep(1.0)
        self._say(f"was calm for {CALM:g}s; {self._leader() or 'no pod'} led last")

    # ── drawing ──

    def _draw(self) -> Draw:
        chance = self._random
        names = [each.name for each in self._testbed.candidates]
        families = {"process": 7, "network": 8, "lease": 4, "move": 7, "wrapped": 3, "main": 1}
        families["server"] = 1
        family = chance.choices([*families], [*families.values()])[0]
        luck, targets_leader, index = chance.random(), chance.random() < 0.5, chance.choice(names)
        low, high = chance.choice([(0.1, 1.0), (1.0, FAST_DURATION), (FAST_DURATION, None)])
        seconds = chance.uniform(low, high or MAX_LENGTH * FAST_DURATION)
        if family == "process":
            kind = chance.choice([*sorted(faults.PROCESS), *sorted(restarts.RESTARTS)])
        elif family == "wrapped":
            kind, targets_leader = chance.choice(sorted(restarts.WRAPPED)), False
            index = chance.choice([pod.name for pod in self._testbed.wrapped])
        elif family == "move":
            kind = chance.choice([*sorted(moves.MOVES), moves.FROZEN])
            targets_leader = False
        elif family == "main":
            kind = chance.choice(sorted(moves.MAIN))
        elif family == "network":
            kind = chance.choice([*sorted(faults.NETWORK), "cut-all"])
        elif family == "lease":
            # It applies only where all is calm: drawn more often to happen as often.
            kind = chance.choice([*sorted(faults.LEASE), *[faults.RECREATE] * 3])
            return Draw(kind, "lease", 0.0, luck)
        else:
            return Draw(chance.choice(sorted(faults.SERVER)), "server", seconds, luck)
        return Draw(kind, (self._leader() if targets_leader else "") or index, seconds, luck)

    def _leader(self) -> str:
        answers = self._testbed.observer.answers()
        return answers[-1].pod if answers else ""

    # ── doing ──

    def _begin(self, workers: ThreadPoolExecutor, draw: Draw) -> None:
        if draw.kind == "cut-all":
            kind = sorted(faults.NETWORK)[int(draw.luck * len(faults.NETWORK))]
            for name in self._testbed.links:
                self._begin(workers, Draw(kind, name, draw.seconds, draw.luck))
            return
        super()._begin(workers, draw)

    def _resources(self, draw: Draw) -> set[str]:
        if draw.kind in {*faults.PROCESS, *restarts.RESTARTS, *restarts.WRAPPED}:
            return {f"{draw.target} process"}
        if draw.kind == moves.FROZEN:
            return {moves.SWITCHOVER, f"{draw.target} process"}
        if draw.kind in moves.MOVES:
            return moves.touched(draw.kind)
        if draw.kind in moves.MAIN:
            return {"mains"}
        if draw.kind in faults.NETWORK:
            return {f"{draw.target} network"}
        if draw.kind == faults.RECREATE:
            # A restarted elector knows no holder: it could rightly take the new, empty Lease.
            return {"server", "lease", *(f"{pod.name} process" for pod in self._testbed.fleet.pods)}
        return {"server", "lease"} if draw.target == "lease" else {"server"}

    def _do(self, draw: Draw) -> None:
        try:
            self._strike(draw)
        except OSError as error:
            # Of an administrator's request, which may be applied or not: on a busy machine the API
            # server is silent for seconds. The audit log has it, if it was.
            self._say(f"{draw.kind} {draw.target}: no answer: {error!r}")

    def _strike(self, draw: Draw) -> None:
        if draw.kind == faults.RECREATE:
            faults.recreate(self._testbed, self._known)
            time.sleep(FAST_DURATION)
            return
        every = faults.PROCESS | faults.NETWORK | faults.SERVER | faults.LEASE
        every |= restarts.RESTARTS | restarts.WRAPPED | moves.MAIN | moves.MOVES
        every[moves.FROZEN] = moves.switchover_to_frozen
        with every[draw.kind](self._testbed, draw):
            time.sleep(draw.seconds)

    # ── judging ──

    def _history(self) -> History:
        testbed = self._testbed
        return History(
            [
                event
                for event in testbed.plane.audit(
                    stage=None, resource="leases", namespace=testbed.namespace
                )
                if event.name in (testbed.fleet.lease, "")
            ]
        )

    def _judge(self) -> Verdict:
        rules = Rules(FAST_DURATION, frozenset(self._known))
        answers = self._testbed.observer.answers()
        offset = time.time() - boottime()
        return judge(self._history(), answers, rules, offset=offset, work=self._work())

    def _work(self) -> list[Worked]:
        return [
            Worked(pod.name, beat.token, beat.at)
            for pod in self._testbed.wrapped
            for beat in pod.work(but_after_thaw=AFTER_THAW)
        ]

    def _tell(self, verdict: Verdict, *, left: float) -> None:
        self._say(
            f"{left / 60:.1f} minutes left: {self._counts.total()} faults, {verdict.takeovers} "
            f"acquisitions of ours, {verdict.resumed} by a process that goes on, {verdict.asked} "
            f"asked for by a priority, {len(self._testbed.observer.answers())} 200s, "
            f"{len(verdict.findings)} findings, {verdict.unjudged} unjudged"
        )

    def _end(self) -> Outcome:
        healed_in = None
        # What was asked may have been applied after its fault had ended.
        moves.take_off(self._testbed, moves.SWITCHOVER, moves.HOLD)
        try:
            healed_in = self._testbed.wait_for_leader()
        except AssertionError as error:
            self._complaints.append(str(error))
        for pod in self._testbed.fleet.pods:
            answer = pod.ask("/livez")
            if answer is None or answer.status != 200:
                self._complaints.append(f"/livez of {pod.name}: {answer}")
        verdict, history = self._judge(), self._history()
        tokens = self._testbed.observer.tokens()
        if tokens != sorted(tokens):
            self._complaints.append(f"fencing tokens do not grow: {tokens}")
        changes = transitions(history, without=BOGUS)
        allowed = self._counts.total() + verdict.asked + 2
        if changes > allowed:
            self._complaints.append(f"{changes} transitions, {allowed} are allowed")
        for finding in verdict.findings[:SHOWN]:
            self._say(f"FINDING {finding.at:.3f} {finding.what}")
            for line in history.around(finding.at, before=BEFORE, after=AFTER):
                self._say(f"    {line}")
        if verdict.findings or self._complaints:
            for candidate in self._testbed.candidates:
                self._say(f"log of {candidate.name}:\n{candidate.log_text()}")
        return Outcome(
            verdict,
            self._complaints,
            self._counts,
            changes,
            healed_in,
            len({it.token for it in self._work()}),
        )
