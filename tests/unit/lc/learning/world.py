"""A node, its data, GM and workers in virtual time; LC may be killed between any two effects.

What is on disk and in the database survives; what the process knew does not. Lines of the dataset
are numbers, so that each can be found again, once, wherever it went.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from lc.core.learning.commands import (
    Advance,
    Body,
    Command,
    Gather,
    LoopPace,
    Task,
    WriteSamples,
)
from lc.core.learning.job import Job
from lc.core.learning.next_command import next_command
from lc.core.learning.outcome import Heard, hear
from lc.core.learning.samples import Segment, for_training, opened
from lc.core.learning.state import Event, Gathered, State
from lc.core.worker_info import WorkerInfo
from tests.unit.lc.learning.jobs import condition, document, known, later

EVERY = {"condition": {"operator": ">=", "threshold": 3, "metric": "num_of_samples"}}
NEXT = {"Train": "Eval", "Eval": "Deploy", "Deploy": "Train"}
PRECISIONS = {"better": ([0.9], [0.5]), "worse": ([0.5], [0.9])}


class Killed(Exception):
    """LC, at this effect."""


@dataclass
class World:
    """`kill_at`: how many effects are left until LC is killed."""

    data: list[int] = field(default_factory=list)
    spool: dict[str, list[int]] = field(default_factory=dict)
    files: dict[str, list[int]] = field(default_factory=dict)
    saved: bytes | None = None
    queue: list[Body] = field(default_factory=list)
    conditions: list[dict[str, Any]] = field(
        default_factory=lambda: [condition("Train", "Waiting", 1)]
    )
    seconds: float = 0
    kill_at: int | None = None
    kills: int = 0
    pace: LoopPace = field(default_factory=LoopPace)
    # What each Ready told that lies there: (stage, round) -> the lines then.
    begun: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    succeeded: set[int] = field(default_factory=set)

    # ── LC ──

    def lc(self) -> None:
        """Works until it has nothing to do, or is killed; then it starts again, later."""
        try:
            while self._works():
                pass
        except Killed:
            self.kills += 1
            self.kill_at = None
            self.pace = LoopPace()

    def worker(self, stage: str, status: str, results: tuple[dict[str, Any], ...]) -> None:
        """As often as it must until it is answered: Sedna's library tries again."""
        info = WorkerInfo(
            name=f"il1-{stage.lower()}-{self.round}-0",
            namespace="shop",
            owner_name="il1",
            owner_kind="incrementallearningjob",
            kind=stage.lower(),
            status=status,
            results=results,
        )
        for _ in range(2):
            state = State.decode(self.saved)
            heard = hear(self.job, state, info)
            if not isinstance(heard, Heard):
                return
            try:
                self._save(state, heard.event, heard.report)
            except Killed:
                self.kills += 1
                self.kill_at = None
                self.pace = LoopPace()
            else:
                if (stage, status) == ("Train", "completed"):
                    self.succeeded.add(heard.event.worker.round)
                return

    @property
    def job(self) -> Job:
        return Job.parse("incrementallearningjob", self.manifest())

    def manifest(self) -> dict[str, Any]:
        """As the API has it."""
        return document(*self.conditions, train=EVERY)

    @property
    def now(self) -> datetime:
        return later(self.seconds)

    def _works(self) -> bool:
        state = State.decode(self.saved)
        command: Command = next_command(self.job, state, known(), pace=self.pace, now=self.now)
        match command:
            case Gather():
                self._save_if_new(state, self._gather(command))
                self.pace = replace(self.pace, gathered=self.now)
            case Advance(event, _, report, tasks):
                for task in tasks:
                    self._perform(task)
                self._save(state, event, report)
            case _:
                return False
        self._tidy()
        return True

    def _effect(self, do: Callable[[], None]) -> None:
        if self.kill_at is not None:
            if self.kill_at == 0:
                raise Killed
            self.kill_at -= 1
        do()

    def _gather(self, command: Gather) -> Gathered:
        start = command.cursor.offset
        new = self.data[start:]
        cursor = replace(command.cursor, offset=len(self.data))
        border = for_training(
            len(new), before=command.gathered, probability=command.train_probability
        )
        train = self._append(command.train, f"{command.named}.train", new[:border])
        evaluation = self._append(command.evaluation, f"{command.named}.eval", new[border:])
        return Gathered(cursor, len(new), train, evaluation)

    def _append(self, waiting: tuple[Segment, ...], name: str, new: list[int]) -> Segment | None:
        if not new:
            return None
        segment = opened(waiting, "", name=name)

        def write() -> None:
            before = self.spool.get(segment.name, [])[: segment.size]
            assert len(before) == segment.size, "samples are missing"
            self.spool[segment.name] = before + new

        self._effect(write)
        grown = segment.size + len(new)
        return replace(segment, samples=grown, size=grown)

    def _perform(self, task: Task) -> None:
        if isinstance(task, WriteSamples):
            lines = [*self._lines(task.segments)]
            self._effect(lambda: self.files.update({task.target.url: lines}))
        else:
            self._effect(lambda: None)

    def _lines(self, segments: tuple[Segment, ...]) -> Iterator[int]:
        for segment in segments:
            held = self.spool[segment.name][: segment.size]
            assert len(held) == segment.size, "samples are missing"
            yield from held

    def _save_if_new(self, state: State, event: Gathered) -> None:
        if event.samples or event.cursor != state.cursor:
            self._save(state, event, None)

    def _save(self, state: State, event: Event, report: Body | None) -> None:
        """State and report, both or neither."""

        def write() -> None:
            self.saved = state.after(event).encode()
            if report is not None:
                self._note_begun(report)
                self.queue.append(report)

        self._effect(write)

    def _tidy(self) -> None:
        kept = State.decode(self.saved).spool_files

        def remove() -> None:
            self.spool = {name: lines for name, lines in self.spool.items() if name in kept}

        self._effect(remove)

    # ── GM and workers ──

    @property
    def round(self) -> int:
        return int(self.conditions[-1]["round"])

    def gm(self) -> None:
        """Folds what waits for it, in order; a report of another stage or round is refused."""
        while self.queue:
            self._fold(self.queue.pop(0))

    def work(self, *, success: bool, better: bool) -> None:
        """The stage's pod, if there is one, comes to its end."""
        last = self.conditions[-1]
        if last["type"] != "Ready" or last["stage"] == "Deploy":
            return
        stage = last["stage"]
        model = {"format": "pb", "url": f"/srv/out/train/{self.round}/model.pb"}
        results: tuple[dict[str, Any], ...] = (model,)
        if stage == "Eval":
            new, old = PRECISIONS["better" if better else "worse"]
            results = tuple(model | {"metrics": {"precision": each}} for each in (new, old))
        self.worker(stage, "completed" if success else "failed", results if success else ())

    def _fold(self, report: Body) -> None:
        last = self.conditions[-1]
        stage, status, number = report["phase"], str(report["status"]), report["round"]
        if (stage, number) != (last["stage"], last["round"]):
            return
        if status == "Ready" and last["type"] != "Waiting":
            return
        data = {"output": report["output"]} if "output" in report else None
        self.conditions.append(condition(str(stage), status, self.round, data=data))
        if status == "Ready" and stage != "Deploy":
            return
        if status == "Failed":
            self.conditions.append(condition("Train", "Waiting", self.round + 1))
            return
        following = NEXT[str(stage)]
        number = self.round + (following == "Train")
        self.conditions.append(condition(following, "Waiting", number))

    def _note_begun(self, report: Body) -> None:
        stage, number = str(report["phase"]), report["round"]
        if report["status"] != "Ready":
            return
        assert isinstance(number, int)
        assert (stage, number) not in self.begun, f"{stage} of round {number} is begun twice"
        given = report["input"]
        assert isinstance(given, dict)
        self.begun[stage, number] = list(self.files.get(str(given.get("dataURL")), []))

    # ── what must be true ──

    def check(self) -> None:
        """Every sample that was taken is in one place, and in one only."""
        state = State.decode(self.saved)
        waiting = [*self._lines(state.train)]
        lent = [*self._lines(state.lent.segments)] if state.lent else []
        training = waiting + lent + self._used(state)
        kept = [*self._lines(tuple(each for some in state.versions for each in some.segments))]
        judging = [*self._lines(state.fresh), *kept]
        assert len(training) == len(set(training)), "a sample trains twice"
        assert len(judging) == len(set(judging)), "a sample judges twice at once"
        # Versions leave in the end, after they were in a file of a round.
        judged = {line for (stage, _), on in self.begun.items() if stage == "Eval" for line in on}
        ever = {*judging, *judged}
        assert not ever & {*training}, "a sample trains and judges"
        assert ever | {*training} == {*self.data[: state.gathered]}, "a sample is lost"

    def _used(self, state: State) -> list[int]:
        """By trainings that succeeded; until that is saved, the samples are lent."""
        lent = state.lent.round if state.lent is not None else 0
        return [line for it in self.succeeded - {lent} for line in self.begun["Train", it]]
