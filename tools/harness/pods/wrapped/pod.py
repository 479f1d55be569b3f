"""A pod whose elector wraps a program that cannot be changed, seen by what the program writes.

Guarantee: whatever a test does to wrapper, guard or program, `stop` leaves no process behind.
"""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from elector_sidecar.wrapped.guard import descendants, send
from tools.harness.controlplane.clients.answer import boottime
from tools.harness.pods.elector import ElectorPod

WORK = Path(__file__).with_name("work.py")
# Exit statuses: of a shell, and of the program at SIGTERM.
BY_SIGNAL, CANNOT_START, ASKED_TO_END = 128, 127, 7
# Ends at SIGTERM, or only when it is killed.
OBEDIENT, DEAF = "", "deaf"


class Beat(NamedTuple):
    """One line of work: when (CLOCK_BOOTTIME), of which process, in which term."""

    at: float
    pid: int
    token: int


def beats(lines: Iterable[str]) -> Iterator[Beat]:
    """A line that says something else is passed over, as is one that is not whole."""
    for line in lines:
        words = line.split(" ")
        if len(words) == 3 and words[2]:
            yield Beat(float(words[0]), int(words[1]), int(words[2]))


class WrappedPod(ElectorPod):
    """The program is `work.py`, and begins anew whenever the pod leads again."""

    def __post_init__(self) -> None:
        super().__post_init__()
        folder = Path(tempfile.mkdtemp(prefix=f"wrapped-{self.name}-"))
        self._lines = folder / "lines"
        self._lines.touch()
        self._read = 0
        # By token the first and the last line of work.
        self._first: dict[int, Beat] = {}
        self._last: dict[int, Beat] = {}
        self._workers: set[int] = set()
        # When it was begun to wake the whole pod, guard and wrapper last.
        self.thaws: list[float] = []

    def wraps(self, mode: str) -> None:
        """What the next process wraps."""
        words = [sys.executable, "-I", "-S", str(WORK), str(self._lines)]
        self.program = [*words, *([mode] if mode else [])]

    def is_orderly(self, status: int) -> bool:
        """The program's own: it was never begun, was over before it began, ended as it was asked
        to, or by a signal, of which the first may come before it is ready for it."""
        signals = (BY_SIGNAL + signal.SIGTERM, BY_SIGNAL + signal.SIGKILL)
        return status in (0, CANNOT_START, ASKED_TO_END, *signals)

    # ── what the program did ──

    def work(self, *, but_after_thaw: float) -> list[Beat]:
        """Of each term the first line, and the last one; but none that came within so many seconds
        after the whole pod was woken."""
        with self._lines.open("rb") as file:
            file.seek(self._read)
            whole, is_ended, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(is_ended)
        for beat in beats(whole.decode().splitlines()):
            self._workers.add(beat.pid)
            if any(0 <= beat.at - thaw <= but_after_thaw for thaw in tuple(self.thaws)):
                continue
            first = self._first.setdefault(beat.token, beat)
            if beat.at < first.at:
                self._first[beat.token] = beat
            last = self._last.setdefault(beat.token, beat)
            if beat.at > last.at:
                self._last[beat.token] = beat
        return [*self._first.values(), *self._last.values()]

    # ── what is done to it ──

    @property
    def guard(self) -> int | None:
        """Its process, while a program runs."""
        found = subprocess.run(
            ["pgrep", "-P", str(self.pid)], capture_output=True, check=False, text=True
        )
        pids = found.stdout.split()
        return int(pids[0]) if pids else None

    def freeze_pod(self) -> list[int]:
        """Wrapper, guard and program; those that were frozen, in this order."""
        pids = [self.pid, *descendants(self.pid)]
        for pid in pids:
            send(pid, signal.SIGSTOP)
        return pids

    def thaw_pod(self, pids: list[int]) -> None:
        """The program first and its guard later: the worst order."""
        self.thaws.append(boottime())
        for pid in reversed(pids):
            send(pid, signal.SIGCONT)

    def stop(self) -> None:
        below = descendants(self.pid) if self.is_running else []
        super().stop()
        self.work(but_after_thaw=0.0)
        for pid in (*below, *self._workers):
            if _is_work(pid, self._lines):
                send(pid, signal.SIGKILL)
        with suppress(OSError):
            self._lines.unlink()
            self._lines.parent.rmdir()


def _is_work(pid: int, lines: Path) -> bool:
    """Whether the process is one of these still, and no later one of the same number."""
    try:
        return str(lines).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
