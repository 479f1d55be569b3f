"""The demo from the first process to the summary.

Owns the order: API server, pods and edge, steps, summary, end. Guarantee: the verdict counts what
outside observers saw, not what electors logged.
"""

import time
from contextlib import ExitStack
from functools import partial

from edge_sidecars.runtime.cli.values import seconds
from tools.demo.elector.cloud import Cloud
from tools.demo.elector.edge import Edge
from tools.demo.elector.pod import LEASE, Pod
from tools.demo.elector.state import DemoState, fallen, patience
from tools.demo.elector.steps import BY_HAND, SCRIPT
from tools.demo.elector.tables import KEYS, picture
from tools.demo.elector.watcher import Watcher, check_ledger
from tools.demo.environment import Backend, Environment
from tools.demo.keys import Keys
from tools.demo.runner import POLL_INTERVAL, Runner
from tools.demo.screen import Display, Screen, summary_table
from tools.demo.script import Script, Step
from tools.demo.shutdown import Shutdown
from tools.demo.timing import Timing
from tools.harness.controlplane.access.accounts import expect

PODS = 3
# Seconds between steps, for people to look; where nobody looks, none are needed.
TERMINAL_PAUSE = 2.0


class Show:
    def __init__(
        self,
        backend: Backend,
        timing: Timing,
        shutdown: Shutdown,
        *,
        pause: float | None,
        is_plain: bool,
        stays: bool,
    ) -> None:
        self._ground = backend
        self._timing = timing
        self._ending = shutdown
        self._glass = Display(is_plain=is_plain)
        self._console = self._glass.console
        self._stays = stays
        self._pause = pause if pause is not None else TERMINAL_PAUSE * self._glass.is_live

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
                environment = stack.enter_context(self._ground.open())
                state = self._scene(stack, environment, screen)
                screen.say(f"pages: {_pages(state)}")
                script = _script(state)
                with Keys(script.pressed) as keys:
                    screen.open(lambda: picture(state), KEYS if keys.is_there else "")
                    script.play(has_keys=keys.is_there)
            # While the pods still live: below the table, which stays as it was last.
            status = self._conclude(state)
            if self._stays and not self._ending.is_asked:
                self._stay(state)
            return status

    def _stay(self, state: DemoState) -> None:
        """Until a signal."""
        pages = _pages(state)
        self._console.print(f"pages stay open until Ctrl-C: {pages}", soft_wrap=True)
        while not self._ending.is_asked:
            time.sleep(POLL_INTERVAL)

    def _scene(self, stack: ExitStack, environment: Environment, screen: Screen) -> DemoState:
        plane = environment.plane
        namespace = plane.create_namespace("demo")
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        expect(plane.admin.post(leases, {**lease, "metadata": {"name": LEASE}}))
        names = [f"pod-{number}" for number in range(PODS)]
        pods = [Pod(name, environment.pod(name, namespace, self._timing)) for name in names]
        cloud = Cloud(plane, namespace)
        cloud.publish()
        edge = stack.enter_context(Edge(environment.edge(namespace), namespace))
        watcher = stack.enter_context(Watcher(pods))
        runner = Runner(
            self._ending,
            screen.say,
            lambda: fallen(pods, edge),
            pause=self._pause,
            patience=patience(seconds(self._timing.lease_duration)),
        )
        return DemoState(pods, watcher, edge, cloud, environment.ledger, runner)

    def _conclude(self, state: DemoState) -> int:
        """Prints the summary and the verdict."""
        overlaps = state.watcher.overlaps()
        answers = state.watcher.answers()
        units, terms, late = check_ledger(state.ledger)
        self._console.print()
        self._console.print(summary_table(state.runner.results))
        self._console.print()
        observed = len({ready.token for ready in answers})
        self._console.print(
            f"{len(answers)} answers 200 of {observed} terms, {len(overlaps)} of them while a "
            f"newer term led; {units} units of work in {terms} terms, {late} out of order",
            soft_wrap=True,
        )
        problems = [result for result in state.runner.results if result.problem]
        is_good = not (problems or overlaps or late)
        if overlaps:
            self._console.print(f"two leaders at once: {overlaps[0]}", soft_wrap=True)
        verdict = "exactly one leader at a time" if is_good else "NOT as promised"
        early = ", as far as it was shown" if state.runner.shutdown.is_asked else ""
        self._console.print(f"verdict: {verdict}{early}")
        if problems:
            tails = {pod.name: pod.log_tail() for pod in state.pods}
            for name, tail in (tails | {"edge": state.edge.log_tail()}).items():
                if tail:
                    self._console.print(f"{name}:", *tail, sep="\n  ", soft_wrap=True)
        return 0 if is_good else 1


def _pages(state: DemoState) -> str:
    return " ".join((*(pod.page for pod in state.pods), state.edge.page))


def _script(state: DemoState) -> Script:
    steps = [Step(step.__name__.replace("_", " "), partial(step, state)) for step in SCRIPT]
    by_hand = {key: Step(title, partial(step, state)) for key, (title, step) in BY_HAND.items()}
    return Script(state.runner, steps, by_hand)
