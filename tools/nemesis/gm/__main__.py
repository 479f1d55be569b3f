"""`python -m tools.nemesis.gm --minutes 10 --seed 1 --mode relay`: the ordeal of GM and LC.

Three GMs, of which one leads or, with `--leadership shards`, each decides about its share; twenty
LCs, a thousand objects, people at work, random kills, freezes and cuts. Prints every fault when it
has ended and a summary. Exit code: 0 if nothing was doubled, nothing was lost, and everything was
final and right in time after the last healing.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.controller_manager import ControllerManager
from tools.harness.controlplane.schemas import sedna_kinds
from tools.harness.pods.gm import LEASE_FLAGS, SHARD_FLAGS
from tools.harness.pods.system import MODES, System
from tools.harness.system.ordeal import SHOWN, Ordeal, Outcome
from tools.harness.system.workers import Workers
from tools.harness.system.workload import Workload

LEADERSHIPS = ("leader", "shards")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools.nemesis.gm", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, help="default: drawn and printed")
    parser.add_argument("--mode", choices=MODES, default=MODES[0])
    parser.add_argument("--leadership", choices=LEADERSHIPS, default=LEADERSHIPS[0])
    parser.add_argument("--gms", type=int, default=3)
    parser.add_argument("--lcs", type=int, default=20)
    parser.add_argument("--objects", type=int, default=1000, help="at the beginning")
    return parser.parse_args()


def say(line: str) -> None:
    with _LOCK:
        print(time.strftime("%H:%M:%S"), line, flush=True)


_LOCK = threading.Lock()


def _play(arguments: argparse.Namespace, seed: int, folder: Path) -> Outcome:
    workers = Workers()
    edges = [f"edge-{number}" for number in range(arguments.lcs)]
    with ControlPlane() as plane:
        sedna_kinds.install(plane)
        with (
            ControllerManager(plane),
            System(
                plane,
                folder,
                mode=arguments.mode,
                gms=arguments.gms,
                edges=edges,
                plan_of=workers.plan_of,
                gm_flags=(f"--leadership={arguments.leadership}",),
                lease_flags=SHARD_FLAGS if arguments.leadership == "shards" else LEASE_FLAGS,
            ) as system,
        ):
            workload = Workload(system, workers, seed=seed)
            workload.begin(arguments.objects)
            say(f"{workload.objects} objects stand")
            ordeal = Ordeal(system, workers, workload, seed=seed, say=say)
            return ordeal.run(arguments.minutes * 60)


def main() -> int:
    arguments = _arguments()
    seed = random.SystemRandom().randrange(1_000_000) if arguments.seed is None else arguments.seed
    played = f"seed {seed}, mode {arguments.mode}, leadership {arguments.leadership}"
    say(f"{played}, {arguments.minutes:g} minutes")
    with tempfile.TemporaryDirectory(prefix="nemesis-gm-") as folder:
        outcome = _play(arguments, seed, Path(folder))
    is_good = not outcome.findings and outcome.settled_in is not None
    say(f"{played}: {'good' if is_good else 'BROKEN'}: {outcome}")
    for finding in outcome.findings[:SHOWN]:
        say(f"BROKEN: {finding}")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
