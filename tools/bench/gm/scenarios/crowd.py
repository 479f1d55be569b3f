"""Memory of a GM: at rest, and with ten thousand objects and a thousand LCs that are connected."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools.bench.gm.manifests import dataset
from tools.bench.gm.world import PATIENCE, Fleet, World
from tools.bench.pace import TookTooLong, sleep, wait_for
from tools.bench.process import MIB, memory
from tools.bench.progress import say
from tools.bench.runner import Options
from tools.bench.samples import Result, Sample
from tools.harness.controlplane.reservation import LOOPBACK

LCS = 1000
OBJECTS = 10_000
CLIENTS = 32
# Seconds until what a start or a crowd needed for a moment is given back.
SETTLE = 5.0
CROWD = "crowd"


def crowd(world: World, options: Options) -> list[Result]:
    result = Result(CROWD)
    for _ in range(options.runs):
        with Fleet(world, edges=0) as fleet:
            result.samples.append(_measured(fleet))
        said = " ".join(f"{key}={value:.3g}" for key, value in result.samples[-1].items())
        say(f"{CROWD}: {said}")
    return [result]


def _measured(fleet: Fleet) -> Sample:
    [pod] = fleet.pods
    sleep(SETTLE)
    idle = memory(pod.gm.pid).rss
    nodes = [f"n-{number:04}.{fleet.namespace}" for number in range(LCS)]
    fleet.world.add_nodes(nodes)
    fleet.make(
        (dataset(f"d-{number:05}", nodes[number % LCS]) for number in range(OBJECTS)),
        clients=CLIENTS,
    )
    wait_for(lambda: _objects(pod.gm.status()) == OBJECTS, timeout=PATIENCE, what="objects in GM")
    sleep(SETTLE)
    full = memory(pod.gm.pid).rss
    with _lcs(fleet, f"{LOOPBACK}:{pod.gm.stream_port}", nodes) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise TookTooLong("the LCs ended early")
        told = json.loads(line)
        sleep(SETTLE)
        connected = memory(pod.gm.pid).rss
        assert len(pod.gm.status()["nodes"]) == LCS
        process.kill()
    return {
        "idle": idle / MIB,
        "objects": full / MIB,
        "connected": connected / MIB,
        "seconds": told["seconds"],
        "missing": OBJECTS - told["objects"],
    }


def _objects(status: dict[str, Any]) -> int:
    return sum(it["objects"] for it in status["collections"] if it["kind"] == "dataset")


def _lcs(fleet: Fleet, address: str, nodes: list[str]) -> "subprocess.Popen[str]":
    """All that come at once."""
    folder = Path(tempfile.mkdtemp(dir=fleet.world.folder))
    (folder / "nodes").write_text("\n".join(nodes), encoding="utf-8")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "tools.bench.gm.scenarios.crowd_lcs"),
            *("--address", address, "--nodes", str(folder / "nodes")),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    fleet.world.plane.guardian.watch(process.pid)
    return process
