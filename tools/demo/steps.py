"""What happens in the demo, one function per step, each with what it must show.

Guarantees: a step begins with all pods up and one leader, and ends so; it notes what an observer
outside of the pods measures. Raises `Failed` where its promise was not kept.
"""

from collections.abc import Callable

from tools.demo.outage import outage
from tools.demo.pod import Pod
from tools.demo.scene import Scene
from tools.demo.stage import Failed, Result
from tools.harness.controlplane.answer import boottime
from tools.harness.pods.observer import Ready

Step = Callable[[Scene], None]


def elect(scene: Scene) -> None:
    """The Lease is there and empty, as the manifests ship it: free at once."""
    started = boottime()
    for pod in scene.pods:
        pod.start()
    first = scene.stage.wait_for(scene.watcher.newest, "a first leader")
    scene.edge.start()
    _settle(scene)
    scene.stage.note(
        Result("three pods start", f"{first.pod} leads", took=first.received - started)
    )


def kill_main(scene: Scene) -> None:
    """The sidecar lives, finds its main gone, and releases the Lease: no lease to wait out."""
    leader = scene.leader()
    _take_over(scene, "kill the leader's main", leader, leader.kill_main)
    scene.stage.say(f"{leader.name}: main restarted, as kubelet would")
    leader.start_main()
    _settle(scene)


def kill_leader(scene: Scene) -> None:
    """Nobody is left to release: the Lease must expire."""
    leader = scene.leader()
    _take_over(scene, "kill the whole leader", leader, leader.kill)
    scene.stage.say(f"{leader.name}: restarted")
    leader.start()
    _settle(scene)


def partition(scene: Scene) -> None:
    """The leader hears nobody: it stops by its own clock, before another one may start."""
    leader = scene.leader()
    _take_over(scene, "cut the leader off", leader, leader.partition)
    scene.stage.say(f"{leader.name}: link healed")
    leader.heal()
    _settle(scene)


def roll(scene: Scene) -> None:
    """Each pod is replaced as by a rolling update, the next one when the new one is ready."""
    newest, started = _newest_answer(scene), boottime()
    before = len({ready.token for ready in scene.watcher.answers()})
    for pod in scene.pods:
        scene.stage.say(f"{pod.name}: SIGTERM")
        status = pod.terminate()
        if status != 0:
            raise Failed(f"{pod.name}'s elector did not end in order: exit status {status}")
        pod.start()
        _wait_ready(scene, pod)
        scene.stage.say(f"{pod.name}: replaced and ready")
    _settle(scene)
    changes = len({ready.token for ready in scene.watcher.answers()}) - before
    scene.stage.note(
        Result(
            "roll all three",
            f"{changes} change{'s' * (changes != 1)} of leader",
            took=boottime() - started,
            vacant=scene.watcher.vacancy(newest.sent),
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


def _take_over(scene: Scene, title: str, leader: Pod, fault: Callable[[], None]) -> None:
    newest = _newest_answer(scene)
    scene.stage.say(f"{leader.name} leads: {title}")
    started = boottime()
    fault()
    first = scene.stage.wait_for(lambda: scene.watcher.first_after(newest.token), "a successor")
    scene.stage.note(
        Result(
            title,
            f"{leader.name} → {first.pod}",
            took=first.received - started,
            vacant=scene.watcher.vacancy(newest.sent),
        )
    )


def _newest_answer(scene: Scene) -> Ready:
    """The last 200 before a fault: from there on, nobody leads until the next 200."""
    return scene.stage.wait_for(scene.watcher.newest, "a leader's first answer")


def _settle(scene: Scene) -> None:
    """All pods ready, one leader."""
    for pod in scene.pods:
        _wait_ready(scene, pod)
    scene.leader()


def _wait_ready(scene: Scene, pod: Pod) -> None:
    scene.stage.wait_for(lambda: pod.is_eligible() or None, f"{pod.name} ready")
