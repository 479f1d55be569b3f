"""What every program measures about its own process, by the names that Prometheus' clients use.

See https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics. Read from /proc at
the scrape; nothing is kept between two of them.
"""

import os
import resource
from functools import cache
from pathlib import Path

from edge_sidecars.runtime.metrics import Metric, counter, gauge
from edge_sidecars.runtime.version import VERSION

_PROC = Path("/proc")
# proc(5): fields of /proc/self/stat after the command's closing bracket, which is the second field.
_START_TIME = 22 - 3
_RSS = 24 - 3


def measure() -> list[Metric]:
    """`/proc` has to be there, as on every Linux that runs Python."""
    fields = (_PROC / "self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    times = os.times()
    started = int(fields[_START_TIME]) / os.sysconf("SC_CLK_TCK")
    return [
        gauge(
            "edge_sidecars_build_info",
            "1; the label has the version of the program.",
            [(VERSION, 1.0)],
            label="version",
        ),
        counter(
            "process_cpu_seconds_total",
            "Processor time of the process, in seconds.",
            times.user + times.system,
        ),
        gauge(
            "process_resident_memory_bytes",
            "Memory of the process that is in RAM.",
            float(int(fields[_RSS]) * os.sysconf("SC_PAGE_SIZE")),
        ),
        gauge(
            "process_open_fds",
            "Open files and connections.",
            float(len(os.listdir(_PROC / "self/fd"))),
        ),
        gauge(
            "process_max_fds",
            "Limit of open files and connections.",
            float(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        ),
        gauge(
            "process_start_time_seconds",
            "When the process started, as a Unix time.",
            _boot_time() + started,
        ),
    ]


@cache
def _boot_time() -> float:
    """Read once, so that a clock that is set does not make the start move."""
    lines = (_PROC / "stat").read_text(encoding="utf-8").splitlines()
    return float(next(line for line in lines if line.startswith("btime ")).split()[1])
