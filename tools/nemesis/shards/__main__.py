"""`python -m tools.nemesis.shards --minutes 30 --seed 7 --members 5 --shards 256`: random faults
upon electors with shards.

Prints every fault when it has ended and a summary. Exit code: 0 if no promise was broken.
"""

import argparse
import random
import sys
import threading
import time

from tools.harness.controlplane.cluster import ControlPlane
from tools.nemesis.shards.nemesis import Outcome, ShardNemesis
from tools.nemesis.shards.testbed import ShardTestbed

_LOCK = threading.Lock()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools.nemesis.shards", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, help="default: drawn and printed")
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--shards", type=int, default=64)
    return parser.parse_args()


def say(line: str) -> None:
    with _LOCK:
        print(time.strftime("%H:%M:%S"), line, flush=True)


def _summary(outcome: Outcome, *, seed: int) -> str:
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(outcome.counts.items()))
    healed = "never" if outcome.healed_in is None else f"after {outcome.healed_in:.2f}s"
    lines = [
        f"seed {seed}: {'good' if outcome.is_good else 'BROKEN'}",
        f"{outcome.faults} faults: {kinds}",
        f"{outcome.terms} acquisitions of shards in {outcome.answers} answers, "
        f"{len(outcome.findings)} with two owners",
        f"every shard owned after healing: {healed}",
        *(f"BROKEN: {complaint}" for complaint in outcome.complaints),
    ]
    return "\n".join(lines)


def main() -> int:
    arguments = _arguments()
    seed = random.SystemRandom().randrange(1_000_000) if arguments.seed is None else arguments.seed
    members, shards = arguments.members, arguments.shards
    say(f"seed {seed}, {arguments.minutes:g} minutes, {members} members, {shards} shards")
    with ControlPlane() as plane:
        namespace = plane.create_namespace("nemesis")
        with ShardTestbed(plane, namespace, members=members, shards=shards) as testbed:
            outcome = ShardNemesis(testbed, seed=seed, say=say).run(arguments.minutes * 60)
    say(_summary(outcome, seed=seed))
    return 0 if outcome.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
