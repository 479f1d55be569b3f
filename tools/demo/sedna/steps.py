"""What happens in GM's and LC's demo, one function per step, each with what it must show.

Guarantees: a step notes what an observer outside of the pods measures; one that begins with
training going on fails where it has ended before the step has. Raises `Failed`.
"""

import time
from collections.abc import Callable

from tools.demo.runner import Failed, Result
from tools.demo.sedna.jobs import NOTHING
from tools.demo.sedna.state import SednaState
from tools.demo.sedna.workload import ROUND_SECONDS

Step = Callable[[SednaState], None]

# The edge that is cut off; the other one has the incremental job.
CUT = "edge-b"
# The federated training is well on its way from that round on.
MIDDLE = 6


def gather(state: SednaState) -> None:
    """The Lease is not there yet: whoever comes first takes it."""
    started = time.monotonic()
    state.runner.wait_for(lambda: state.are_connected() or None, "a leader, and LCs connected")
    leader = state.runner.wait_for(state.leader, "a leader")
    took = time.monotonic() - started
    state.runner.say(_peers(state))
    state.runner.note(Result("GMs and LCs meet", f"{leader.name} leads, LCs connected", took=took))


def apply_jobs(state: SednaState) -> None:
    started = time.monotonic()
    state.workload.apply()
    nodes = [edge.name for edge in state.system.edges.values()]
    state.runner.wait_for(
        lambda: all(state.jobs.applied(node) > NOTHING for node in nodes) or None,
        "reports of both edges' workers in the job's status",
    )
    took = time.monotonic() - started
    state.runner.note(Result("apply two jobs", "workers of both edges train and report", took=took))


def kill_the_leader(state: SednaState) -> None:
    """All of its pod at once, as when its machine dies: the Lease must expire. Two results: LCs are
    served again, the pod is of use again."""
    leader = state.runner.wait_for(state.leader, "a leader")
    state.runner.wait_for(
        lambda: state.jobs.federated().round >= MIDDLE or None, f"round {MIDDLE} of the training"
    )
    must_train(state)
    state.runner.say(f"{leader.name} leads: kill its machine, at round {_round(state)}")
    started = time.monotonic()
    state.kill(leader)
    edges = state.system.edges.values()
    marks = {edge.name: state.jobs.stored(edge.name) for edge in edges}
    state.runner.wait_for(
        lambda: state.are_connected(since=started) or None, "a successor, and LCs connected"
    )
    connected = time.monotonic() - started
    successor = state.runner.wait_for(lambda: state.leader(since=started), "a successor")
    state.runner.say(f"{successor.name} leads, {_peers(state)}")
    state.runner.wait_for(
        lambda: all(state.jobs.applied(node) > mark for node, mark in marks.items()) or None,
        "newer reports of both edges in the job's status",
    )
    took = time.monotonic() - started
    detail = f"{leader.name} → {successor.name}, LCs connected in {connected:.1f} s"
    state.runner.note(Result("GM gone → LCs served again", detail, took=took))
    state.runner.say(f"{leader.name}: its machine is back")
    started = time.monotonic()
    state.bring_back(leader)
    state.runner.wait_for(
        lambda: state.is_ready(leader, since=started) or None, f"{leader.name} ready"
    )
    took = time.monotonic() - started
    state.runner.note(Result("its machine comes back", f"{leader.name} stands by", took=took))


def cut_an_edge(state: SednaState) -> None:
    """Two results: LC goes on while cut and restarted; nothing of what it was told is lost."""
    edge = state.system.edges[CUT]
    must_train(state)
    known = _objects(state, 0.0)
    state.cut_off(CUT)
    cut_at = time.monotonic()
    state.runner.say(f"{CUT}: link cut, without a word to anybody, at round {_round(state)}")
    dataset, count = state.workload.more_to_count()
    _must_wait(state, cut_at)
    state.runner.say(f"{CUT}: LC killed and restarted, the link still cut")
    restarted_at = time.monotonic()
    state.restart(CUT)
    if state.runner.wait_for(lambda: _objects(state, restarted_at), "an answer of LC") != known:
        raise Failed(f"{CUT}: LC forgot objects when it was restarted")
    answered = time.monotonic() - restarted_at
    waiting = _must_wait(state, restarted_at)
    title = "restart an LC while it is cut"
    detail = f"knows {known} objects, {waiting} reports wait"
    state.runner.note(Result(title, detail, took=answered))
    # Workers go on and report meanwhile.
    state.runner.sleep(2 * ROUND_SECONDS + state.runner.pause)
    mark = state.jobs.stored(edge.name)
    healed_at = time.monotonic()
    state.heal(CUT)
    state.runner.say(f"{CUT}: link healed")
    state.runner.wait_for(
        lambda: (
            (state.jobs.samples(dataset) == count and state.jobs.applied(edge.name) > mark) or None
        ),
        "what was reported while cut, in the statuses",
    )
    took = time.monotonic() - healed_at
    detail = f"all of {healed_at - cut_at:.1f} s"
    state.runner.note(Result("cut → healed → reports applied", detail, took=took))


def learn_more(state: SednaState) -> None:
    """A second round, whose model the inference worker takes as it runs."""
    stages, workers = state.jobs.stages, state.jobs.inference_workers
    state.runner.wait_for(
        lambda: "Train Waiting 2" in stages() or None, "round 1 of the incremental job"
    )
    before = workers()
    state.runner.say("edge-a: 400 more samples")
    started = time.monotonic()
    state.workload.more_to_learn()
    state.runner.wait_for(lambda: "Train Waiting 3" in stages() or None, "round 2")
    took = time.monotonic() - started
    if not {"Deploy Ready 2", "Deploy Completed 2"} <= stages():
        raise Failed("round 2 was not deployed")
    if workers() != before or len(before) != 1:
        raise Failed("a hot update is to leave the inference worker running")
    found = state.jobs.incremental()
    state.runner.say("its inference worker took the new model as it ran")
    detail = f"precision {found.was or 0:.3f} → {found.precision or 0:.3f}"
    state.runner.note(Result("more samples → hot update", detail, took=took))


def finish(state: SednaState) -> None:
    """The federated job is complete."""
    state.runner.wait_for(
        lambda: state.jobs.federated().stage == "Complete" or None, "the federated job's end"
    )
    found = state.jobs.federated()
    if found.round != state.workload.rounds:
        raise Failed(f"the last round that its status knows is {found.round}")
    detail = f"{found.round} rounds, precision {found.precision or 0:.3f}"
    state.runner.note(Result("federated training ends", detail))


def count(state: SednaState) -> None:
    """Nothing stands twice, nothing waits, everybody knows the same."""
    api_observer = state.system.api_observer

    def is_settled() -> bool:
        return not (state.system.unsettled_reports() or state.system.wrong_stores())

    state.runner.wait_for(lambda: is_settled() or None, "every report in a status")
    if api_observer.doubled or api_observer.reopened:
        raise Failed("; ".join((*api_observer.doubled, *api_observer.reopened)))
    state.runner.note(Result("count", "LCs equal the API, no report waits"))


SCRIPT: tuple[Step, ...] = (
    gather,
    apply_jobs,
    kill_the_leader,
    cut_an_edge,
    learn_more,
    finish,
    count,
)


def _peers(state: SednaState) -> str:
    edges = state.system.edges.items()
    return ", ".join(f"{name} at {state.peer(edge) or 'nobody'}" for name, edge in edges)


def _round(state: SednaState) -> str:
    return f"{state.jobs.federated().round} of {state.workload.rounds}"


def _objects(state: SednaState, since: float) -> int | None:
    """How many the LC that is cut knows."""
    said = state.status_poller.lc(state.system.edges[CUT], since=since)
    return None if said is None else len(said["objects"])


def _must_wait(state: SednaState, since: float) -> int:
    """Reports of the job and of the dataset wait at the LC that is cut."""
    edge = state.system.edges[CUT]

    def look() -> int | None:
        waiting = state.waiting(edge, since=since)
        return waiting if waiting is not None and waiting >= 2 else None

    return state.runner.wait_for(look, "reports that wait at the LC that is cut")


def must_train(state: SednaState) -> None:
    if not state.jobs.is_training():
        raise Failed("the federated training was over too soon to show it")
