"""One of our programs as a real process, seen only through its ports, its signals and its log.

Knows no program: its command line and what it answers stand in the module of its name.
Guarantees: its ports stay its own over restarts, and its log spans them; whatever a test does to it
(freeze, kill), `stop` leaves no process and no folder behind.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tools.harness.controlplane.guardian import Guardian
from tools.harness.controlplane.reservation import Reservation
from tools.harness.processes.arguments import REPEATED, latest_of_each
from tools.harness.processes.child import POLL_INTERVAL, START_TIMEOUT, Child
from tools.harness.processes.command import run_program
from tools.harness.processes.forks import Fork, are_allowed, can_fork


class Process(Child, ABC):
    """A context manager that starts and stops it."""

    def __init__(
        self,
        name: str,
        *,
        ports: int,
        environ: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        guardian: Guardian | None = None,
    ) -> None:
        """`ports`: how many it listens on; `prefix`: a command that becomes the program, such as
        prlimit with its limits; `guardian` ends it with whoever started it. `environ` may be
        changed for the next start."""
        self.name = name
        self.prefix = list(prefix)
        self._folder = Path(tempfile.mkdtemp(prefix=f"{name}-"))
        self._log = self._folder / "log"
        self._log.touch()
        self._log_start = 0
        self._reservations = [Reservation() for _ in range(ports)]
        self.ports = [held.port for held in self._reservations]
        self.environ: dict[str, str] = {"PATH": "/usr/bin:/bin", **(environ or {})}
        self._guardian = guardian
        # Whether its processes may be forked; not where its own memory is measured.
        self.may_fork = True

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self.stop)
            self.start()
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ── its life ──

    @abstractmethod
    def start(self) -> Self:
        """A new process with the same ports and the same data."""

    def terminate(self) -> int:
        """SIGTERM; its exit status."""
        self._running().terminate()
        return self.wait()

    def stop(self) -> None:
        """Kills it and gives back everything; may be called again."""
        if self.is_running:
            self.kill()
        for held in self._reservations:
            held.release()
        shutil.rmtree(self._folder, ignore_errors=True)

    # ── what it says ──

    def log_text(self, *, all_lives: bool = False) -> str:
        """Of the present process, or of all with this log."""
        start = 0 if all_lives else self._log_start
        return self._log.read_bytes()[start:].decode(errors="replace")

    def memory(self) -> int:
        """Resident bytes."""
        text = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        [line] = [line for line in text.splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1]) * 1024

    # ── for the programs ──

    def _launch(self, program: str, *arguments: str) -> None:
        # Appended to: the log spans restarts.
        repeated = REPEATED | ({"--namespace"} if program == "sedna-gm" else set())
        words = latest_of_each(arguments, repeated=repeated)
        self._log_start = self._log.stat().st_size
        is_fork = are_allowed() and self.may_fork and not self.prefix
        if is_fork and can_fork(program, self.environ):
            self._process = Fork(
                program,
                words,
                environ=self.environ,
                stdout=self._log,
                stderr=self._log,
                is_session=True,
            )
        else:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    [*self.prefix, str(installed(program)), *words],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=self.environ,
                    start_new_session=True,
                )
        if self._guardian is not None:
            self._guardian.watch(self._process.pid)

    def _command(
        self, program: str, *arguments: str, environ: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """A sub-command, to its end."""
        return run_program(program, *arguments, environ={**self.environ, **environ})

    def _wait_until(self, is_so: Callable[[], bool], *, what: str) -> None:
        """Fails with the end of the log."""
        deadline = time.monotonic() + START_TIMEOUT
        while not is_so():
            if time.monotonic() > deadline or not self.is_running:
                raise AssertionError(f"{self.name} did not {what}: {self.log_text()[-4000:]}")
            time.sleep(POLL_INTERVAL)


def installed(program: str) -> Path:
    """The console script, beside the interpreter of the tests."""
    return Path(sys.executable).parent / program
