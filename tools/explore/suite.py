"""What `make explore` explores: the longest first, so that two processes end together."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from elector_sidecar.core.timing import Timing
from tools.explore.actors.actor import Pace
from tools.explore.search import Config, Report, Search
from tools.explore.shards import sharded
from tools.explore.single import single

# Each fault in one length: longer than a lease, or than what waits for it.
LONG = Pace(
    step=1.0,
    crash=(5,),
    freeze=(5,),
    cut=(2,),
    late_request=(4,),
    late_answer=(1,),
    late_events=(5,),
)
NONE = replace(
    LONG,
    crash=(),
    freeze=(),
    cut=(),
    late_request=(),
    late_answer=(),
    late_events=(),
    is_lossy=False,
)
# No single message is lost or late: what befalls processes, links and the store.
PROCESSES = replace(LONG, late_request=(), late_answer=(), late_events=(), is_lossy=False)
# The same, with crashes after which the process is back within its lease.
RESTARTS = replace(PROCESSES, crash=(1,))
# The same at a moment and for a length that lie between two steps.
FINE = replace(
    LONG,
    step=0.5,
    crash=(9,),
    freeze=(9,),
    cut=(3,),
    late_request=(7,),
    late_answer=(1,),
    late_events=(9,),
)
# A lease of three steps, so that four leases are twelve.
SHORT = Timing(lease_duration=3, renew_interval=1, request_timeout=1.5)
NAMES: dict[str, Callable[..., Config] | Pace | Timing] = {
    "single": single,
    "sharded": sharded,
    "LONG": LONG,
    "FINE": FINE,
    "NONE": NONE,
    "PROCESSES": PROCESSES,
    "RESTARTS": RESTARTS,
    "SHORT": SHORT,
}


@dataclass(frozen=True)
class Task:
    """A configuration by the call that makes it, which is what a play is written with."""

    call: str

    def config(self) -> Config:
        made = eval(self.call, {"__builtins__": {}}, dict[str, Any](NAMES))
        assert isinstance(made, Config)
        return made


def explore(task: Task) -> Report:
    return Search(task.config()).run()


SUITE = [
    Task('single(rates=(1.0, 1.0), client_go="0.37", faults=3, pace=PROCESSES, is_settled=True)'),
    Task(
        "sharded(rates=(1.0, 1.0, 1.0), shards=3, faults=2, pace=PROCESSES, is_settled=True, "
        "timing=SHORT)"
    ),
    Task('single(rates=(1.0, 1.0), client_go="0.37", faults=2, pace=LONG)'),
    Task('single(rates=(1.0, 1.0), client_go="0.26", faults=2, pace=LONG)'),
    Task("single(rates=(1.0, 1.0), faults=2)"),
    Task("single(rates=(0.95, 1.0), faults=2)"),
    Task("single(rates=(1.0, 1.0), faults=2, resumes=True)"),
    # An administrator asks for switchovers, also to a pod that is gone, and for holds.
    Task('single(rates=(1.0, 1.0), faults=2, targets=("pod-1", "pod-9"), pace=LONG)'),
    Task("single(rates=(1.0, 1.0), faults=2, restores=0, priorities=(1, 0), pace=PROCESSES)"),
    # Processes are back within their lease and go on, whatever is asked of the Lease meanwhile.
    Task(
        'single(rates=(1.0, 1.0), faults=2, restores=0, resumes=True, targets=("pod-1",), '
        "priorities=(1, 0), pace=RESTARTS)"
    ),
    Task(
        'single(rates=(1.0, 1.0), faults=2, resumes=True, targets=("pod-1", "pod-9"), '
        "pace=RESTARTS)"
    ),
    # All members are away for so long that the candidate takes the table, and come back.
    Task(
        'sharded(rates=(1.0,), shards=2, client_go="0.26", faults=2, restores=0, '
        "pace=PROCESSES, is_settled=True)"
    ),
    # Electors are back within their leases and go on as the members that they were.
    Task(
        "sharded(rates=(1.0, 1.0), shards=2, faults=2, restores=0, resumes=True, leases=3.0, "
        "pace=RESTARTS, is_settled=True)"
    ),
    # The store is put back to any earlier state, and nothing else goes wrong.
    Task("sharded(rates=(1.0, 1.0), shards=2, faults=1, leases=1.5, pace=NONE)"),
]
# One fault more, other faults, or finer steps.
DEEP = [
    Task("single(rates=(1.0, 1.0), faults=3, pace=LONG)"),
    Task('single(rates=(1.0, 1.0), client_go="0.26", faults=3, pace=PROCESSES, is_settled=True)'),
    *SUITE,
    Task('single(rates=(1.0, 1.0), client_go="0.26", faults=2, pace=FINE)'),
    Task('single(rates=(1.0, 1.0), client_go="0.37", faults=2, pace=FINE)'),
    Task('single(rates=(1.0, 1.0), faults=2, targets=("pod-1", "pod-9"), pace=FINE)'),
    Task('sharded(rates=(1.0, 1.0), shards=2, client_go="0.26", faults=1, restores=0, pace=LONG)'),
    Task("single(rates=(0.95, 1.0), faults=2, pace=FINE)"),
    Task(
        "sharded(rates=(1.0, 1.0, 1.0), shards=3, faults=1, pace=LONG, is_settled=True, "
        "timing=SHORT)"
    ),
    Task(
        "sharded(rates=(1.0, 1.0, 1.0), shards=3, faults=1, pace=FINE, is_settled=True, "
        "timing=SHORT)"
    ),
]
