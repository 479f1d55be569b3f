"""What happens in the demo of GMs with shards, one function per step, each with what it must show.

Guarantees: as of `steps`. Raises `Failed`.
"""

import time
from collections.abc import Callable, Mapping, Sequence

from tools.demo.runner import Failed, Result
from tools.demo.sedna import steps
from tools.demo.sedna.shard_state import ShardState
from tools.demo.sedna.workload import FEDERATED
from tools.harness.pods.gm import GmPod

Step = Callable[[ShardState], None]

# Small jobs at the beginning, and those that are applied while GMs go and come.
MANY, SOME = 24, 12


def share(state: ShardState) -> None:
    """There is no table yet: who comes first waits for the others."""
    started = time.monotonic()
    _wait_even(state)
    state.sedna.runner.wait_for(lambda: state.sedna.are_connected() or None, "LCs connected")
    took = time.monotonic() - started
    state.sedna.runner.note(
        Result(f"GMs share {state.ring.shards} shards", _shares(state), took=took)
    )


def apply_two_jobs(state: ShardState) -> None:
    steps.apply_jobs(state.sedna)


def spread(state: ShardState) -> None:
    started = time.monotonic()
    uids = state.small_jobs.apply(MANY)
    _wait_complete(state, uids)
    took = time.monotonic() - started
    detail = _counts(state.by_owner(uids))
    state.sedna.runner.note(Result(f"{MANY} small jobs complete", detail, took=took))


def kill_a_gm(state: ShardState) -> None:
    """All of its pod at once: its member Lease must expire. Three results: the others go on at
    once, its shards are owned again, and its jobs go on."""
    sedna = state.sedna
    victim = _owner_of_training(state)
    sedna.runner.wait_for(
        lambda: sedna.jobs.federated().round >= steps.MIDDLE or None,
        f"round {steps.MIDDLE} of the training",
    )
    steps.must_train(sedna)
    shards = state.ring.share(victim)
    sedna.runner.say(f"{victim.name} decides about the training: kill its machine")
    before = state.ring.owners()
    started = time.monotonic()
    sedna.kill(victim)
    marks = {edge.name: sedna.jobs.stored(edge.name) for edge in sedna.system.edges.values()}
    uids = state.small_jobs.apply(SOME)
    others = [uid for uid in uids if _owner(state, before, uid) != victim.name]
    _wait_complete(state, others)
    took = time.monotonic() - started
    detail = f"their {len(others)} of {len(uids)} new jobs complete"
    sedna.runner.note(Result("GM gone → others go on", detail, took=took))
    _wait_even(state)
    took = time.monotonic() - started
    sedna.runner.note(Result(f"its {shards} shards → others", _shares(state), took=took))
    sedna.runner.wait_for(
        lambda: all(sedna.jobs.applied(node) > mark for node, mark in marks.items()) or None,
        "newer reports of both edges in the job's status",
    )
    _wait_complete(state, uids)
    took = time.monotonic() - started
    successor = _owner_of_training(state).name
    detail = f"training {victim.name} → {successor}, all jobs complete"
    sedna.runner.note(Result("its jobs go on", detail, took=took))


def add_a_gm(state: ShardState) -> None:
    """It gets its share, and nothing moves between the others. Two results: who owns what, and who
    decides about jobs that were applied before and after."""
    before = state.ring.owners()
    started = time.monotonic()
    pod = state.add()
    state.sedna.runner.say(f"{pod.name}: a new pod")
    uids = state.small_jobs.apply(SOME)
    _wait_even(state)
    took = time.monotonic() - started
    after = state.ring.owners()
    moved = {shard for shard in after if after[shard] != before[shard]}
    if strays := sorted(shard for shard in moved if after[shard] != pod.name):
        raise Failed(f"shards moved that need not have: {strays}")
    state.sedna.runner.say(f"{len(moved)} shards moved, all to {pod.name}")
    state.sedna.runner.note(Result("GM added → even shares", _shares(state), took=took))
    uids += state.small_jobs.apply(SOME)
    _wait_complete(state, uids)
    detail = _counts(state.by_owner(uids))
    state.sedna.runner.note(Result(f"{len(uids)} new jobs complete", detail))


def learn_more(state: ShardState) -> None:
    steps.learn_more(state.sedna)


def finish(state: ShardState) -> None:
    steps.finish(state.sedna)


def count(state: ShardState) -> None:
    steps.count(state.sedna)


SCRIPT: Sequence[Step] = (
    share,
    apply_two_jobs,
    spread,
    kill_a_gm,
    add_a_gm,
    learn_more,
    finish,
    count,
)


def _wait_even(state: ShardState) -> None:
    living = state.living
    state.sedna.runner.wait_for(
        lambda: state.ring.is_even(living) or None, f"even shares of {len(living)} GMs"
    )
    state.sedna.runner.say(f"ring {state.drawn()}")


def _wait_complete(state: ShardState, uids: Sequence[str]) -> None:
    state.sedna.runner.wait_for(
        lambda: state.small_jobs.are_complete(uids) or None, f"{len(uids)} jobs complete"
    )


def _owner_of_training(state: ShardState) -> GmPod:
    job = state.sedna.system.get(*FEDERATED)
    owner = state.ring.owner_of(job["metadata"]["uid"])
    found = [pod for pod in state.living if pod.name == owner]
    if not found:
        raise Failed("nobody owns the federated job")
    return found[0]


def _owner(state: ShardState, owners: Mapping[int, str], uid: str) -> str:
    return owners.get(state.ring.shard_of(uid), "")


def _shares(state: ShardState) -> str:
    return ", ".join(f"{pod.name} {state.ring.share(pod)}" for pod in state.living)


def _counts(by_name: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(by_name.items()))
