"""What the kernel says about a process: memory and processor time."""

import time
from dataclasses import dataclass
from pathlib import Path

KIB = 1024
MIB = 1024 * 1024
# include/linux/posix-timers.h: the clock of a whole process, as clockid_t.
_CPUCLOCK_SCHED = 2


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
