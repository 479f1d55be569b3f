"""One client-go candidate as a process: the sidecar's counterpart, with the same handles.

Knows the flags and the journal of `tools/harness/peers/clientgo`. Guarantee: a restart is a new
identity, as that of a restarted container; `stop` leaves no process and no file.
"""

import json
import signal
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any, Protocol, Self

START_TIMEOUT = 30.0
POLL_INTERVAL = 0.005


class Contender(Protocol):
    """What both kinds of pods can do; `port` and `identity` are of the present process."""

    name: str
    port: int
    identity: str

    @property
    def pid(self) -> int: ...
    @property
    def is_running(self) -> bool: ...
    def start(self, *, wait: bool = True) -> Self: ...
    def wait_listening(self) -> None: ...
    def freeze(self) -> None: ...
    def thaw(self) -> None: ...
    def kill(self) -> None: ...
    def terminate(self) -> None: ...
    def stop(self) -> None: ...


class CandidatePod:
    """`flags` as on the command line, credentials included."""

    def __init__(self, binary: Path, name: str, lease: str, flags: list[str]) -> None:
        self.name = name
        self.port = 0
        self.identity = ""
        self._command = [str(binary), "--lease", lease, *flags]
        self._process: subprocess.Popen[bytes] | None = None
        prefix = f"candidate-{name}-"
        with tempfile.NamedTemporaryFile(prefix=prefix, suffix=".jsonl", delete=False) as journal:
            self._journal = Path(journal.name)
        self._start = 0

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, *, wait: bool = True) -> Self:
        self.identity = f"{self.name}_{uuid.uuid4()}"
        self._start = self._journal.stat().st_size
        with self._journal.open("ab") as journal:
            self._process = subprocess.Popen(
                [*self._command, "--identity", self.identity],
                stdin=subprocess.DEVNULL,
                stdout=journal,
                stderr=subprocess.DEVNULL,
                env={"PATH": "/usr/bin:/bin"},
            )
        if wait:
            self.wait_listening()
        return self

    def wait_listening(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline and self.is_running:
            for entry in self.journal():
                if entry["event"] == "listening":
                    self.port = int(entry["address"].rpartition(":")[2])
                    return
            time.sleep(POLL_INTERVAL)
        raise ChildProcessError(f"{self.name} did not start: {self._command}")

    def journal(self) -> list[dict[str, Any]]:
        """Of the present process; times on CLOCK_BOOTTIME as `boottime`."""
        lines = self._journal.read_bytes()[self._start :].splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith(b"\n")]

    def freeze(self) -> None:
        self._running().send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and gone when it returns."""
        self._running().kill()
        self._running().wait()

    def terminate(self) -> None:
        self._running().send_signal(signal.SIGTERM)

    def stop(self) -> None:
        if self.is_running:
            self.kill()
        self._journal.unlink(missing_ok=True)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ChildProcessError(f"{self.name} was not started")
        return self._process
