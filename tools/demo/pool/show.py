"""The demo of a pool from the first process to the summary.

Owns the order: control plane, site, steps, summary, end. Guarantees: the verdict counts what the
API says of nodes and pods, and its audit log, not what members logged; all files lie in the folder
that the control plane's guardian removes, and all processes are under its guard.
"""

import tempfile
import time
from contextlib import ExitStack
from functools import partial

from tools.demo.elector.show import TERMINAL_PAUSE
from tools.demo.keys import Keys
from tools.demo.pool.edge_site import NAMES, OUTSIDE, Site
from tools.demo.pool.observer import Observer
from tools.demo.pool.pods import Pods
from tools.demo.pool.state import PoolState
from tools.demo.pool.steps import BY_HAND, SCRIPT
from tools.demo.pool.tables import KEYS, picture
from tools.demo.runner import Runner
from tools.demo.screen import Display, Screen, summary_table
from tools.demo.script import Script, Step
from tools.demo.shutdown import Shutdown
from tools.demo.timing import Timing
from tools.harness.controlplane.cluster import ControlPlane

# Seconds for any one thing that is waited for: a node is judged dead in one minute, on a busy
# machine in two.
PATIENCE = 120.0


class PoolShow:
    """`title`: of the control plane; `timing`: of the pool's Lease."""

    def __init__(
        self,
        title: str,
        timing: Timing,
        shutdown: Shutdown,
        *,
        pause: float | None,
        is_plain: bool,
    ) -> None:
        self._title = title
        self._timing = timing
        self._ending = shutdown
        self._glass = Display(is_plain=is_plain)
        self._pause = pause if pause is not None else TERMINAL_PAUSE * self._glass.is_live

    def run(self) -> int:
        """The exit status: 0 if everything went as promised."""
        screen = self._glass.screen(
            f"{self._title}, pool: {len(NAMES)} nodes (member + relay), {len(OUTSIDE)} outside, "
            f"lease {self._timing.lease_duration}"
        )
        with ExitStack() as stack:
            with screen:
                screen.say(f"starting {self._title}")
                self._ending.note_signals()
                plane = stack.enter_context(ControlPlane(has_nodes=True))
                # What a demo that was killed leaves is removed with the plane's folder.
                stack.callback(setattr, tempfile, "tempdir", tempfile.tempdir)
                tempfile.tempdir = str(plane.folder)
                state = self._scene(stack, plane, screen)
                script = _script(state)
                with Keys(script.pressed) as keys:
                    screen.open(partial(picture, state), KEYS if keys.is_there else "")
                    script.play(has_keys=keys.is_there)
            # While everything still lives: below the table, which stays as it was last.
            return self._conclude(state)

    def _scene(self, stack: ExitStack, plane: ControlPlane, screen: Screen) -> PoolState:
        started = time.monotonic()
        site = stack.enter_context(Site(plane, self._timing, screen.say))
        pods = stack.enter_context(Pods(plane, site.nodes))
        observer = stack.enter_context(Observer(site, screen.say))
        screen.say(f"all run, after {time.monotonic() - started:.1f} s")
        runner = Runner(self._ending, screen.say, site.fallen, pause=self._pause, patience=PATIENCE)
        return PoolState(site, pods, observer, runner)

    def _conclude(self, state: PoolState) -> int:
        """Prints the summary and the verdict."""
        console, results = self._glass.console, state.runner.results
        console.print()
        console.print(summary_table(results))
        console.print()
        renewals, foreign = state.renewals()
        gone = state.pods.evicted(shop=True)
        console.print(
            f"{renewals} renewals of Leases, {foreign} by another one than the node; pods of the "
            f"shop that were evicted: {len(gone)}, from a node that lived: "
            f"{sum(it.node not in state.killed for it in gone)}",
            soft_wrap=True,
        )
        problems = [result for result in results if result.problem]
        broken = list(state.broken())
        is_good = not (problems or broken)
        verdict = "cut is not dead, dead is not kept" if is_good else "NOT as promised"
        early = ", as far as it was shown" if state.runner.shutdown.is_asked else ""
        console.print(f"verdict: {verdict}{early}")
        for line in broken:
            console.print(line, soft_wrap=True, markup=False)
        if problems:
            for name, tail in state.site.log_tails().items():
                console.print(f"{name}:", *tail, sep="\n  ", soft_wrap=True, markup=False)
        return 0 if is_good else 1


def _script(state: PoolState) -> Script:
    steps = [Step(step.__name__.replace("_", " "), partial(step, state)) for step in SCRIPT]
    by_hand = {key: Step(title, partial(step, state)) for key, (title, step) in BY_HAND.items()}
    return Script(state.runner, steps, by_hand)
