"""The demo from the first process to the summary.

Owns the order: API server, pods and edge, steps, summary, end. Steps asked for by key come
between those of the script. Guarantee: the verdict counts what outside observers saw, not what
electors logged.
"""

import queue
import time
from collections import deque
from contextlib import ExitStack

from edge_sidecars.runtime.values import seconds
from tools.demo.cloud import Cloud
from tools.demo.edge import Edge
from tools.demo.ending import Ending
from tools.demo.keys import Keys
from tools.demo.place import Ground, Place
from tools.demo.pod import LEASE, Pod
from tools.demo.scene import Scene, fallen, patience
from tools.demo.screen import Glass, Screen, summary_table
from tools.demo.stage import Ended, Stage
from tools.demo.steps import BY_HAND, SCRIPT, Step
from tools.demo.tables import KEYS, picture
from tools.demo.timing import Timing
from tools.demo.watcher import Watcher, check_ledger
from tools.harness.controlplane.accounts import expect

PODS = 3
# Seconds between steps, for people to look; where nobody looks, none are needed.
TERMINAL_PAUSE = 2.0
# Seconds after the last step in which a key prolongs the demo.
LAST_CALL = 15.0


class Show:
    def __init__(
        self,
        ground: Ground,
        timing: Timing,
        ending: Ending,
        *,
        pause: float | None,
        is_plain: bool,
    ) -> None:
        self._ground = ground
        self._timing = timing
        self._ending = ending
        self._glass = Glass(is_plain=is_plain)
        self._console = self._glass.console
        self._pause = pause if pause is not None else TERMINAL_PAUSE * self._glass.is_live
        self._asked: queue.SimpleQueue[str] = queue.SimpleQueue()

    def run(self) -> int:
        """The exit status: 0 if everything went as promised."""
        headline = (
            f"{self._ground.title}: {PODS} pods (main + elector), 1 edge node (relay), "
            f"lease {self._timing.lease_duration}"
        )
        screen = self._glass.screen(headline)
        with ExitStack() as stack:
            with screen:
                screen.say(f"starting {self._ground.title}")
                self._ending.note_signals()
                place = stack.enter_context(self._ground.open())
                scene = self._scene(stack, place, screen)
                with Keys(lambda key: self._pressed(scene, key)) as keys:
                    screen.open(lambda: picture(scene), KEYS if keys.is_there else "")
                    self._play(scene, has_keys=keys.is_there)
            # While the pods still live: below the table, which stays as it was last.
            return self._conclude(scene)

    def _scene(self, stack: ExitStack, place: Place, screen: Screen) -> Scene:
        plane = place.plane
        namespace = plane.create_namespace("demo")
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        expect(plane.admin.post(leases, {**lease, "metadata": {"name": LEASE}}))
        names = [f"pod-{number}" for number in range(PODS)]
        pods = [Pod(name, place.pod(name, namespace, self._timing)) for name in names]
        cloud = Cloud(plane, namespace)
        cloud.publish()
        edge = stack.enter_context(Edge(place.edge(namespace), namespace))
        watcher = stack.enter_context(Watcher(pods))
        stage = Stage(
            self._ending,
            screen.say,
            lambda: fallen(pods, edge),
            pause=self._pause,
            patience=patience(seconds(self._timing.lease_duration)),
        )
        return Scene(pods, watcher, edge, cloud, place.ledger, stage)

    def _pressed(self, scene: Scene, key: str) -> None:
        """In the thread of the keys."""
        if key == "q":
            scene.stage.ending.ask()
        elif key in BY_HAND:
            scene.stage.say(f"next: {BY_HAND[key][0]}")
            self._asked.put(key)

    def _play(self, scene: Scene, *, has_keys: bool) -> None:
        """All steps, unless one fails or somebody asks for the end."""
        script: deque[Step] = deque(SCRIPT)
        try:
            while script or (has_keys and self._wait_for_key(scene)):
                if scene.stage.results and not self._asked.empty():
                    script.appendleft(BY_HAND[self._asked.get()][1])
                if not self._perform(scene, script.popleft()):
                    return
                scene.stage.doing = "next step follows"
                scene.stage.sleep(scene.stage.pause)
        except Ended:
            scene.stage.say("ending")

    def _wait_for_key(self, scene: Scene) -> bool:
        deadline = time.monotonic() + LAST_CALL
        scene.stage.say("press a key to go on by hand")
        while self._asked.empty():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            scene.stage.doing = f"done; the demo ends in {left:.0f} s unless a key is pressed"
            scene.stage.sleep(0.1)
        return True

    def _perform(self, scene: Scene, step: Step) -> bool:
        """Whether it went as promised."""
        return scene.stage.perform(step.__name__.replace("_", " "), lambda: step(scene))

    def _conclude(self, scene: Scene) -> int:
        """Prints the summary and the verdict."""
        overlaps = scene.watcher.overlaps()
        answers = scene.watcher.answers()
        units, terms, late = check_ledger(scene.ledger)
        self._console.print()
        self._console.print(summary_table(scene.stage.results))
        self._console.print()
        observed = len({ready.token for ready in answers})
        self._console.print(
            f"{len(answers)} answers 200 of {observed} terms, {len(overlaps)} of them while a "
            f"newer term led; {units} units of work in {terms} terms, {late} out of order",
            soft_wrap=True,
        )
        problems = [result for result in scene.stage.results if result.problem]
        is_good = not (problems or overlaps or late)
        if overlaps:
            self._console.print(f"two leaders at once: {overlaps[0]}", soft_wrap=True)
        verdict = "exactly one leader at a time" if is_good else "NOT as promised"
        early = ", as far as it was shown" if scene.stage.ending.is_asked else ""
        self._console.print(f"verdict: {verdict}{early}")
        if problems:
            tails = {pod.name: pod.log_tail() for pod in scene.pods}
            for name, tail in (tails | {"edge": scene.edge.log_tail()}).items():
                if tail:
                    self._console.print(f"{name}:", *tail, sep="\n  ", soft_wrap=True)
        return 0 if is_good else 1
