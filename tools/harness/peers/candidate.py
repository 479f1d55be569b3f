"""One client-go candidate as a process: what our electors share a Lease with.

Guarantee: whatever a test does to it (freeze, kill), `stop` leaves no process behind. Its terms are
read from its own journal (callbacks of client-go), so a frozen one does not know that it ended.
"""

import json
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tools.harness.controlplane.clients.answer import ask
from tools.harness.peers.build import candidate_binary
from tools.harness.pods.elector import POLL_INTERVAL, START_TIMEOUT

# Beside an elector at 4s/1s/2s: the same lease, the same time between two renewals, and the
# renew deadline in the proportion of client-go's defaults (15/10/2), rounded up.
FAST = ("--lease-duration=4s", "--renew-deadline=3s", "--retry-period=1s")


@dataclass(frozen=True)
class LeaderTerm:
    """Seconds on CLOCK_BOOTTIME from one callback to the other; `ended_at` None while it lasts."""

    identity: str
    started_at: float
    ended_at: float | None


class ClientGoCandidate:
    """Built against client-go `version`; holds the identity `name` verbatim."""

    def __init__(
        self,
        name: str,
        *,
        version: str,
        kubeconfig: Path,
        namespace: str,
        lease: str,
        timing: tuple[str, ...] = FAST,
        releases: bool = False,
        loops: bool = False,
    ) -> None:
        """`releases`: ReleaseOnCancel; `loops`: after a loss it contends again."""
        self.name = name
        self.identity = name
        self.port = 0
        self._command = [
            str(candidate_binary(version)),
            f"--kubeconfig={kubeconfig}",
            f"--namespace={namespace}",
            f"--lease={lease}",
            f"--identity={name}",
            "--listen=127.0.0.1:0",
            f"--release-on-cancel={str(releases).lower()}",
            f"--loop={str(loops).lower()}",
            *timing,
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = Path(tempfile.mkdtemp(prefix=f"candidate-{name}-"))
        self._journal = self._folder / "journal"
        self._journal.touch()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """A new process of the same identity; returns when it listens."""
        known = len(self._events("listening"))
        with self._journal.open("ab") as journal, (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=journal, stderr=log
            )
        deadline = time.monotonic() + START_TIMEOUT
        while len(self._events("listening")) == known:
            if time.monotonic() > deadline or not self.is_running:
                raise AssertionError(f"{self.name} did not start: {self.log_text()}")
            time.sleep(POLL_INTERVAL)
        self.port = int(self._events("listening")[-1]["address"].rpartition(":")[2])
        return self

    # ── what it says ──

    def is_leader(self) -> bool:
        """Its own word: IsLeader() of client-go."""
        answer = ask(self.port, "/readyz")
        return answer is not None and answer.status == 200

    def terms(self) -> list[LeaderTerm]:
        """From its first start on, in order; one that a kill ended has no end."""
        found: list[LeaderTerm] = []
        for event in self._events("started_leading", "stopped_leading"):
            at = float(event["boottime"])
            if event["event"] == "started_leading":
                found.append(LeaderTerm(self.identity, at, None))
            else:
                found[-1] = LeaderTerm(self.identity, found[-1].started_at, at)
        return found

    def log_text(self) -> str:
        return (self._folder / "log").read_text(errors="replace")

    # ── what is done to it ──

    def freeze(self) -> None:
        self._running().send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and gone when it returns."""
        self._running().kill()
        self._running().wait()

    def terminate(self) -> None:
        self._running().terminate()

    def wait(self, timeout: float = START_TIMEOUT) -> int:
        """Its exit status."""
        return self._running().wait(timeout)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for path in self._folder.iterdir():
            path.unlink()
        self._folder.rmdir()

    def _events(self, *names: str) -> list[dict[str, Any]]:
        lines = self._journal.read_text().splitlines()
        events = [json.loads(line) for line in lines if line.endswith("}")]
        return [event for event in events if event["event"] in names]

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"{self.name} was not started"
        return self._process
