"""`python -m tools.nemesis.pool --minutes 30 --seed 1`: random faults upon a pool of five nodes.

Real kube-apiserver, etcd, controllers and scheduler; nodes in network namespaces, each with a link
to the cloud and a LAN of its own to break. Needs root. Prints every fault when it has ended and a
summary. Exit code: 0 if no invariant was broken.
"""

import argparse
import random
import sys
import threading
import time
from collections import Counter

from tools.harness.controlplane.cluster import ControlPlane
from tools.nemesis.pool.nemesis import STORM, Outcome, PoolNemesis
from tools.nemesis.pool.plays import LONG_SCENES, SCENES
from tools.nemesis.pool.testbed import PoolTestbed
from tools.nemesis.vip.network import NoNamespaces

INVARIANTS = (
    "writers",
    "N1",
    "N2",
    "N3",
    "evicted",
    "in time",
    "Unknown",
    "control",
    "watch",
    "listed",
    "one stream",
    "calm",
)
_LOCK = threading.Lock()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools.nemesis.pool", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, help="default: drawn and printed")
    plays = (STORM, *SCENES, *LONG_SCENES)
    parser.add_argument("--only", choices=plays, default="", help="one play, again and again")
    parser.add_argument(
        "--grace-period",
        type=float,
        metavar="SECONDS",
        help="until a silent node is Unknown, default 30; nodes renew six times in as many",
    )
    parser.add_argument("--logs", action="store_true", help="print the logs of a broken run")
    return parser.parse_args()


def say(line: str) -> None:
    with _LOCK:
        print(time.strftime("%H:%M:%S"), line, flush=True)


def _summary(outcome: Outcome, *, seed: int) -> str:
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(outcome.counts.items()))
    played = ", ".join(f"{name} {count}" for name, count in sorted(outcome.plays.items()))
    evicted = ", ".join(f"{count} of {app}" for app, count in sorted(outcome.evicted.items()))
    found = Counter(it.partition(":")[0] for it in outcome.findings)
    kept = ", ".join(f"{name} {found[name]}" for name in INVARIANTS)
    lines = [
        f"seed {seed}: {'good' if outcome.is_good else 'BROKEN'}",
        f"{outcome.counts.total()} faults: {kinds}",
        f"played: {played}",
        f"findings: {kept}",
        f"nodes turned Unknown {outcome.lost} times, were judged dead {outcome.deaths} times, "
        f"{outcome.judged} times had to be in time; "
        f"pods that left: {evicted or 'none'}; {outcome.renewals} renewals of nodes' Leases; "
        f"well again after {outcome.slowest:.0f} s at the most",
        *(f"BROKEN: {finding}" for finding in outcome.findings),
    ]
    return "\n".join(lines)


def main() -> int:
    arguments = _arguments()
    seed = random.SystemRandom().randrange(1_000_000) if arguments.seed is None else arguments.seed
    say(f"seed {seed}, {arguments.minutes:g} minutes")
    try:
        with (
            ControlPlane(has_nodes=True) as plane,
            PoolTestbed(plane, say, grace_period=arguments.grace_period) as testbed,
        ):
            outcome = PoolNemesis(testbed, seed=seed, say=say).run(
                arguments.minutes * 60, only=arguments.only
            )
            if arguments.logs and not outcome.is_good:
                for name, text in testbed.logs().items():
                    say(f"log of {name}:\n{text}")
    except NoNamespaces as error:
        say(f"no network namespaces can be made here: {error}")
        return 2
    say(_summary(outcome, seed=seed))
    return 0 if outcome.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
