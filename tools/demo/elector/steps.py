"""What happens in the demo, one function per step, each with what it must show.

Guarantees: a step begins with all pods up and one leader, and ends so; it notes what an observer
outside of the pods measures. Raises `Failed` where its promise was not kept.
"""

from collections.abc import Callable

from tools.demo.elector.outage import outage
from tools.demo.elector.pod import Pod
from tools.demo.elector.state import DemoState
from tools.demo.runner import Failed, Result
from tools.harness.controlplane.clients.answer import boottime
from tools.harness.pods.observers.observer import Ready

Step = Callable[[DemoState], None]


def elect(state: DemoState) -> None:
    """The Lease is there and empty, as the manifests ship it: free at once."""
    started = boottime()
    for pod in state.pods:
        pod.start()
    first = state.runner.wait_for(state.watcher.newest, "a first leader")
    state.edge.start()
    _settle(state)
    state.runner.note(
        Result("three pods start", f"{first.pod} leads", took=first.received - started)
    )


def kill_main(state: DemoState) -> None:
    """The sidecar lives, finds its main gone, and releases the Lease: no lease to wait out."""
    leader = state.leader()
    _take_over(state, "kill the leader's main", leader, leader.kill_main)
    state.runner.say(f"{leader.name}: main restarted, as kubelet would")
    leader.start_main()
    _settle(state)


def kill_leader(state: DemoState) -> None:
    """Nobody is left to release: the Lease must expire."""
    leader = state.leader()
    _take_over(state, "kill the whole leader", leader, leader.kill)
    state.runner.say(f"{leader.name}: restarted")
    leader.start()
    _settle(state)


def partition(state: DemoState) -> None:
    """The leader hears nobody: it stops by its own clock, before another one may start."""
    leader = state.leader()
    _take_over(state, "cut the leader off", leader, leader.partition)
    state.runner.say(f"{leader.name}: link healed")
    leader.heal()
    _settle(state)


def roll(state: DemoState) -> None:
    """Each pod is replaced as by a rolling update, the next one when the new one is ready."""
    newest, started = _newest_answer(state), boottime()
    before = len({ready.token for ready in state.watcher.answers()})
    for pod in state.pods:
        state.runner.say(f"{pod.name}: SIGTERM")
        status = pod.terminate()
        if status != 0:
            raise Failed(f"{pod.name}'s elector did not end in order: exit status {status}")
        pod.start()
        _wait_ready(state, pod)
        state.runner.say(f"{pod.name}: replaced and ready")
    _settle(state)
    changes = len({ready.token for ready in state.watcher.answers()}) - before
    state.runner.note(
        Result(
            "roll all three",
            f"{changes} change{'s' * (changes != 1)} of leader",
            took=boottime() - started,
            vacant=state.watcher.vacancy(newest.sent),
        )
    )


SCRIPT: tuple[Step, ...] = (elect, kill_main, kill_leader, partition, roll, outage)
BY_HAND: dict[str, tuple[str, Step]] = {
    "m": ("kill the leader's main", kill_main),
    "k": ("kill the leader", kill_leader),
    "p": ("cut it off", partition),
    "r": ("roll all", roll),
    "e": ("cut the edge off", outage),
}


def _take_over(state: DemoState, title: str, leader: Pod, fault: Callable[[], None]) -> None:
    newest = _newest_answer(state)
    state.runner.say(f"{leader.name} leads: {title}")
    started = boottime()
    fault()
    first = state.runner.wait_for(lambda: state.watcher.first_after(newest.token), "a successor")
    state.runner.note(
        Result(
            title,
            f"{leader.name} → {first.pod}",
            took=first.received - started,
            vacant=state.watcher.vacancy(newest.sent),
        )
    )


def _newest_answer(state: DemoState) -> Ready:
    """The last 200 before a fault: from there on, nobody leads until the next 200."""
    return state.runner.wait_for(state.watcher.newest, "a leader's first answer")


def _settle(state: DemoState) -> None:
    """All pods ready, one leader."""
    for pod in state.pods:
        _wait_ready(state, pod)
    state.leader()


def _wait_ready(state: DemoState, pod: Pod) -> None:
    state.runner.wait_for(lambda: pod.is_eligible() or None, f"{pod.name} ready")
