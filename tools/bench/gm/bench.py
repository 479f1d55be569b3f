"""GM and LC beside what Sedna's own binaries reached, on a real API server."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.bench.gm.scenarios import (
    crowd,
    datasets,
    failover,
    jobs,
    latency,
    reconnect,
    shards,
    storm,
)
from tools.bench.gm.targets import rows
from tools.bench.gm.world import World
from tools.bench.runner import Bench
from tools.bench.table import Heads
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.schemas import sedna_kinds


@contextmanager
def _world() -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="edge-sidecars-bench-") as folder, ControlPlane() as it:
        sedna_kinds.install(it)
        with World(it, Path(folder)) as world:
            yield world


BENCH = Bench(
    about=__doc__ or "",
    options={
        "runs": (3, "of each measurement"),
        "seconds": (30.0, "of rest in which traffic is counted"),
    },
    families={
        "burst": datasets.burst,
        "deleted": datasets.deletions,
        "restart": datasets.restarts,
        "statuses": datasets.statuses,
        "idle": datasets.idle,
        "lc-memory": datasets.memory,
        "pages": datasets.open_pages,
        "jobs": jobs.rates,
        "jobs-lost": jobs.lost,
        "jobs-doubled": jobs.doubled,
        "shards": shards.shares,
        "crowd": crowd.crowd,
        "latency": latency.latencies,
        "failover": failover.failovers,
        "reconnect": reconnect.reconnects,
        "storm": storm.storms,
    },
    world=_world,
    rows=lambda results, options: rows(results),
    heads=Heads("gm and lc", "reference", "Sedna (documents)"),
    notes=lambda results: [
        "figures of Sedna are the contract's: measured earlier, on a machine of this kind",
        "references: a bare loop of the same writes; one leader; watches without a selector",
    ],
)
