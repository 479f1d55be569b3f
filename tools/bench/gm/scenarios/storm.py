"""What changes of jobs cost on the nodes' links in each mode, beside watches without a selector.

Each job is on two of the nodes. Guarantee: bytes of both sides are those of the same changes,
counted by proxies on the links, both directions; the references are a watch of each kind on each
node, as an edge has them whose API knows no selectors.
"""

import json
from contextlib import ExitStack
from typing import Any, Self

from edge_sidecars.kubeapi import ApiClient
from edge_sidecars.kubeapi.client import MERGE_PATCH
from edge_sidecars.sedna_api.core.kinds import DATASET, FEDERATED_LEARNING_JOB, MODEL
from tools.bench.gm.manifests import federated
from tools.bench.gm.scenarios.datasets import edge_bytes
from tools.bench.gm.world import CLIENTS, PATIENCE, REQUEST_TIMEOUT, Fleet, World, spread_over
from tools.bench.pace import sleep, wait_for
from tools.bench.progress import say
from tools.bench.runner import Options
from tools.bench.samples import REFERENCE, Result
from tools.harness.controlplane.clients.answer import ask
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.pods.edge_node import EdgeNode
from tools.harness.pods.system import MODES
from tools.harness.pods.wire.caller import Caller, Watching

Json = dict[str, Any]

NODES = 8
JOBS = 64
NODES_OF_A_JOB = 2
CHANGES = 3
# Seconds in which nothing more may come.
STILL = 2.0


def scenario(mode: str) -> str:
    return f"storm-{mode}"


def storms(world: World, options: Options) -> list[Result]:
    results = []
    for mode in MODES:
        ours, reference = Result(scenario(mode)), Result(scenario(mode), REFERENCE)
        gms = 2 if mode == "active-active" else 1
        with Fleet(world, mode=mode, gms=gms, edges=NODES) as fleet:
            fleet.stock()
            fleet.make(_jobs(fleet))
            _wait_same(fleet)
            with ExitStack() as stack:
                watchers = [
                    stack.enter_context(_Watcher(world.plane, fleet.namespace)) for _ in fleet.nodes
                ]
                for run in range(options.runs):
                    _run(fleet, watchers, run, ours, reference)
        results += [ours, reference]
    return results


def _run(
    fleet: Fleet, watchers: list["_Watcher"], run: int, ours: Result, reference: Result
) -> None:
    _wait_still(fleet)
    before = sum(edge_bytes(it) for it in fleet.edges), sum(it.bytes for it in watchers)
    for change in range(CHANGES):
        _change(fleet, f"{run}-{change}")
        _wait_same(fleet)
    newest = _versions(fleet)
    for each in watchers:
        each.wait(newest)
    after = sum(edge_bytes(it) for it in fleet.edges), sum(it.bytes for it in watchers)
    for result, count in zip((ours, reference), (0, 1), strict=True):
        found = (after[count] - before[count]) / (JOBS * CHANGES)
        result.samples.append({"bytes_per_change": found})
        say(f"{result.scenario} {result.side}: bytes_per_change={found:.0f}")


def _jobs(fleet: Fleet) -> list[Json]:
    nodes = fleet.nodes
    return [
        federated(
            f"fl-{number:04}",
            *(nodes[(number + offset) % NODES] for offset in range(NODES_OF_A_JOB)),
        )
        for number in range(JOBS)
    ]


def _change(fleet: Fleet, value: str) -> None:
    """Of each job, what no GM answers to."""

    async def patch(api: ApiClient) -> None:
        async def one(number: int) -> None:
            path = FEDERATED_LEARNING_JOB.path(fleet.namespace, f"fl-{number:04}")
            await api.request(
                "PATCH",
                path,
                body={"metadata": {"annotations": {"changed": value}}},
                content_type=MERGE_PATCH,
                timeout=REQUEST_TIMEOUT,
                pooled=True,
            )

        await spread_over(CLIENTS, range(JOBS), one)

    fleet.world.play(patch)


# ── who knows what ──


def _versions(fleet: Fleet) -> dict[str, str]:
    """Of all jobs, as the API has them."""

    async def read(api: ApiClient) -> dict[str, str]:
        path = FEDERATED_LEARNING_JOB.collection(fleet.namespace)
        found = await api.request("GET", path, timeout=REQUEST_TIMEOUT)
        metadata = [it["metadata"] for it in found["items"]]
        return {it["name"]: it["resourceVersion"] for it in metadata}

    return fleet.world.play(read)


def _wait_same(fleet: Fleet) -> None:
    """Until all LCs have the newest of their jobs, and GM has nothing to add."""

    def is_same() -> bool:
        newest = _versions(fleet)
        found: dict[str, list[str]] = {name: [] for name in newest}
        for edge in fleet.edges:
            for name, version in _known(edge).items():
                if version == newest.get(name):
                    found[name].append(edge.name)
        return all(len(it) == NODES_OF_A_JOB for it in found.values())

    wait_for(is_same, timeout=PATIENCE, what="jobs in LCs", interval=0.2)


def _known(edge: EdgeNode) -> dict[str, str]:
    answer = ask(edge.lc.port, "/sedna/objects")
    objects = json.loads(answer.body)["objects"] if answer is not None else []
    kind = FEDERATED_LEARNING_JOB.singular
    return {it["name"]: it["resourceVersion"] for it in objects if it["kind"] == kind}


def _wait_still(fleet: Fleet) -> None:
    """Until nothing changes any more: conditions of jobs that were just made."""
    versions: dict[str, str] = {}
    while versions != (versions := _versions(fleet)):
        sleep(STILL)


class _Watcher:
    """A node's watches without a selector, behind a link of its own."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._link = FaultProxy(plane.port)
        self._caller = Caller(self._link.url, context=plane.tls())
        self._namespace = namespace
        self._stack = ExitStack()
        self._jobs: Watching | None = None

    def __enter__(self) -> Self:
        self._stack.enter_context(self._link)
        for kind in (DATASET, MODEL, FEDERATED_LEARNING_JOB):
            watching = self._caller.watch(kind.collection(self._namespace))
            self._jobs = self._stack.enter_context(watching)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def bytes(self) -> int:
        """Up to now, both directions."""
        traffic = self._link.traffic()
        return traffic.request_bytes + traffic.response_bytes

    def wait(self, versions: dict[str, str]) -> None:
        """Until the newest of each job was told."""
        wait_for(lambda: self._has(versions), timeout=PATIENCE, what="changes")

    def _has(self, versions: dict[str, str]) -> bool:
        assert self._jobs is not None
        told = {it.name: str(it.version) for it in list(self._jobs.seen)}
        return told == versions
