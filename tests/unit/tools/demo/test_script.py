"""Steps of a script come in order, those by key between them, and none after a failure or `q`."""

from collections.abc import Callable

from tools.demo.runner import Failed, Result, Runner
from tools.demo.script import Script, Step
from tools.demo.shutdown import Shutdown


class Played:
    """What was done; `events` of a step happen in it."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.runner = Runner(Shutdown(), lambda text: None, lambda: "", pause=0.0, patience=1.0)

    def step(self, title: str, *events: Callable[[], None]) -> Step:
        def run() -> None:
            self.done.append(title)
            for event in events:
                event()
            self.runner.note(Result(title, ""))

        return Step(title, run)


def test_a_key_brings_its_step_before_the_next_one_of_the_script() -> None:
    played = Played()
    by_hand = {"k": played.step("kill")}
    script = Script(
        played.runner,
        [played.step("one", lambda: script.pressed("k")), played.step("two")],
        by_hand,
    )
    script.play(has_keys=False)
    assert played.done == ["one", "kill", "two"]


def test_a_key_that_comes_before_anything_runs_waits_for_the_first_step() -> None:
    played = Played()
    script = Script(played.runner, [played.step("one")], {"k": played.step("kill")})
    script.pressed("k")
    script.pressed("?")
    script.play(has_keys=False)
    assert played.done == ["one"]


def test_nothing_follows_a_step_that_failed() -> None:
    played = Played()

    def fail() -> None:
        raise Failed("no")

    script = Script(played.runner, [played.step("one", fail), played.step("two")], {})
    script.play(has_keys=False)
    assert played.done == ["one"]
    assert [it.problem for it in played.runner.results] == ["no"]


def test_q_ends_it_between_two_steps() -> None:
    played = Played()
    script = Script(
        played.runner,
        [played.step("one", lambda: script.pressed("q")), played.step("two")],
        {},
    )
    script.play(has_keys=False)
    assert played.done == ["one"]
    assert played.runner.shutdown.is_asked
