"""`python -m tools.nemesis.vip --faults 100 --seed 1 [--nodes 3] [--on containers]`: random faults.

Nodes are network namespaces, or pods of the images of this checkout. Prints every fault when it
has ended and a summary. Exit code: 0 if no promise was broken.
"""

import argparse
import random
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tools.harness.controlplane.cluster import ControlPlane
from tools.nemesis.vip.keepalived_nodes import VipTestbed
from tools.nemesis.vip.nemesis import Ground, Nemesis, Outcome

SHOWN = 10


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools.nemesis.vip", description=(__doc__ or "").split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, help="default: drawn and printed")
    parser.add_argument("--nodes", type=int, default=3, choices=(2, 3))
    parser.add_argument("--on", default="namespaces", choices=("namespaces", "containers"))
    return parser.parse_args()


_LOCK = threading.Lock()


def say(line: str) -> None:
    with _LOCK:
        print(time.strftime("%H:%M:%S"), line, flush=True)


def _summary(outcome: Outcome, *, seed: int) -> str:
    counts = ", ".join(f"{kind} {count}" for kind, count in sorted(outcome.counts.items()))
    gaps = outcome.gaps or [0.0]
    healed = "never" if outcome.settled_in is None else f"after {outcome.settled_in:.1f}s"
    lines = [
        f"seed {seed}: {'good' if outcome.is_good else 'BROKEN'}",
        f"{sum(outcome.counts.values())} faults: {counts}",
        f"{outcome.hand_overs} hand-overs; an owner for {outcome.owned:.0%} of the time; "
        f"gaps: median {statistics.median(gaps):.1f}s, longest {max(gaps):.1f}s",
        f"an owner that leads, after healing: {healed}",
        *(f"BROKEN: {each.at:.2f} {each.what}" for each in outcome.findings[:SHOWN]),
        *(f"BROKEN: {each}" for each in outcome.complaints),
    ]
    return "\n".join(lines)


@contextmanager
def _ground(on: str, nodes: int) -> Iterator[Ground]:
    if on == "containers":
        # Whoever plays in namespaces needs no Docker.
        from tools.harness.containers.vip import ground

        with ground(nodes) as pods:
            yield pods
        return
    with (
        ControlPlane() as plane,
        VipTestbed(plane, plane.create_namespace("vip"), nodes=nodes) as testbed,
    ):
        yield testbed


def main() -> int:
    arguments = _arguments()
    seed = random.SystemRandom().randrange(1_000_000) if arguments.seed is None else arguments.seed
    say(f"seed {seed}, {arguments.faults} faults, {arguments.nodes} nodes, {arguments.on}")
    with _ground(arguments.on, arguments.nodes) as ground:
        outcome = Nemesis(ground, seed=seed, say=say).run(arguments.faults)
        if not outcome.is_good:
            for spell in ground.node_observer.spells():
                say(str(spell))
            for name in ground.names:
                say(f"{name}:\n{ground.log_text(name)}")
    say(_summary(outcome, seed=seed))
    return 0 if outcome.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
