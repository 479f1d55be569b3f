"""A process and what signals do to it; nothing here knows what the program is."""

import signal

from tools.harness.processes.forks import Running

# Seconds for a start, or an end, on a busy machine; a quiet one needs half a second.
START_TIMEOUT = 30.0
POLL_INTERVAL = 0.02


class Child:
    """One process at a time; `name` is for messages."""

    name: str
    _process: Running | None = None

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def signal(self, number: int) -> None:
        self._running().send_signal(number)

    def freeze(self) -> None:
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and gone when it returns."""
        self._running().kill()
        self._running().wait()

    def wait(self, timeout: float = START_TIMEOUT) -> int:
        """Its exit status."""
        return self._running().wait(timeout)

    def _running(self) -> Running:
        if self._process is None:
            raise ChildProcessError(f"{self.name} was not started")
        return self._process
