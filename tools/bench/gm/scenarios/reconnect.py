"""A thousand LCs that lose their GM at one moment: when all are served again, and how many
connections a GM had to take in one second meanwhile.

LCs are simulated in one process, with LC's own redialling, and report all the time. Guarantee: the
clock of each way starts where its promise does: with the new process's first connection, or with
the kill of the leader's pod.
"""

import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from edge_sidecars.sedna_api.core.kinds import DATASET
from tools.bench.gm.manifests import dataset
from tools.bench.gm.scenarios.crowd import CLIENTS, LCS
from tools.bench.gm.world import PATIENCE, Fleet, World
from tools.bench.pace import TookTooLong, sleep, wait_for
from tools.bench.progress import say
from tools.bench.runner import Options
from tools.bench.samples import Result, Sample
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.pods.gm import GmPod

RESTARTED, TAKEN_OVER = "reconnect-restarted", "reconnect-taken-over"
# Seconds between the kill of the only GM and its new process.
GONE_FOR = 1.0
# Seconds in which all know how many they are.
SETTLE = 10.0
# Seconds over which connections are counted.
WINDOW = 1.0
# A GM's listener, or a pod's, as it is asked for.
INTERVAL = 0.02


@dataclass(frozen=True)
class Tick:
    """What the LCs' process said: `taken` connections by address since the last tick."""

    at: float
    served: int
    taken: Counter[str]
    acked: int


@dataclass
class Lcs(AbstractContextManager["Lcs"]):
    """The process with all LCs, while it is entered."""

    fleet: Fleet
    nodes: dict[str, str]
    ticks: list[Tick] = field(default_factory=list)

    def __enter__(self) -> Self:
        folder = Path(tempfile.mkdtemp(dir=self.fleet.world.folder))
        pairs = "\n".join(f"{node} {uid}" for node, uid in self.nodes.items())
        (folder / "nodes").write_text(pairs, encoding="utf-8")
        addresses = ",".join(f"{LOOPBACK}:{pod.gm.stream_port}" for pod in self.fleet.pods)
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tools.bench.gm.scenarios.reconnect_lcs"),
                *("--addresses", addresses, "--nodes", str(folder / "nodes")),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.fleet.world.plane.guardian.watch(self._process.pid)
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reading.join()

    def wait_all(self, what: str) -> float:
        """When all were served."""
        last = len(self.ticks)

        def are_served() -> bool:
            if self._process.poll() is not None:
                raise TookTooLong("the LCs ended early")
            return any(it.served == len(self.nodes) for it in self.ticks[last:])

        wait_for(are_served, timeout=PATIENCE, what=what)
        return next(it.at for it in self.ticks[last:] if it.served == len(self.nodes))

    def most_taken(self, since: float) -> int:
        """By one GM, within any second after `since`."""
        ticks = [it for it in self.ticks if it.at >= since]
        return max(
            sum(it.taken[address] for it in ticks if tick.at - WINDOW < it.at <= tick.at)
            for tick in ticks
            for address in {address for it in ticks for address in it.taken}
        )

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            self.ticks.append(
                Tick(told["at"], told["served"], Counter(told["taken"]), told["acked"])
            )


def reconnects(world: World, options: Options) -> list[Result]:
    results = []
    for scenario, gms in ((RESTARTED, 1), (TAKEN_OVER, 3)):
        result = Result(scenario)
        results.append(result)
        with Fleet(world, gms=gms, edges=0, is_quick=True, is_linked=False) as fleet:
            nodes = _stock(fleet)
            with Lcs(fleet, nodes) as lcs:
                lcs.wait_all("all LCs")
                for _ in range(options.runs):
                    sleep(SETTLE)
                    sample = _restarted(fleet, lcs) if gms == 1 else _taken_over(fleet, lcs)
                    result.samples.append(sample)
                    said = " ".join(f"{key}={value:.3g}" for key, value in sample.items())
                    say(f"{scenario}: {said}")
    return results


def _stock(fleet: Fleet) -> dict[str, str]:
    """A dataset for each node: the uids by node."""
    names = [f"n-{number:04}" for number in range(LCS)]
    nodes = [f"{name}.{fleet.namespace}" for name in names]
    fleet.world.add_nodes(nodes)
    made = (dataset(f"d-{name}", node) for name, node in zip(names, nodes, strict=True))
    fleet.make(made, clients=CLIENTS)

    def listed() -> dict[str, str]:
        found = fleet.world.plane.admin.get(DATASET.collection(fleet.namespace))[1]["items"]
        return {it["spec"]["nodeName"]: it["metadata"]["uid"] for it in found}

    return listed()


def _restarted(fleet: Fleet, lcs: Lcs) -> Sample:
    [pod] = fleet.pods
    killed_at, acked = time.monotonic(), lcs.ticks[-1].acked
    pod.gm.kill()
    time.sleep(GONE_FOR)
    pod.gm.start()
    listens_at = _listens(pod)
    served_at = lcs.wait_all("all LCs after the start of GM")
    return _sample(lcs, killed_at, acked) | {
        "served": served_at - listens_at,
        "since_kill": served_at - killed_at,
    }


def _taken_over(fleet: Fleet, lcs: Lcs) -> Sample:
    leader = fleet.leader()
    assert leader is not None
    killed_at, acked = time.monotonic(), lcs.ticks[-1].acked
    leader.kill()
    wait_for(lambda: lcs.ticks[-1].served == 0, timeout=PATIENCE, what="LCs that notice")
    served_at = lcs.wait_all("all LCs at another GM")
    sample = _sample(lcs, killed_at, acked) | {"served": served_at - killed_at}
    leader.restart()
    leader.wait_ready()
    return sample


def _sample(lcs: Lcs, killed_at: float, acked: int) -> Sample:
    return {
        "most_taken": lcs.most_taken(killed_at),
        "reports": lcs.ticks[-1].acked - acked,
    }


def _listens(pod: GmPod) -> float:
    """When the new process took its first connection."""
    while True:
        try:
            socket.create_connection((LOOPBACK, pod.gm.stream_port), timeout=1).close()
            return time.monotonic()
        except OSError:
            time.sleep(INTERVAL)
