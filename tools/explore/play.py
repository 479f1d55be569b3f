"""A schedule as text, and run again: what an exploration found becomes a test.

    play(single(faults=2), {3: ["pod-0 freezes for 5 steps"], 4: ["pod-1 resigns, …"]})

runs that very schedule, and raises `Broken` where a promise does not hold.
"""

from collections.abc import Mapping, Sequence

from tools.explore.actors.actor import Broken
from tools.explore.choices import Script
from tools.explore.search import Config, Violation
from tools.explore.state import State


def play(config: Config, schedule: Mapping[int, Sequence[str]]) -> State:
    """Runs the choices of each step, and everything else by default, for `config.bound` steps after
    the last one and until no fault is under way and somebody leads; raises `Broken`, and ValueError
    for a choice that its step does not offer."""
    state = config.begin()
    last = max(schedule, default=0)
    calm_for = 0
    while True:
        script = Script(schedule.get(state.step, ()))
        step = state.step
        state.advance(script, config.pace)
        if script.unused:
            raise ValueError(f"step {step} does not offer {script.unused[0]!r}")
        if step < last + config.bound or not state.is_calm():
            continue
        if state.is_done(config.pace):
            return state
        calm_for += 1
        if calm_for > config.bound:
            raise Broken(f"{state.wanted} for {calm_for} steps without a fault")


def as_test(violation: Violation, *, config: str) -> str:
    """Python that plays it; `config` is the call that makes the configuration."""
    lines = [
        "def test_play() -> None:",
        f"    # {violation.what}",
        "    play(",
        f"        {config},",
    ]
    lines.append("        {")
    for step, labels in enumerate(violation.schedule, violation.first):
        if labels:
            said = ", ".join(f'"{label}"' for label in labels)
            lines.append(f"            {step}: [{said}],")
    return "\n".join([*lines, "        },", "    )"])
