"""GM's and LC's demo from the first process to the summary.

Owns the order: API server, GMs and LCs, steps, summary, end. Guarantees: the verdict counts what
the API's own history shows, not what GMs and LCs logged; all files lie in the folder that the API
server's guardian removes, and all processes are under its guard.
"""

import functools
import tempfile
import time
from contextlib import ExitStack

from tools.demo.cluster import Cluster
from tools.demo.ending import Ending
from tools.demo.keys import Keys
from tools.demo.screen import Glass, Screen, summary_table
from tools.demo.sedna.jobs import Jobs
from tools.demo.sedna.lookout import Lookout
from tools.demo.sedna.scene import Scene, fallen
from tools.demo.sedna.steps import SCRIPT
from tools.demo.sedna.tables import KEYS, picture
from tools.demo.sedna.workload import EXAMPLES, ROUND_SECONDS, ROUNDS, Workload
from tools.demo.show import TERMINAL_PAUSE
from tools.demo.stage import Ended, Stage
from tools.demo.timing import Timing
from tools.harness.controlplane import sedna_kinds
from tools.harness.controlplane.api_server import ApiServer
from tools.harness.pods.course import Course
from tools.harness.pods.edge_node import RELAY
from tools.harness.pods.system import System

GMS = 3
# Seconds for any one thing that is waited for, on a busy machine.
PATIENCE = 60.0


class SednaShow:
    """`mode`: of GM and LC."""

    def __init__(
        self,
        cluster: Cluster,
        timing: Timing,
        ending: Ending,
        *,
        mode: str,
        pause: float | None,
        is_plain: bool,
    ) -> None:
        self._cluster = cluster
        self._timing = timing
        self._ending = ending
        self._mode = mode
        self._glass = Glass(is_plain=is_plain)
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
                scene = self._scene(stack, plane, screen)
                with Keys(self._pressed) as keys:
                    screen.open(lambda: picture(scene), KEYS if keys.is_there else "")
                    self._play(scene)
            # While everything still lives: below the table, which stays as it was last.
            return self._conclude(scene)

    def _scene(self, stack: ExitStack, plane: ApiServer, screen: Screen) -> Scene:
        screen.say("applying Sedna's CRDs, starting GMs and LCs")
        started = time.monotonic()
        sedna_kinds.install(plane)
        system = System(
            plane,
            plane.folder / "nodes",
            mode=self._mode,
            gms=GMS,
            course_of=lambda pod: Course(is_process=True),
            image=EXAMPLES,
            lease_flags=self._timing.flags(),
        )
        stack.enter_context(system)
        screen.say(f"all run, after {time.monotonic() - started:.1f} s")
        killed: set[str] = set()
        # Steps take longer where people look.
        rounds = ROUNDS + round(len(SCRIPT) * self._pause / ROUND_SECONDS)
        return Scene(
            system,
            stack.enter_context(Lookout(system)),
            Workload(system, rounds),
            Jobs(system.witness),
            Stage(
                self._ending,
                screen.say,
                lambda: fallen(system, killed),
                pause=self._pause,
                patience=PATIENCE,
            ),
            killed,
        )

    def _pressed(self, key: str) -> None:
        """In the thread of the keys."""
        if key == "q":
            self._ending.ask()

    def _play(self, scene: Scene) -> None:
        """All steps, unless one fails or somebody asks for the end."""
        try:
            for step in SCRIPT:
                title = step.__name__.replace("_", " ")
                if not scene.stage.perform(title, functools.partial(step, scene)):
                    return
                scene.stage.doing = "next step follows"
                scene.stage.sleep(scene.stage.pause)
        except Ended:
            scene.stage.say("ending")

    def _conclude(self, scene: Scene) -> int:
        """Prints the summary and the verdict."""
        console, witness = self._glass.console, scene.system.witness
        is_early = self._ending.is_asked
        problems = [result for result in scene.stage.results if result.problem]
        lost = [] if is_early else scene.system.unsettled_reports()
        console.print()
        console.print(summary_table(scene.stage.results))
        console.print()
        console.print(
            f"{witness.children} children made, {len(witness.doubled)} of them twice; "
            f"{scene.jobs.reports()} reports, {len(lost)} lost",
            soft_wrap=True,
        )
        is_good = not (problems or witness.doubled or witness.reopened or lost)
        verdict = "nothing lost, nothing doubled" if is_good else "NOT as promised"
        early = ", as far as it was shown" if is_early else ""
        console.print(f"verdict: {verdict}{early}")
        for line in (*witness.doubled, *witness.reopened, *lost):
            console.print(line, soft_wrap=True, markup=False)
        if problems:
            console.print(scene.system.told(), soft_wrap=True, markup=False)
        return 0 if is_good else 1
