"""Nodes behind relays with real kubelets, beside one without; needs what `make test-node` needs."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.bench.node.families import heals, reboots, rest
from tools.bench.node.rows import rows
from tools.bench.runner import Bench, Unprepared
from tools.bench.table import Heads
from tools.harness.containers.engine.engine import NoEngine, engine
from tools.harness.containers.engine.lab import DockerLab
from tools.harness.nodes.cluster import NodeCluster
from tools.harness.nodes.programs import versions
from tools.images.base import NoBase, base_image


@contextmanager
def _world() -> Iterator[NodeCluster]:
    """Raises Unprepared without an engine or its base image."""
    try:
        with (
            tempfile.TemporaryDirectory(prefix="edge-sidecars-bench-") as folder,
            engine() as client,
            DockerLab(client, base=base_image(client)) as docker_lab,
            NodeCluster(client, docker_lab, Path(folder)) as cluster,
        ):
            cluster.install_relays()
            cluster.apply_workloads()
            yield cluster
    except (NoBase, NoEngine) as error:
        raise Unprepared(str(error)) from error


BENCH = Bench(
    about=__doc__ or "",
    options={"runs": (5, "reboots, and cuts"), "seconds": (600.0, "of rest")},
    families={"reboot": reboots, "heal": heals, "rest": rest},
    world=_world,
    rows=lambda results, options: rows(results),
    heads=Heads("relay", "no relay", "lite-apiserver / yurthub"),
    notes=lambda results: ["figures of peers were measured earlier, on a machine of this kind"],
    facts=lambda: dict(versions()),
)
