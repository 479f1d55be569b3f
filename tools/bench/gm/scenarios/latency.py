"""From the request that creates a dataset to the moment at which LC has it: over GM's stream, and
through the relay in its pod.

Guarantee: the clock starts before the request is sent, and stops when LC has written the dataset
down: with the last change of its store's file before the first answer of LC that names the dataset.
LC is asked after each such change only, so that it is not kept busy by the benchmark. GM's pod goes
to the API server straight.
"""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles

import aiohttp

from edge_sidecars.kubeapi import ApiClient
from edge_sidecars.sedna_api.core.kinds import DATASET
from lc.store.database import NAME
from tools.bench.gm.manifests import dataset
from tools.bench.gm.world import Fleet, World, post
from tools.bench.progress import say
from tools.bench.runner import Options
from tools.bench.samples import Result
from tools.harness.pods.edge_node import RELAY

COUNT = 100
# Not timed: connections are made, code is loaded.
WARM_UP = 10
# Seconds between two datasets, in which the one before is counted, reported and taken in; between
# two looks at the file; and without a change of the file until LC is asked all the same.
SPACING = 0.3
LOOK_INTERVAL = 0.0002
PATIENCE = 0.01
LATENCIES = {"active-standby": "latency-stream", RELAY: "latency-relay"}


def latencies(world: World, options: Options) -> list[Result]:
    results = []
    for mode, name in LATENCIES.items():
        result = Result(name)
        with Fleet(world, mode=mode, is_linked=False) as fleet:
            for run in range(options.runs):
                delays = _delays(world, fleet, run)
                cuts = quantiles(delays, n=100)
                sample = {"p50": cuts[49], "p99": cuts[98], "max": max(delays)}
                result.samples.append(sample)
                say(f"{name}: " + " ".join(f"{key}={it:.3g}" for key, it in sample.items()))
        results.append(result)
    return results


def _delays(world: World, fleet: Fleet, run: int) -> Sequence[float]:
    """Milliseconds."""
    [edge] = fleet.edges
    collection = DATASET.collection(fleet.namespace)
    store = edge.lc.data_dir / f"{NAME}-wal"

    async def play(api: ApiClient) -> list[float]:
        delays = []
        async with aiohttp.ClientSession(edge.lc.url) as session:
            for number in range(WARM_UP + COUNT):
                name = f"l-{run}-{number:04}"
                manifest = dataset(name, edge.name)
                before = _written(store)
                began = time.monotonic()
                creating = asyncio.create_task(post(api, collection, manifest))
                delays.append((await _known_at(session, name, store, before) - began) * 1000)
                await creating
                await api.request("DELETE", f"{collection}/{name}", timeout=10, pooled=True)
                await asyncio.sleep(SPACING)
        return delays[WARM_UP:]

    return world.play(play)


async def _known_at(
    session: aiohttp.ClientSession, name: str, store: Path, before: object
) -> float:
    """Monotonic seconds."""
    while True:
        at, before = await asyncio.to_thread(_change, store, before)
        async with session.get("/sedna/objects") as answer:
            if name.encode() in await answer.read():
                return at


def _change(store: Path, before: object) -> tuple[float, object]:
    """When the file was no longer as before, or patience ended; and how it was then."""
    until = time.monotonic() + PATIENCE
    while (now := time.monotonic()) < until and _written(store) == before:
        time.sleep(LOOK_INTERVAL)
    return now, _written(store)


def _written(store: Path) -> object:
    status = store.stat()
    return status.st_mtime_ns, status.st_size
