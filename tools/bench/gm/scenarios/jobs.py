"""Jobs through GM: how many a second, beside a loop that makes the same writes; none lost of a
thousand, and none doubled while GMs die and freeze.

Guarantee: the rate is that of GM's writes in the audit log, from the first to the last, with all
jobs there before it began; both sides go to the API server straight.
"""

import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from edge_sidecars.kubeapi import ApiClient
from edge_sidecars.sedna_api.core.kinds import (
    FEDERATED_LEARNING_JOB,
    INCREMENTAL_LEARNING_JOB,
    ResourceKind,
)
from tools.bench.gm.manifests import federated, incremental
from tools.bench.gm.scenarios import bare
from tools.bench.gm.world import CLIENTS, REQUEST_TIMEOUT, Fleet, World, create_all
from tools.bench.pace import TookTooLong, sleep, wait_for
from tools.bench.progress import say
from tools.bench.runner import Options
from tools.bench.samples import REFERENCE, Result, Sample
from tools.harness.pods.observers.api_observer import ApiObserver
from tools.harness.pods.wire.caller import Caller

Json = dict[str, Any]

# Of each kind, where the rate is measured; and of both, where none may be lost or doubled.
COUNT = 200
MANY = 1000
# Seconds that many jobs take at most on a busy machine.
PATIENCE = 600.0
# Seconds of a fault, longer than the Lease of these pods, and between two.
LONGEST_FAULT = 8.0
LONGEST_PAUSE = 2.0
SEED = 7
LOST, DOUBLED = "jobs-lost", "jobs-doubled"


@dataclass(frozen=True)
class Kind:
    """`pods`: how many each of these jobs has in the end."""

    short: str
    resource: ResourceKind
    make: Callable[[str, str], Json]
    pods: int

    @property
    def scenario(self) -> str:
        return f"jobs-{self.short}"

    def jobs(self, count: int, node: str) -> list[Json]:
        return [self.make(f"{self.short}-{number:04}", node) for number in range(count)]


FL = Kind("fl", FEDERATED_LEARNING_JOB, federated, 2)
IL = Kind("il", INCREMENTAL_LEARNING_JOB, incremental, 1)
KINDS = (IL, FL)


def rates(world: World, options: Options) -> list[Result]:
    results = []
    for kind in KINDS:
        ours, reference = Result(kind.scenario), Result(kind.scenario, REFERENCE)
        for _ in range(options.runs):
            try:
                samples = _rate(world, kind)
            except (TookTooLong, bare.NotRepeatable) as error:
                ours.failures.append(str(error))
                say(f"{kind.scenario} FAILED: {error}")
                continue
            for result, sample in zip((ours, reference), samples, strict=True):
                result.samples.append(sample)
                _told(result)
        results += [ours, reference]
    return results


def lost(world: World, options: Options) -> list[Result]:
    """From clients that all create at once, while GM works."""
    result = Result(LOST)
    for _ in range(options.runs):
        with Fleet(world, edges=0) as fleet, observer(fleet) as api_observer:
            fleet.stock()
            began = time.monotonic()
            fleet.make(FL.jobs(MANY, fleet.nodes[0]))
            missing = unmade(api_observer, {FL: MANY})
            sample = {"lost": missing, "seconds": time.monotonic() - began}
        result.samples.append(sample)
        _told(result)
    return [result]


def doubled(world: World, options: Options) -> list[Result]:
    """Three GMs, one of which at a time is killed or frozen, until all jobs are made."""
    result = Result(DOUBLED)
    for run in range(options.runs):
        with (
            Fleet(world, gms=3, edges=0, is_quick=True) as fleet,
            observer(fleet) as api_observer,
        ):
            fleet.stock()
            half = MANY // 2
            manifests = [*FL.jobs(half, fleet.nodes[0]), *IL.jobs(half, fleet.nodes[0])]
            with ThreadPoolExecutor(1) as pool:
                making = pool.submit(fleet.make, manifests)
                faults = _torment(fleet, api_observer, random.Random(SEED + run))
                making.result()
            missing = unmade(api_observer, {FL: half, IL: half})
            found = len(api_observer.doubled)
            for each in api_observer.doubled[:5]:
                result.failures.append(each)
        result.samples.append({"doubled": found, "lost": missing, "faults": faults})
        _told(result)
    return [result]


# ── rates ──


def _rate(world: World, kind: Kind) -> tuple[Sample, Sample]:
    """Of GM, and of the bare loop right after it."""
    with Fleet(world, edges=0, is_started=False, is_linked=False) as fleet:
        fleet.stock()
        jobs = kind.jobs(COUNT, fleet.nodes[0])
        fleet.make(jobs)
        fleet.start()
        wait_for(lambda: _is_through(fleet, kind), timeout=PATIENCE, what=kind.short, interval=0.5)
        was = fleet.namespace
    writes = bare.written(world.plane, was, bare.GM_AGENT)
    becomes = world.plane.create_namespace("bench")
    moved = kind.jobs(COUNT, f"edge-0.{becomes}")
    world.play(lambda api: _repeat(world, api, kind, writes, (was, becomes), moved))
    again = bare.written(world.plane, becomes, bare.USER_AGENT)
    if bare.kinds_of(again) != bare.kinds_of(writes):
        raise bare.NotRepeatable(f"{bare.kinds_of(writes)} became {bare.kinds_of(again)}")
    return _speed(writes), _speed(again)


def _speed(writes: Any) -> Sample:
    seconds = bare.seconds_of(writes)
    return {"per_second": COUNT / seconds, "writes": len(writes), "seconds": seconds}


async def _repeat(
    world: World,
    api: ApiClient,
    kind: Kind,
    writes: Any,
    namespaces: tuple[str, str],
    jobs: list[Json],
) -> None:
    was, becomes = namespaces
    await create_all(api, becomes, jobs, clients=CLIENTS)
    collections = {
        "pods": "/api/v1/namespaces/{}/pods",
        "services": "/api/v1/namespaces/{}/services",
        "events": "/api/v1/namespaces/{}/events",
        kind.resource.plural: kind.resource.collection("{}"),
    }
    made = await bare.read_all(api, was, collections)
    own = await bare.read_all(api, becomes, {"": kind.resource.collection("{}")})
    twins = {}
    for (_, name), it in own.items():
        metadata = it["metadata"]
        model = made[kind.resource.plural, name]
        twins[name] = bare.Twin(name, model, metadata["uid"], metadata["resourceVersion"])
    await bare.repeat(world, writes, made, twins, namespaces)


def _is_through(fleet: Fleet, kind: Kind) -> bool:
    """Nothing is to be decided or told, and all jobs have a status."""
    backlog = fleet.pods[0].gm.status()["backlog"]
    if backlog["objects"] or backlog["events"]:
        return False

    async def stated(api: ApiClient) -> int:
        path = kind.resource.collection(fleet.namespace)
        found = await api.request("GET", path, timeout=REQUEST_TIMEOUT)
        return sum(bool(it.get("status")) for it in found["items"])

    return fleet.world.play(stated) == COUNT


# ── many ──


def observer(fleet: Fleet) -> ApiObserver:
    plane = fleet.world.plane
    return ApiObserver(Caller(plane.server, context=plane.tls()), fleet.namespace)


def _wanting(api_observer: ApiObserver, wanted: dict[Kind, int]) -> int:
    """Jobs that lack a pod or a status, or are not there."""
    pods = Counter(
        owner["uid"]
        for it in api_observer.objects("pod")
        for owner in it["metadata"].get("ownerReferences", ())
    )
    return sum(
        count
        - sum(
            pods[it["metadata"]["uid"]] == kind.pods and bool(it.get("status"))
            for it in api_observer.objects(kind.resource.singular)
        )
        for kind, count in wanted.items()
    )


def unmade(api_observer: ApiObserver, wanted: dict[Kind, int]) -> int:
    """How many are not made in time."""
    try:
        wait_for(
            lambda: not _wanting(api_observer, wanted), timeout=PATIENCE, what="jobs", interval=0.5
        )
    except TookTooLong:
        return _wanting(api_observer, wanted)
    return 0


def _torment(fleet: Fleet, api_observer: ApiObserver, chance: random.Random) -> int:
    """How many faults it took until all jobs were made."""
    half = MANY // 2
    deadline = time.monotonic() + PATIENCE
    faults = 0
    while _wanting(api_observer, {FL: half, IL: half}) and time.monotonic() < deadline:
        leader = fleet.leader()
        pod = leader if leader and chance.random() < 0.7 else chance.choice(fleet.pods)
        length = chance.uniform(0.1, LONGEST_FAULT)
        if chance.random() < 0.5:
            pod.kill()
            sleep(length)
            pod.restart()
        else:
            pod.freeze()
            sleep(length)
            pod.thaw()
        faults += 1
        say(f"{DOUBLED}: fault {faults} of {pod.name}, {length:.1f} s")
        sleep(chance.uniform(0.0, LONGEST_PAUSE))
    return faults


def _told(result: Result) -> None:
    said = " ".join(f"{key}={value:.3g}" for key, value in result.samples[-1].items())
    say(f"{result.scenario} {result.side}: {said}")
