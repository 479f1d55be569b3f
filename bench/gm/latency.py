"""From the request that creates a dataset to the moment at which LC has it: over GM's stream, and
through the relay in its pod.

Guarantee: the clock starts before the request is sent, and stops with the answer of LC's own
endpoint that names the dataset; it is asked each millisecond. GM's pod goes to the API server
straight.
"""

import asyncio
import time
from collections.abc import Sequence
from statistics import quantiles

import aiohttp

from bench.gm.manifests import dataset
from bench.gm.result import Result
from bench.gm.world import Fleet, Options, World, post
from bench.progress import say
from kubeapi import ApiServer
from sedna_api.core.kinds import DATASET
from tests.pods.edge_node import RELAY

COUNT = 100
# Not timed: connections are made, code is loaded.
WARM_UP = 10
# Seconds between two datasets, in which the one before is counted, reported and taken in; and
# between two questions.
SPACING = 0.3
INTERVAL = 0.001
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

    async def play(api: ApiServer) -> list[float]:
        delays = []
        async with aiohttp.ClientSession(edge.lc.url) as session:
            for number in range(WARM_UP + COUNT):
                name = f"l-{run}-{number:04}"
                manifest = dataset(name, edge.name)
                began = time.monotonic()
                creating = asyncio.create_task(post(api, collection, manifest))
                await _wait_known(session, name)
                delays.append((time.monotonic() - began) * 1000)
                await creating
                await api.request("DELETE", f"{collection}/{name}", timeout=10, kept=True)
                await asyncio.sleep(SPACING)
        return delays[WARM_UP:]

    return world.play(play)


async def _wait_known(session: aiohttp.ClientSession, name: str) -> None:
    while True:
        async with session.get("/sedna/objects") as answer:
            if name.encode() in await answer.read():
                return
        await asyncio.sleep(INTERVAL)
