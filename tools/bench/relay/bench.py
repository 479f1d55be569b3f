"""relay-sidecar beside the kube-apiserver that it stands for, under the same load."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.bench.relay.scenarios import (
    beside,
    fanout,
    many,
    memory,
    offline,
    reads,
    recovery,
    shards,
    sharing,
    slow,
    start,
)
from tools.bench.relay.targets import rows
from tools.bench.relay.world import World
from tools.bench.runner import Bench
from tools.bench.table import Heads
from tools.harness.controlplane.cluster import ControlPlane


@contextmanager
def _world() -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="edge-sidecars-bench-") as folder, ControlPlane() as it:
        yield World(it, Path(folder))


BENCH = Bench(
    about=__doc__ or "",
    options={
        "runs": (3, "of each measurement"),
        "seconds": (5.0, "of each load"),
        "cut": (60.0, "seconds without link"),
        "events": (20_000, "that the slow reader leaves unread"),
    },
    families={
        "list": reads.lists,
        "get": reads.gets,
        "newest": reads.newest,
        "caller": reads.of_callers,
        "beside": beside.beside,
        "shards": shards.shards,
        "watch": fanout.watches,
        "cpu": fanout.cpu,
        "sharing": sharing.sharing,
        "memory": memory.memories,
        "pages": memory.open_pages,
        "start": start.starts,
        "offline": offline.answers_while_cut,
        "recovery": recovery.recoveries,
        "many": many.many_streams,
        "slow": slow.slow_reader,
    },
    parts={"cpu": "watch"},
    world=_world,
    rows=lambda results, options: rows(results),
    heads=Heads("relay-sidecar", "kube-apiserver itself", "lite-apiserver | yurthub"),
    notes=lambda results: ["figures of peers were measured earlier, on a machine of this kind"],
)
