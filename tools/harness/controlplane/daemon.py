"""One long-running program of the control plane: started, frozen, killed and started again.

Owns: its process and its log file. Guarantees: it dies with its owner (see guardian); a start
after an end appends to the same log; nothing here knows what the program is.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tools.harness.controlplane.guardian import Guardian

# How much of the log an error message shows.
LOG_TAIL_LINES = 15


class Runnable(Protocol):
    """A program that is started and stopped as often as one likes; each is described at Daemon."""

    @property
    def pid(self) -> int: ...
    def start(self) -> None: ...
    def stop(self, number: signal.Signals, *, timeout: float) -> None: ...
    def freeze(self) -> None: ...
    def thaw(self) -> None: ...
    def check_running(self) -> None: ...


class Daemon:
    """A program with its arguments; `start` and `stop` alternate as often as one likes."""

    def __init__(self, command: Sequence[str], *, log: Path, guardian: Guardian) -> None:
        self._command = command
        self._log = log
        self._guardian = guardian
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id. Raises ChildProcessError where it does not run."""
        if self._process is None:
            raise ChildProcessError(f"{self._command[0]} is not running")
        return self._process.pid

    def start(self) -> None:
        """Returns at once; whether it serves is for the caller to find out."""
        if self._process is not None:
            raise ChildProcessError(f"{self._command[0]} is running already")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C is for the test run, which then ends us in its own order.
                start_new_session=True,
            )
        self._guardian.watch(self._process.pid)

    def stop(self, number: signal.Signals, *, timeout: float) -> None:
        """Sends the signal, waits for the end, kills after `timeout` seconds."""
        if self._process is None:
            return
        self._process.send_signal(number)
        # A frozen process handles a signal only when it runs again.
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def freeze(self) -> None:
        """SIGSTOP: connections stay open and the kernel accepts more, nobody answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None:
            raise ChildProcessError(f"{self._command[0]} is not running")
        self._process.send_signal(number)

    def check_running(self) -> None:
        """Raises ChildProcessError with the end of the log where the program has ended."""
        if self._process is not None and self._process.poll() is None:
            return
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        tail = "\n".join(lines[-LOG_TAIL_LINES:])
        raise ChildProcessError(f"{self._command[0]} is not running, its log ends with:\n{tail}")
