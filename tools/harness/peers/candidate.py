"""One client-go candidate as a process: what our electors share a Lease with.

Knows the flags and the journal of `clientgo/`. Guarantee: whatever a test does to it (freeze,
kill), `stop` leaves no process and no file behind. Its terms are read from its own journal
(callbacks of client-go), so a frozen one does not know that it ended.
"""

import json
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tools.harness.controlplane.clients.answer import ask
from tools.harness.peers.build import candidate_binary
from tools.harness.processes.child import START_TIMEOUT, Child

POLL_INTERVAL = 0.005
# Beside an elector at 4s/1s/2s: the same lease, the same time between two renewals, and the
# renew deadline in the proportion of client-go's defaults (15/10/2), rounded up.
FAST = ("--lease-duration=4s", "--renew-deadline=3s", "--retry-period=1s")


@dataclass(frozen=True)
class LeaderTerm:
    """Seconds on CLOCK_BOOTTIME from one callback to the other; `ended_at` None while it lasts."""

    identity: str
    started_at: float
    ended_at: float | None


class CandidatePod(Child):
    """`flags` as on the command line, credentials included. Without an `identity` each start has a
    new one, as that of a restarted container."""

    def __init__(
        self, binary: Path, name: str, flags: Sequence[str], *, identity: str = ""
    ) -> None:
        self.name = name
        self.identity = identity
        self.port = 0
        self._has_own_identity = bool(identity)
        self._command = [str(binary), *flags]
        self._folder = Path(tempfile.mkdtemp(prefix=f"candidate-{name}-"))
        self._journal = self._folder / "journal"
        self._journal.touch()
        self._start = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, *, wait: bool = True) -> Self:
        if not self._has_own_identity:
            self.identity = f"{self.name}_{uuid.uuid4()}"
        self._start = self._journal.stat().st_size
        with self._journal.open("ab") as journal, (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, "--identity", self.identity],
                stdin=subprocess.DEVNULL,
                stdout=journal,
                stderr=log,
                env={"PATH": "/usr/bin:/bin"},
            )
        if wait:
            self.wait_listening()
        return self

    def wait_listening(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while not (listening := self._events("listening", since=self._start)):
            if time.monotonic() > deadline or not self.is_running:
                raise AssertionError(f"{self.name} did not start: {self.log_text()}")
            time.sleep(POLL_INTERVAL)
        self.port = int(listening[-1]["address"].rpartition(":")[2])

    def log_text(self) -> str:
        return (self._folder / "log").read_text(errors="replace")

    def terminate(self) -> None:
        self.signal(signal.SIGTERM)

    def stop(self) -> None:
        if self.is_running:
            self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _events(self, *names: str, since: int = 0) -> list[dict[str, Any]]:
        """From this byte of the journal on."""
        lines = self._journal.read_bytes()[since:].splitlines(keepends=True)
        events = [json.loads(line) for line in lines if line.endswith(b"\n")]
        return [event for event in events if event["event"] in names]


class ClientGoCandidate(CandidatePod):
    """Built against client-go `version`."""

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
        keeps_identity: bool = True,
    ) -> None:
        """`releases`: ReleaseOnCancel; `loops`: after a loss it contends again; `keeps_identity`:
        each start holds `name` verbatim."""
        flags = [
            f"--kubeconfig={kubeconfig}",
            f"--namespace={namespace}",
            f"--lease={lease}",
            "--listen=127.0.0.1:0",
            f"--release-on-cancel={str(releases).lower()}",
            f"--loop={str(loops).lower()}",
            *timing,
        ]
        super().__init__(
            candidate_binary(version), name, flags, identity=name if keeps_identity else ""
        )

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
