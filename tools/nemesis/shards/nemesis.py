"""Random faults upon electors with shards, judged by an observer that stands outside.

A finding is a shard with two owners (S1). After all faults are over every shard is owned again, in
even shares (S2, S3), and then nothing moves (S4).
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tools.harness.peers.shard_observer import TwoOwners
from tools.harness.pods.fleet import FAST_DURATION
from tools.nemesis.elector import faults
from tools.nemesis.elector.faults import Draw
from tools.nemesis.elector.nemesis import GROUP_SIZES, JUDGE_INTERVAL, MAX_LENGTH, MAX_PAUSE
from tools.nemesis.elector.testbed import Candidate
from tools.nemesis.ordeal import Ordeal
from tools.nemesis.shards.faults import EDITS, Administrator
from tools.nemesis.shards.testbed import CALM, ShardTestbed


@dataclass(frozen=True)
class Outcome:
    """`terms`: how many acquisitions of a shard were seen, in so many answers."""

    findings: list[TwoOwners]
    complaints: list[str]
    counts: Counter[str]
    terms: int
    answers: int
    healed_in: float | None

    @property
    def faults(self) -> int:
        return self.counts.total()

    @property
    def is_good(self) -> bool:
        return not self.findings and not self.complaints


class ShardNemesis(Ordeal):
    def __init__(self, testbed: ShardTestbed, *, seed: int, say: Callable[[str], None]) -> None:
        super().__init__(seed=seed, say=say)
        self._testbed = testbed
        self._administrator = Administrator(testbed)

    @property
    def _candidates(self) -> Sequence[Candidate]:
        return self._testbed.candidates

    def run(self, seconds: float) -> Outcome:
        """Fails fast: the first finding ends it."""
        self._testbed.wait_even()
        end = time.monotonic() + seconds
        judge_at = time.monotonic() + JUDGE_INTERVAL
        findings: list[TwoOwners] = []
        with ThreadPoolExecutor(max_workers=16) as workers:
            while time.monotonic() < end and not self._complaints and not findings:
                time.sleep(self._random.random() * MAX_PAUSE)
                for draw in self._group():
                    self._begin(workers, draw)
                self._look_after()
                if time.monotonic() >= judge_at:
                    judge_at += JUDGE_INTERVAL
                    findings = self._testbed.observer.two_owners()
                    self._say(
                        f"{(end - time.monotonic()) / 60:.1f} minutes left: "
                        f"{self._counts.total()} faults, {len(findings)} findings"
                    )
        self._look_after()
        return self._end()

    # ── drawing ──

    def _group(self) -> list[Draw]:
        return [each for _ in range(self._random.choice(GROUP_SIZES)) for each in self._draw()]

    def _draw(self) -> list[Draw]:
        chance, names = self._random, [pod.name for pod in self._testbed.candidates]
        family = chance.choices(["process", "network", "edit", "server"], [7, 8, 6, 1])[0]
        luck, target = chance.random(), chance.choice(names)
        low, high = chance.choice([(0.1, 1.0), (1.0, FAST_DURATION), (FAST_DURATION, None)])
        seconds = chance.uniform(low, high or MAX_LENGTH * FAST_DURATION)
        if family == "process":
            return [Draw(chance.choice(sorted(faults.PROCESS)), target, seconds, luck)]
        if family == "network":
            kind, is_all = chance.choice(sorted(faults.NETWORK)), chance.random() < 0.2
            return [Draw(kind, name, seconds, luck) for name in (names if is_all else [target])]
        if family == "server":
            return [Draw(chance.choice(sorted(faults.SERVER)), "server", seconds, luck)]
        what, how = chance.choice(["table", "member"]), chance.choice(sorted(EDITS))
        return [Draw(f"{what} {how}", f"{self._testbed.fleet.lease}-{target}", 0.0, luck)]

    # ── doing ──

    def _resources(self, draw: Draw) -> set[str]:
        if draw.kind in faults.PROCESS:
            return {f"{draw.target} process"}
        if draw.kind in faults.NETWORK:
            return {f"{draw.target} network"}
        return {"server"}

    def _do(self, draw: Draw) -> None:
        struck = faults.PROCESS | faults.NETWORK | faults.SERVER
        if draw.kind not in struck:
            self._administrator.edit(draw)
            self._administrator.take_copies()
            return
        with struck[draw.kind](self._testbed, draw):
            time.sleep(draw.seconds)

    # ── judging ──

    def _end(self) -> Outcome:
        healed_in = None
        try:
            healed_in = self._testbed.wait_even()
            before = self._testbed.shares()
            time.sleep(CALM)
            if self._testbed.shares() != before:
                self._complaints.append(f"moved at rest: {before} to {self._testbed.shares()}")
        except AssertionError as error:
            self._complaints.append(f"{error}; {self._testbed.shares()}")
        for pod in self._testbed.candidates:
            if "Traceback" in pod.log_text():
                self._complaints.append(f"{pod.name} raised: {pod.log_text()}")
        observer = self._testbed.observer
        findings, terms = observer.two_owners(), len(observer.spans())
        for finding in findings:
            self._say(f"FINDING two owners for {finding.seconds:.3f}s: {finding}")
        if findings or self._complaints:
            for pod in self._testbed.candidates:
                self._say(f"log of {pod.name}:\n{pod.log_text()}")
        return Outcome(findings, self._complaints, self._counts, terms, observer.answers, healed_in)
