"""GM's and LC's demo from the first process to the summary.

Owns the order: API server, GMs and LCs, steps, summary, end. Guarantees: the verdict counts what
the API's own history shows, not what GMs and LCs logged; all files lie in the folder that the API
server's guardian removes, and all processes are under its guard.
"""

import tempfile
import time
from contextlib import ExitStack

from tools.demo.cluster import Cluster
from tools.demo.elector.show import TERMINAL_PAUSE
from tools.demo.keys import Keys
from tools.demo.runner import Ended, Runner
from tools.demo.screen import Display, Screen, summary_table
from tools.demo.sedna.jobs import Jobs
from tools.demo.sedna.scenario import SCENARIOS, Scenario, Story
from tools.demo.sedna.state import SednaState, fallen
from tools.demo.sedna.status_poller import StatusPoller
from tools.demo.sedna.tables import KEYS
from tools.demo.sedna.workload import EXAMPLES, ROUND_SECONDS, Workload
from tools.demo.shutdown import Shutdown
from tools.demo.timing import Timing
from tools.harness.controlplane.api_server import ApiServer
from tools.harness.controlplane.schemas import sedna_kinds
from tools.harness.pods.edge_node import RELAY
from tools.harness.pods.system import System

GMS = 3
# Seconds for any one thing that is waited for, on a busy machine.
PATIENCE = 60.0


class SednaShow:
    """`mode`: one of `SCENARIOS`."""

    def __init__(
        self,
        cluster: Cluster,
        timing: Timing,
        shutdown: Shutdown,
        *,
        mode: str,
        pause: float | None,
        is_plain: bool,
    ) -> None:
        self._cluster = cluster
        self._timing = timing
        self._ending = shutdown
        self._mode = mode
        self._scenario: Scenario = SCENARIOS[mode]
        self._glass = Display(is_plain=is_plain)
        self._pause = pause if pause is not None else TERMINAL_PAUSE * self._glass.is_live

    def run(self) -> int:
        """The exit status: 0 if everything went as promised."""
        lc = "lc + relay" if self._mode == RELAY else "lc"
        screen = self._glass.screen(
            f"{self._cluster.title}, {self._mode}: {GMS} pods (gm + elector + relay), "
            f"2 edges ({lc}), lease {self._timing.lease_duration}"
        )
        with ExitStack() as stack:
            with screen:
                screen.say(f"starting {self._cluster.title}")
                self._ending.note_signals()
                plane = stack.enter_context(self._cluster.make())
                # What a demo that was killed leaves is removed with the plane's folder.
                stack.callback(setattr, tempfile, "tempdir", tempfile.tempdir)
                tempfile.tempdir = str(plane.folder)
                state = self._scene(stack, plane, screen)
                story = self._scenario.begin(state, stack)
                with Keys(self._pressed) as keys:
                    screen.open(story.draw, KEYS if keys.is_there else "")
                    self._play(state, story)
            # While everything still lives: below the table, which stays as it was last.
            return self._conclude(state, story)

    def _scene(self, stack: ExitStack, plane: ApiServer, screen: Screen) -> SednaState:
        screen.say("applying Sedna's CRDs, starting GMs and LCs")
        started = time.monotonic()
        sedna_kinds.install(plane)
        system = System(
            plane,
            plane.folder / "nodes",
            mode=self._scenario.mode,
            gms=GMS + self._scenario.spares,
            plan_of=self._scenario.plan_of,
            image=EXAMPLES,
            lease_flags=(*self._timing.flags(), *self._scenario.elector_flags),
            gm_flags=self._scenario.gm_flags,
            spares=self._scenario.spares,
        )
        stack.enter_context(system)
        screen.say(f"all run, after {time.monotonic() - started:.1f} s")
        absent = {pod.name for pod in system.gms[GMS:]}
        # Steps take longer where people look.
        pauses = round(self._scenario.steps * self._pause / ROUND_SECONDS)
        return SednaState(
            system,
            stack.enter_context(StatusPoller(system)),
            Workload(system, self._scenario.rounds + pauses),
            Jobs(system.api_observer),
            Runner(
                self._ending,
                screen.say,
                lambda: fallen(system, absent),
                pause=self._pause,
                patience=PATIENCE,
            ),
            absent,
        )

    def _pressed(self, key: str) -> None:
        """In the thread of the keys."""
        if key == "q":
            self._ending.ask()

    def _play(self, state: SednaState, story: Story) -> None:
        """All steps, unless one fails or somebody asks for the end."""
        try:
            for title, step in story.steps:
                if not state.runner.perform(title, step):
                    return
                state.runner.doing = "next step follows"
                state.runner.sleep(state.runner.pause)
        except Ended:
            state.runner.say("ending")

    def _conclude(self, state: SednaState, story: Story) -> int:
        """Prints the summary and the verdict."""
        console, api_observer = self._glass.console, state.system.api_observer
        is_early = self._ending.is_asked
        problems = [result for result in state.runner.results if result.problem]
        lost = [] if is_early else state.system.unsettled_reports()
        console.print()
        console.print(summary_table(state.runner.results))
        console.print()
        console.print(
            f"{api_observer.children} children made, {len(api_observer.doubled)} of them twice; "
            f"{state.jobs.reports()} reports, {len(lost)} lost",
            soft_wrap=True,
        )
        broken = [*api_observer.doubled, *api_observer.reopened, *lost, *story.broken()]
        if story.seen:
            console.print(story.seen(), soft_wrap=True)
        is_good = not (problems or broken)
        verdict = "nothing lost, nothing doubled" if is_good else "NOT as promised"
        early = ", as far as it was shown" if is_early else ""
        console.print(f"verdict: {verdict}{early}")
        for line in broken:
            console.print(line, soft_wrap=True, markup=False)
        if problems:
            console.print(state.system.told(), soft_wrap=True, markup=False)
        return 0 if is_good else 1
