"""Controller under whatever pods, people, LCs and clocks do, in any order.

What must hold at any time: every decision leads to rest; a child's name is never there twice (the
cluster says so); rounds only grow; a stage that is finished stays finished, a job that is finished
too; conditions stay few.
"""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.unit.gm.controller.cluster import Cluster
from tests.unit.gm.controller.samples import federated, hot, incremental, lifelong, search
from tests.unit.gm.controller.test_merge_reports import training
from tests.unit.gm.controller.test_staged_rule import done, ready

PHASES = st.sampled_from(["Pending", "Running", "Succeeded", "Failed"])
STAGES = st.sampled_from(["Train", "Eval", "Deploy"])
INDEX = st.integers(0, 30)

EVENTS = st.one_of(
    st.tuples(st.just("phase"), INDEX, PHASES),
    st.tuples(st.just("phase"), INDEX, PHASES),
    st.tuples(st.just("vanish"), INDEX),
    st.tuples(st.just("reap")),
    st.tuples(st.just("time"), st.sampled_from([1, 10, 400])),
    st.tuples(st.just("next")),
    st.tuples(st.just("next")),
    st.tuples(st.just("next")),
    st.tuples(st.just("ready"), STAGES, st.integers(1, 4)),
    st.tuples(st.just("done"), STAGES, st.integers(1, 4), st.sampled_from(["completed", "failed"])),
    st.tuples(st.just("edit"), st.integers(0, 3)),
    st.tuples(st.just("break")),
    st.tuples(st.just("mend")),
    st.tuples(st.just("half")),
    st.tuples(st.just("stale")),
)
QUICKLY = settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def happen(cluster: Cluster, event: tuple[Any, ...]) -> None:
    pods = cluster.names()
    match event:
        case ("phase", index, phase) if pods:
            name = pods[index % len(pods)]
            if not cluster.child("Pod", name)["metadata"].get("deletionTimestamp"):
                cluster.run(name, phase)
        case ("vanish", index) if pods:
            cluster.vanish("Pod", pods[index % len(pods)])
        case ("reap",):
            cluster.reap()
        case ("time", seconds):
            cluster.pass_time(seconds)
        case ("ready", stage, round_):
            cluster.report(ready(stage, round_))
        case ("done", stage, round_, status):
            cluster.report(done(stage, round_, status))
        case ("next",):
            go_on(cluster)
        case ("edit", number):
            cluster.edit(note=number)
        case ("break",):
            cluster.edit(outputDir="nowhere", transmitter={"s3": {"aggDataPath": "x"}})
        case ("mend",):
            cluster.edit(outputDir="/srv/out", transmitter={"ws": {}})
        case ("half",):
            # GM dies between two writes: the status is not written.
            decision = cluster.decide()
            kept = cluster.subject.get("status")
            cluster.apply(decision)
            if kept is None:
                cluster.subject.pop("status", None)
            else:
                cluster.subject["status"] = kept
        case ("stale",):
            cluster.step_behind()


def go_on(cluster: Cluster) -> None:
    """What an LC says next, if it says anything."""
    last = cluster.last if cluster.conditions else {}
    stage, round_ = last.get("stage"), last.get("round", 0)
    if stage is None:
        cluster.report(training(1, acc=0.5), is_event=False)
    elif last["type"] == "Waiting":
        cluster.report(ready(stage, round_))
    elif last["type"] in ("Starting", "Running"):
        cluster.report(done(stage, round_))


def finished(cluster: Cluster) -> set[tuple[str, int]]:
    return {
        (it["stage"], it["round"])
        for it in cluster.conditions
        if it["type"] in ("Completed", "Failed") and "stage" in it
    }


@QUICKLY
@given(
    st.sampled_from([incremental, hot, lifelong]),
    st.booleans(),
    st.lists(EVENTS, max_size=40),
)
def test_a_learning_job_never_opens_what_is_finished(
    made: Any, lingers: bool, events: list[tuple[Any, ...]]
) -> None:
    cluster = Cluster(made(), lingers=lingers)
    cluster.settle()
    closed: set[tuple[str, int]] = set()
    rounds = 1
    for event in events:
        cluster.remember()
        happen(cluster, event)
        cluster.settle()
        assert len(cluster.conditions) <= 17
        state = next(it for it in reversed(cluster.conditions) if it.get("stage"))
        place = (state["stage"], state["round"])
        if state["type"] not in ("Completed", "Failed"):
            assert place not in closed
        closed |= finished(cluster)
        assert state["round"] >= rounds
        rounds = state["round"]
        inference = [
            name
            for name in cluster.names()
            if "-inference-" in name
            and not cluster.child("Pod", name)["metadata"].get("deletionTimestamp")
        ]
        assert len(inference) <= 1


@QUICKLY
@given(st.booleans(), st.lists(EVENTS, max_size=40))
def test_a_finished_job_stays_finished_until_it_is_edited(
    lingers: bool, events: list[tuple[Any, ...]]
) -> None:
    cluster = Cluster(federated(), lingers=lingers)
    cluster.settle()
    for event in events:
        before = cluster.status["phase"]
        cluster.remember()
        happen(cluster, event)
        cluster.settle()
        assert len(cluster.conditions) <= 11
        if before in ("Succeeded", "Failed") and event[0] not in ("edit", "break", "mend"):
            assert cluster.status["phase"] == before


@QUICKLY
@given(st.booleans(), st.lists(EVENTS, max_size=40))
def test_a_service_comes_back_whatever_has_happened(
    lingers: bool, events: list[tuple[Any, ...]]
) -> None:
    cluster = Cluster(search(), lingers=lingers)
    cluster.settle()
    for event in events:
        cluster.remember()
        happen(cluster, event)
        cluster.settle()
    for _ in range(2):
        cluster.reap()
        cluster.pass_time(10)
        cluster.settle()
    for name in cluster.names("Deployment"):
        cluster.available(name, 2)
    cluster.run_all("Running")
    cluster.settle()
    assert cluster.last["type"] == "Running"


@settings(QUICKLY, max_examples=examples(15))
@given(st.lists(EVENTS, max_size=25))
def test_a_learning_job_goes_on_to_the_next_round_whatever_has_happened(
    events: list[tuple[Any, ...]],
) -> None:
    cluster = Cluster(incremental())
    cluster.settle()
    for event in events:
        cluster.remember()
        happen(cluster, event)
        cluster.settle()
    cluster.edit(outputDir="/srv/out")
    cluster.settle()
    begin = cluster.last["round"]
    for _ in range(12):
        go_on(cluster)
        cluster.settle()
        for name in cluster.names():
            cluster.run(name, "Running")
        cluster.settle()
        cluster.pass_time(10)
        cluster.settle()
    assert cluster.last["round"] > begin
