"""`python -m tools.mutants`: makes each recorded fault and runs the tests that must find it.

Exit status 0 only if all tests pass without a fault, and each fault makes all of its tests fail.
"""

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tools.mutants.overlay import run, run_mutant
from tools.mutants.table import Mutant, Outdated, read

# The first line of a pytest report that is shown of a survivor is seldom the one that explains.
SHOWN = 1500


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="TEXT", help="only mutants whose name has it")
    parser.add_argument("--processes", type=int, default=2, help="so many at a time")
    options = parser.parse_args(arguments)
    chosen = [it for it in read() if not options.names or _is_chosen(it, options.names)]
    if not chosen:
        print("mutants: no mutant has such a name", file=sys.stderr)
        return 2
    began = time.monotonic()
    tests = sorted({test for mutant in chosen for test in mutant.tests})
    before = run(tests)
    if missing := [it for it in tests if it not in before.ran or it in before.failed]:
        print(before.text[-SHOWN:])
        print(f"mutants: without a fault these do not pass: {', '.join(missing)}")
        return 1
    with ThreadPoolExecutor(options.processes) as pool:
        verdicts = list(pool.map(_verdict, chosen))
    for mutant, (verdict, seconds) in zip(chosen, verdicts, strict=True):
        print(f"{verdict.partition(':')[0]:9} {seconds:5.1f}s  {mutant.name}")
    bad = [it for it, _ in verdicts if it != "killed"]
    print("\n".join(bad))
    print(
        f"mutants: {len(chosen) - len(bad)} of {len(chosen)} killed "
        f"in {time.monotonic() - began:.0f}s"
    )
    return 1 if bad else 0


def _is_chosen(mutant: Mutant, names: list[str]) -> bool:
    return any(it in mutant.name for it in names)


def _verdict(mutant: Mutant) -> tuple[str, float]:
    began = time.monotonic()
    try:
        mutant.check_tests()
        outcome = run_mutant(mutant)
    except Outdated as error:
        return f"outdated: {error}", 0.0
    seconds = time.monotonic() - began
    survived = sorted(set(mutant.tests) - outcome.failed)
    if not survived:
        return "killed", seconds
    return f"survived: {mutant.name}: {', '.join(survived)}\n{outcome.text[-SHOWN:]}", seconds


if __name__ == "__main__":
    sys.exit(main())
