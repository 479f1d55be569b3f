"""A GM that is gone, as LCs see it: how long until all LCs know what is created at that moment,
and until a new leader has made the pods of a job.

Guarantee: the GM that goes is the leader, with its elector and relay; LCs redial as they do by
default; the clock starts before the fault.
"""

import threading
import time
from contextlib import AbstractContextManager

from tools.bench.gm.manifests import dataset, federated
from tools.bench.gm.world import PATIENCE, Fleet, World, known
from tools.bench.pace import TookTooLong, wait_for
from tools.bench.progress import say
from tools.bench.runner import Options
from tools.bench.samples import Result, Sample
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.pods.gm import GmPod
from tools.harness.pods.system import MODES
from tools.harness.pods.wire.caller import Caller
from tools.harness.system import faults

GMS, EDGES = 2, 3
# Seconds between two looks.
INTERVAL = 0.02
STOPPED, KILLED = "stopped", "killed"


def scenario(mode: str, way: str) -> str:
    return f"failover-{mode}-{way}"


def failovers(world: World, options: Options) -> list[Result]:
    results = []
    for mode in MODES:
        with Fleet(
            world, mode=mode, gms=GMS, edges=EDGES, is_started=False, is_quick=True
        ) as fleet:
            for pod in fleet.pods:
                # As the manual says where the elector may end before gm does.
                pod.elector.flags += ["--drain-url", f"http://{LOOPBACK}:{pod.gm.port}/drain"]
            fleet.start()
            fleet.stock()
            for way in (STOPPED, KILLED):
                result = Result(scenario(mode, way))
                for run in range(options.runs):
                    _run(fleet, way, run, result)
                results.append(result)
    return results


def _run(fleet: Fleet, way: str, run: int, result: Result) -> None:
    leader = fleet.leader()
    assert leader is not None
    fault = faults.gm_pod_killed if way == KILLED else faults.gm_pod_stopped
    name = f"{way}-{run}"
    try:
        sample = _fault(fleet, fault(leader), name)
    except TookTooLong as error:
        result.failures.append(str(error))
        say(f"{result.scenario} FAILED: {error}")
    else:
        result.samples.append(sample)
        said = " ".join(f"{key}={value:.3g}" for key, value in sample.items())
        say(f"{result.scenario}: {said}")
    _wait_whole(fleet, leader)


def _fault(fleet: Fleet, fault: AbstractContextManager[None], name: str) -> Sample:
    began = time.monotonic()
    # Stopping takes its time; LCs do not wait for its end.
    going = threading.Thread(target=fault.__enter__)
    going.start()
    try:
        fleet.make(
            [
                *(dataset(f"{name}-{number}", node) for number, node in enumerate(fleet.nodes)),
                federated(name, fleet.nodes[0]),
            ]
        )
        served: float | None = None
        acts: float | None = None
        while served is None or acts is None:
            if served is None and _is_served(fleet, name):
                served = time.monotonic() - began
            if acts is None and _has_pods(fleet, name):
                acts = time.monotonic() - began
            if time.monotonic() - began > PATIENCE:
                raise TookTooLong(f"not within {PATIENCE:g} s: served {served}, acts {acts}")
            time.sleep(INTERVAL)
        return {"served": served, "acts": acts}
    finally:
        going.join()
        fault.__exit__(None, None, None)


def _is_served(fleet: Fleet, name: str) -> bool:
    return all(f"{name}-{number}" in known(edge) for number, edge in enumerate(fleet.edges))


def _has_pods(fleet: Fleet, name: str) -> bool:
    plane = fleet.world.plane
    caller = Caller(plane.server, context=plane.tls())
    path = f"/api/v1/namespaces/{fleet.namespace}/pods/{name}-train-0"
    return caller.get(path).status == 200


def _wait_whole(fleet: Fleet, pod: GmPod) -> None:
    pod.wait_ready()
    wait_for(lambda: fleet.leader() is not None, timeout=PATIENCE, what="a leader")
    for edge in fleet.edges:
        fleet.wait_connected(edge)
