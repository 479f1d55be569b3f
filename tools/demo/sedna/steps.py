"""What happens in GM's and LC's demo, one function per step, each with what it must show.

Guarantees: a step notes what an observer outside of the pods measures; one that begins with
training going on fails where it has ended before the step has. Raises `Failed`.
"""

import time
from collections.abc import Callable

from tools.demo.sedna.jobs import NOTHING
from tools.demo.sedna.scene import Scene
from tools.demo.sedna.workload import ROUND_SECONDS
from tools.demo.stage import Failed, Result

Step = Callable[[Scene], None]

# The edge that is cut off; the other one has the incremental job.
CUT = "edge-b"
# The federated training is well on its way from that round on.
MIDDLE = 6


def gather(scene: Scene) -> None:
    """The Lease is not there yet: whoever comes first takes it."""
    started = time.monotonic()
    scene.stage.wait_for(lambda: scene.are_connected() or None, "a leader, and LCs connected")
    leader = scene.stage.wait_for(scene.leader, "a leader")
    took = time.monotonic() - started
    scene.stage.say(_peers(scene))
    scene.stage.note(Result("GMs and LCs meet", f"{leader.name} leads, LCs connected", took=took))


def apply_jobs(scene: Scene) -> None:
    started = time.monotonic()
    scene.workload.apply()
    nodes = [edge.name for edge in scene.system.edges.values()]
    scene.stage.wait_for(
        lambda: all(scene.jobs.applied(node) > NOTHING for node in nodes) or None,
        "reports of both edges' workers in the job's status",
    )
    took = time.monotonic() - started
    scene.stage.note(Result("apply two jobs", "workers of both edges train and report", took=took))


def kill_the_leader(scene: Scene) -> None:
    """All of its pod at once, as when its machine dies: the Lease must expire. Two results: LCs are
    served again, the pod is of use again."""
    leader = scene.stage.wait_for(scene.leader, "a leader")
    scene.stage.wait_for(
        lambda: scene.jobs.federated().round >= MIDDLE or None, f"round {MIDDLE} of the training"
    )
    _must_train(scene)
    scene.stage.say(f"{leader.name} leads: kill its machine, at round {_round(scene)}")
    started = time.monotonic()
    scene.kill(leader)
    edges = scene.system.edges.values()
    marks = {edge.name: scene.jobs.stored(edge.name) for edge in edges}
    scene.stage.wait_for(
        lambda: scene.are_connected(since=started) or None, "a successor, and LCs connected"
    )
    connected = time.monotonic() - started
    successor = scene.stage.wait_for(lambda: scene.leader(since=started), "a successor")
    scene.stage.say(f"{successor.name} leads, {_peers(scene)}")
    scene.stage.wait_for(
        lambda: all(scene.jobs.applied(node) > mark for node, mark in marks.items()) or None,
        "newer reports of both edges in the job's status",
    )
    took = time.monotonic() - started
    detail = f"{leader.name} → {successor.name}, LCs connected in {connected:.1f} s"
    scene.stage.note(Result("GM gone → LCs served again", detail, took=took))
    scene.stage.say(f"{leader.name}: its machine is back")
    started = time.monotonic()
    scene.bring_back(leader)
    scene.stage.wait_for(
        lambda: scene.is_ready(leader, since=started) or None, f"{leader.name} ready"
    )
    took = time.monotonic() - started
    scene.stage.note(Result("its machine comes back", f"{leader.name} stands by", took=took))


def cut_an_edge(scene: Scene) -> None:
    """Two results: LC goes on while cut and restarted; nothing of what it was told is lost."""
    edge = scene.system.edges[CUT]
    _must_train(scene)
    known = _objects(scene, 0.0)
    scene.cut_off(CUT)
    cut_at = time.monotonic()
    scene.stage.say(f"{CUT}: link cut, without a word to anybody, at round {_round(scene)}")
    dataset, count = scene.workload.more_to_count()
    _must_wait(scene, cut_at)
    scene.stage.say(f"{CUT}: LC killed and restarted, the link still cut")
    restarted_at = time.monotonic()
    scene.restart(CUT)
    if scene.stage.wait_for(lambda: _objects(scene, restarted_at), "an answer of LC") != known:
        raise Failed(f"{CUT}: LC forgot objects when it was restarted")
    answered = time.monotonic() - restarted_at
    waiting = _must_wait(scene, restarted_at)
    title = "restart an LC while it is cut"
    detail = f"knows {known} objects, {waiting} reports wait"
    scene.stage.note(Result(title, detail, took=answered))
    # Workers go on and report meanwhile.
    scene.stage.sleep(2 * ROUND_SECONDS + scene.stage.pause)
    mark = scene.jobs.stored(edge.name)
    healed_at = time.monotonic()
    scene.heal(CUT)
    scene.stage.say(f"{CUT}: link healed")
    scene.stage.wait_for(
        lambda: (
            (scene.jobs.samples(dataset) == count and scene.jobs.applied(edge.name) > mark) or None
        ),
        "what was reported while cut, in the statuses",
    )
    took = time.monotonic() - healed_at
    detail = f"all of {healed_at - cut_at:.1f} s"
    scene.stage.note(Result("cut → healed → reports applied", detail, took=took))


def learn_more(scene: Scene) -> None:
    """A second round, whose model the inference worker takes as it runs."""
    stages, workers = scene.jobs.stages, scene.jobs.inference_workers
    scene.stage.wait_for(
        lambda: "Train Waiting 2" in stages() or None, "round 1 of the incremental job"
    )
    before = workers()
    scene.stage.say("edge-a: 400 more samples")
    started = time.monotonic()
    scene.workload.more_to_learn()
    scene.stage.wait_for(lambda: "Train Waiting 3" in stages() or None, "round 2")
    took = time.monotonic() - started
    if not {"Deploy Ready 2", "Deploy Completed 2"} <= stages():
        raise Failed("round 2 was not deployed")
    if workers() != before or len(before) != 1:
        raise Failed("a hot update is to leave the inference worker running")
    found = scene.jobs.incremental()
    scene.stage.say("its inference worker took the new model as it ran")
    detail = f"precision {found.was or 0:.3f} → {found.precision or 0:.3f}"
    scene.stage.note(Result("more samples → hot update", detail, took=took))


def finish(scene: Scene) -> None:
    """The federated job is complete."""
    scene.stage.wait_for(
        lambda: scene.jobs.federated().stage == "Complete" or None, "the federated job's end"
    )
    found = scene.jobs.federated()
    if found.round != scene.workload.rounds:
        raise Failed(f"the last round that its status knows is {found.round}")
    detail = f"{found.round} rounds, precision {found.precision or 0:.3f}"
    scene.stage.note(Result("federated training ends", detail))


def count(scene: Scene) -> None:
    """Nothing stands twice, nothing waits, everybody knows the same."""
    witness = scene.system.witness

    def is_settled() -> bool:
        return not (scene.system.unsettled_reports() or scene.system.wrong_stores())

    scene.stage.wait_for(lambda: is_settled() or None, "every report in a status")
    if witness.doubled or witness.reopened:
        raise Failed("; ".join((*witness.doubled, *witness.reopened)))
    scene.stage.note(Result("count", "LCs equal the API, no report waits"))


SCRIPT: tuple[Step, ...] = (
    gather,
    apply_jobs,
    kill_the_leader,
    cut_an_edge,
    learn_more,
    finish,
    count,
)


def _peers(scene: Scene) -> str:
    edges = scene.system.edges.items()
    return ", ".join(f"{name} at {scene.peer(edge) or 'nobody'}" for name, edge in edges)


def _round(scene: Scene) -> str:
    return f"{scene.jobs.federated().round} of {scene.workload.rounds}"


def _objects(scene: Scene, since: float) -> int | None:
    """How many the LC that is cut knows."""
    said = scene.lookout.lc(scene.system.edges[CUT], since=since)
    return None if said is None else len(said["objects"])


def _must_wait(scene: Scene, since: float) -> int:
    """Reports of the job and of the dataset wait at the LC that is cut."""
    edge = scene.system.edges[CUT]

    def look() -> int | None:
        waiting = scene.waiting(edge, since=since)
        return waiting if waiting is not None and waiting >= 2 else None

    return scene.stage.wait_for(look, "reports that wait at the LC that is cut")


def _must_train(scene: Scene) -> None:
    if not scene.jobs.is_training():
        raise Failed("the federated training was over too soon to show it")
