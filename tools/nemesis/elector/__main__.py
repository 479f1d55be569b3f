"""`python -m tools.nemesis.elector --minutes 30 --seed 7 [--client-go 0.37]`: the electors' ordeal.

Prints every fault when it has ended, the state of affairs each minute and a summary. Exit code: 0
if no promise was broken.
"""

import argparse
import random
import sys
import threading
import time

from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.peers.build import MODULE_FILES
from tools.nemesis.elector.nemesis import SHOWN, Nemesis, Outcome
from tools.nemesis.elector.testbed import ElectionTestbed


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools.nemesis.elector", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, help="default: drawn and printed")
    parser.add_argument(
        "--client-go", choices=sorted(MODULE_FILES), help="two candidates of it on the same Lease"
    )
    return parser.parse_args()


def say(line: str) -> None:
    with _LOCK:
        print(time.strftime("%H:%M:%S"), line, flush=True)


_LOCK = threading.Lock()


def _summary(outcome: Outcome, *, seed: int) -> str:
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(outcome.counts.items()))
    healed = "never" if outcome.healed_in is None else f"after {outcome.healed_in:.2f}s"
    findings = outcome.verdict.findings
    lines = [
        f"seed {seed}: {'good' if outcome.is_good else 'BROKEN'}",
        f"{outcome.faults} faults: {kinds}",
        f"{outcome.transitions} transitions; {outcome.verdict.takeovers} acquisitions of ours, "
        f"{outcome.verdict.resumed} by a process that goes on, {outcome.verdict.asked} asked for "
        f"by a priority; {outcome.worked} terms of wrapped programs; "
        f"{outcome.verdict.unjudged} unjudged (the log lacks what was overwritten)",
        f"a leader after healing: {healed}",
        *(f"BROKEN: {finding.what}" for finding in findings[:SHOWN]),
        *([f"BROKEN: {len(findings) - SHOWN} more findings"] if len(findings) > SHOWN else []),
        *(f"BROKEN: {complaint}" for complaint in outcome.complaints),
    ]
    return "\n".join(lines)


def main() -> int:
    arguments = _arguments()
    seed = random.SystemRandom().randrange(1_000_000) if arguments.seed is None else arguments.seed
    say(f"seed {seed}, {arguments.minutes:g} minutes, client-go: {arguments.client_go or 'none'}")
    with ControlPlane() as plane:
        namespace = plane.create_namespace("nemesis")
        with ElectionTestbed(plane, namespace, client_go=arguments.client_go) as testbed:
            outcome = Nemesis(testbed, seed=seed, say=say).run(arguments.minutes * 60)
    say(_summary(outcome, seed=seed))
    return 0 if outcome.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
