"""`python -m tools.explore`: all schedules of faults upon the pure cores of elector-sidecar.

Prints for each configuration how many distinct states and schedules it saw, and for a broken
promise the shortest schedule, as a test to be saved. Exit code: 0 if no promise was broken.
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

from tools.explore.play import as_test
from tools.explore.search import Report
from tools.explore.suite import DEEP, SUITE, Task, explore


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools.explore", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument(
        "--deep",
        action="store_true",
        help="one fault more, other faults, and half steps: an hour on two cores",
    )
    parser.add_argument("--only", default="", help="configurations whose call contains this")
    parser.add_argument("--processes", type=int, default=2)
    return parser.parse_args()


def _line(task: Task, report: Report) -> str:
    found = "BROKEN" if report.violation else "good"
    return (
        f"{found}: {task.call}: {report.states} states, {report.schedules} schedules, "
        f"{report.seconds:.0f}s; calm again within {report.longest} steps"
    )


def main() -> int:
    arguments = _arguments()
    tasks = [it for it in (DEEP if arguments.deep else SUITE) if arguments.only in it.call]
    began = time.monotonic()
    states, broken = 0, 0
    with ProcessPoolExecutor(arguments.processes, max_tasks_per_child=1) as pool:
        running = {pool.submit(explore, task): task for task in tasks}
        for done in as_completed(running):
            task, report = running[done], done.result()
            states += report.states
            print(_line(task, report), flush=True)
            if report.violation is not None:
                broken += 1
                print(report.violation.what)
                print(as_test(report.violation, config=task.call), flush=True)
    seconds = time.monotonic() - began
    print(f"{states} states in {len(tasks)} configurations, {broken} broken, {seconds:.0f}s")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
