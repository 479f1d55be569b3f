"""elector-sidecar beside client-go 0.36, at the same durations of the Lease."""

import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.bench.elector.install import install
from tools.bench.elector.poller import Poller
from tools.bench.elector.scenarios import (
    cost,
    frozen,
    lease_edits,
    moves,
    outage,
    readyz,
    startup,
    takeover,
)
from tools.bench.elector.scenarios.scenario import Scenario, play_beside
from tools.bench.elector.side import World
from tools.bench.elector.targets import rows
from tools.bench.progress import say
from tools.bench.runner import Bench, Options
from tools.bench.samples import Result
from tools.bench.table import Heads
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.peers.build import candidate_binary, client_go_version

CLIENT_GO = "0.36"
TIMINGS = {
    "elector-sidecar": "lease 15 s, renewal every 2 s, request time-out 3 s (defaults)",
    "client-go": "lease 15 s, renew deadline 10 s, retry period 2 s (defaults)",
}


def _played(*groups: tuple[Scenario, ...]) -> Callable[[World, Options], Iterator[Result]]:
    """Groups one after the other; the scenarios of a group beside each other."""

    def play(world: World, options: Options) -> Iterator[Result]:
        for group in groups:
            yield from play_beside(world, group, runs=options.runs)

    return play


@contextmanager
def _world() -> Iterator[World]:
    candidate = candidate_binary(CLIENT_GO)
    with tempfile.TemporaryDirectory(prefix="edge-sidecars-bench-") as folder, ControlPlane() as it:
        say("installing the sidecar as an image would have it")
        sidecar = install(Path(folder))
        yield World(it, Poller(interval=1.0), sidecar, candidate, threading.Lock())


def _notes(results: Sequence[Result]) -> list[str]:
    beside = dict.fromkeys(it.facts["beside"] for it in results if "beside" in it.facts)
    return ["measured beside each other, in this order:", *(f"  {each}" for each in beside)]


BENCH = Bench(
    about=__doc__ or "",
    options={
        "runs": (10, "of each fault and start"),
        "window": (120.0, "seconds of rest measured for cost"),
    },
    families={
        "startup": lambda world, options: startup.startups(world, runs=options.runs),
        "readyz": lambda world, options: readyz.latencies(world),
        "cost": lambda world, options: cost.steady_state(world, window=options.window),
        "crowd": lambda world, options: cost.crowd(world, window=options.window),
        "term": _played(takeover.TERM, takeover.MAIN),
        "takeover": _played(takeover.EXPIRY),
        "outage": _played((*outage.OUTAGES, lease_edits.ORPHANED)),
        "lease": _played(lease_edits.EDITS),
        "frozen": _played(frozen.FROZEN),
        "moves": _played(moves.MOVES),
    },
    world=_world,
    rows=lambda results, options: rows(results),
    heads=Heads("elector-sidecar", "client-go"),
    notes=_notes,
    facts=lambda: {"client_go": client_go_version(CLIENT_GO), "timings": TIMINGS},
)
