"""One pod's elector as a real process, seen only through its signals, its HTTP port and its log.

Guarantee: whatever a test does to it (freeze, kill), `stop` leaves no process behind.
"""

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tools.harness.controlplane.clients.answer import ANSWER_TIMEOUT, Answer, ask
from tools.harness.controlplane.guardian import Guardian
from tools.harness.processes.arguments import latest_of_each
from tools.harness.processes.child import POLL_INTERVAL, START_TIMEOUT, Child
from tools.harness.processes.forks import Fork, Running, are_allowed, can_fork

# What an elector needs; the manifests ship the same (get, watch and update by name).
ELECTOR_RULES: list[dict[str, list[str]]] = [
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "watch", "create", "update"],
    }
]


@dataclass
class ElectorPod(Child):
    """`flags` as on the command line; credentials are flags too. Starts with `start`."""

    name: str
    lease: str
    flags: list[str]
    environ: Mapping[str, str] = field(default_factory=dict)
    # Where elector_sidecar is installed.
    interpreter: str = sys.executable
    # How many files the process may open; None: as many as the test.
    descriptors: int | None = None
    # Ends it with whoever started it.
    guardian: Guardian | None = None
    # That it runs while it leads: the words behind `--`.
    program: Sequence[str] = ()

    def __post_init__(self) -> None:
        prefix = f"elector-{self.name}-"
        with tempfile.NamedTemporaryFile(prefix=prefix, suffix=".log", delete=False) as log:
            self._log = Path(log.name)
        self.port = 0
        self.identity = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, *, wait: bool = True) -> Self:
        """A new process, so a new identity; on another port than before."""
        listen = [] if "--listen" in self.flags else ["--listen", "127.0.0.1:0"]
        lease = [] if "--lease-file" in self.flags else ["--lease", self.lease]
        arguments = [*lease, "--identity", self.name, "--log-format", "json"]
        # Appended to: the log spans restarts, and the last "contending" line is ours.
        self._log_start = self._log.stat().st_size
        words = latest_of_each([*arguments, *listen, *self.flags])
        words += ["--", *self.program] if self.program else []
        environ = {"PATH": "/usr/bin:/bin", **self.environ}
        is_plain = self.descriptors is None and not self.program
        is_fork = are_allowed() and is_plain and self.interpreter == sys.executable
        if is_fork and can_fork("elector-sidecar", environ):
            self._process = Fork(
                "elector-sidecar",
                words,
                environ=environ,
                stdout=self._log,
                stderr=self._log,
                is_session=True,
            )
        else:
            self._process = self._fresh(words, environ)
        if self.guardian is not None:
            self.guardian.watch(self._process.pid)
        if wait:
            self.wait_listening()
        return self

    def _fresh(self, words: list[str], environ: Mapping[str, str]) -> Running:
        # prlimit becomes the process: limits that the test set for itself would stop the test.
        limit = [] if self.descriptors is None else ["prlimit", f"--nofile={self.descriptors}"]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [*limit, self.interpreter, "-m", "elector_sidecar", *words],
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=environ,
                start_new_session=True,
            )

    def wait_listening(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            for line in self.log_lines():
                if line["message"] == "contending":
                    first = str(line["listen"]).split(",")[0]
                    is_unix = first.startswith("unix:")
                    self.port = 0 if is_unix else int(first.rpartition(":")[2])
                    self.identity = str(line["identity"])
                    return
            if not self.is_running:
                break
            time.sleep(POLL_INTERVAL)
        raise AssertionError(f"{self.name} did not start: {self.log_text()}")

    def log_text(self) -> str:
        """Of the present process."""
        return self._log.read_bytes()[self._log_start :].decode()

    def log_lines(self) -> list[dict[str, Any]]:
        lines = self.log_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    # ── what it says ──

    def ask(
        self, path: str, *, method: str = "GET", timeout: float = ANSWER_TIMEOUT
    ) -> Answer | None:
        return ask(self.port, path, method=method, timeout=timeout)

    def readyz(self, query: str = "") -> int | None:
        answer = self.ask("/readyz" + query)
        return answer.status if answer else None

    def is_leader(self) -> bool:
        return self.readyz("?promise=false") == 200

    def leader(self) -> dict[str, Any]:
        answer = self.ask("/leader?promise=false", timeout=10)
        assert answer is not None, f"{self.name} does not answer"
        return answer.json()

    # ── what is done to it ──

    def terminate(self) -> None:
        self.signal(signal.SIGTERM)

    def is_orderly(self, status: int) -> bool:
        """Whether this exit status is that of a process which was asked to end (P5)."""
        return status == 0

    def stop(self) -> None:
        if self.is_running:
            self.kill()
        self._log.unlink(missing_ok=True)
