"""What the kernel says about a process: memory and processor time; how fast a processor is now."""

import time
from dataclasses import dataclass
from pathlib import Path

KIB = 1024
MIB = 1024 * 1024
# include/linux/posix-timers.h: the clock of a whole process, as clockid_t.
_CPUCLOCK_SCHED = 2
# Of our own processes: the images run them so (`tools/images/assemble.py`).
AS_IN_IMAGES = {"PYTHONOPTIMIZE": "2"}
# Some hundredths of a second.
_LOOP = 2_000_000


@dataclass(frozen=True)
class Memory:
    """Bytes."""

    rss: int
    pss: int
    private: int
    shared: int

    def share_of(self, count: int) -> float:
        """PSS where exactly `count` processes share what is shared: not fewer, and nobody else
        who happens to run the same interpreter on this machine."""
        return self.private + self.shared / count


def memory(pid: int) -> Memory:
    """proc(5), smaps_rollup."""
    sizes: dict[str, int] = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, size, *_ = line.split()
        sizes[name.rstrip(":")] = int(size) * KIB
    return Memory(
        rss=sizes["Rss"],
        pss=sizes["Pss"],
        private=sizes["Private_Clean"] + sizes["Private_Dirty"],
        shared=sizes["Shared_Clean"] + sizes["Shared_Dirty"],
    )


def cpu_seconds(pid: int) -> float:
    """utime + stime of all threads, ended ones included, to the nanosecond."""
    return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)


def pace_of_machine() -> float:
    """Milliseconds of processor time that a loop of always the same length takes: where neighbours
    share the processor, processor times mean as much as this is steady."""
    started_at = time.process_time()
    sum(range(_LOOP))
    return (time.process_time() - started_at) * 1000
