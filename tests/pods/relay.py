"""A relay-sidecar as a real process, seen only through its two ports, its signals and its log.

Guarantees: both ports stay its own over restarts; whatever a test does to it (freeze, kill), `stop`
leaves no process behind and, unless the test brought its own, no data directory.
"""

import http.client
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.controlplane.guardian import Guardian
from tests.controlplane.reservation import LOOPBACK, Reservation

# Seconds for a start on a busy machine; a quiet one needs half a second.
START_TIMEOUT = 30.0
# Seconds in which the state of the link is told: the relay promises three for a cut.
LINK_TIMEOUT = 10.0
POLL_INTERVAL = 0.02
# Seconds; an answer of the status port that takes longer is none: the process is frozen.
ANSWER_TIMEOUT = 2.0


class RelayProcess:
    """`flags` as on the command line, how to reach the upstream among them."""

    def __init__(
        self,
        flags: Sequence[str],
        *,
        name: str = "relay",
        data_dir: Path | None = None,
        environ: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        guardian: Guardian | None = None,
    ) -> None:
        """`prefix`: a command that becomes the relay, such as prlimit with its limits; `guardian`
        ends it with whoever started it."""
        self.name = name
        self.flags = list(flags)
        self._folder = Path(tempfile.mkdtemp(prefix=f"{name}-"))
        self.data_dir = data_dir or self._folder / "data"
        self._log = self._folder / "log"
        self._log_start = 0
        self._reservations = (Reservation(), Reservation())
        self.port, self.status_port = (held.port for held in self._reservations)
        self.url = f"http://{LOOPBACK}:{self.port}"
        self._environ = {"PATH": "/usr/bin:/bin", **(environ or {})}
        self._prefix = list(prefix)
        self._guardian = guardian
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()

    # ── its life ──

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, *, wait: bool = True) -> Self:
        """A new process with the same ports and the same data; returns when it is ready."""
        command = [
            *self._prefix,
            str(Path(sys.executable).parent / "relay-sidecar"),
            f"--listen={LOOPBACK}:{self.port}",
            f"--status-listen={LOOPBACK}:{self.status_port}",
            f"--data-dir={self.data_dir}",
            *self.flags,
        ]
        # Appended to: the log spans restarts.
        self._log.touch()
        self._log_start = self._log.stat().st_size
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environ,
                start_new_session=True,
            )
        if self._guardian is not None:
            self._guardian.watch(self._process.pid)
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while self.readyz() != http.HTTPStatus.OK:
            if time.monotonic() > deadline or not self.is_running:
                raise AssertionError(f"{self.name} did not start: {self.log_text()[-4000:]}")
            time.sleep(POLL_INTERVAL)

    def freeze(self) -> None:
        self._running().send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and gone when it returns."""
        self._running().kill()
        self._running().wait()

    def terminate(self) -> int:
        """SIGTERM; its exit status."""
        self._running().terminate()
        return self.wait()

    def wait(self, timeout: float = START_TIMEOUT) -> int:
        """Its exit status."""
        return self._running().wait(timeout)

    def stop(self) -> None:
        """Kills it and gives back everything; may be called again."""
        if self.is_running:
            self.kill()
        for held in self._reservations:
            held.release()
        shutil.rmtree(self._folder, ignore_errors=True)

    def command(self, *arguments: str) -> str:
        """What a sub-command prints that is told this relay's ports."""
        done = subprocess.run(
            [
                str(Path(sys.executable).parent / "relay-sidecar"),
                *arguments,
            ],
            capture_output=True,
            text=True,
            timeout=START_TIMEOUT,
            check=False,
            env={
                **self._environ,
                "RELAY_LISTEN": f"{LOOPBACK}:{self.port}",
                "RELAY_STATUS_LISTEN": f"{LOOPBACK}:{self.status_port}",
            },
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    # ── what it says ──

    def log_text(self, *, all_lives: bool = False) -> str:
        """Of the present process, or of all with this log."""
        start = 0 if all_lives else self._log_start
        return self._log.read_bytes()[start:].decode(errors="replace")

    def readyz(self, query: str = "") -> int | None:
        """The status of /readyz; None without an answer."""
        answer = self._ask(f"/readyz{query}")
        return answer[0] if answer else None

    @property
    def is_link_up(self) -> bool:
        return self.readyz("?upstream=true") == http.HTTPStatus.OK

    def wait_link(self, *, up: bool, timeout: float = LINK_TIMEOUT) -> None:
        """Returns when it says that its upstream can be reached, or that it cannot."""
        deadline = time.monotonic() + timeout
        while self.is_link_up is not up:
            if time.monotonic() > deadline:
                state = "up" if up else "down"
                raise AssertionError(f"{self.name}: the link is not {state} after {timeout:g} s")
            time.sleep(POLL_INTERVAL)

    def status(self) -> dict[str, Any]:
        """The /status document."""
        answer = self._ask("/status")
        assert answer is not None, f"{self.name} does not answer"
        document: dict[str, Any] = json.loads(answer[1])
        return document

    def metrics(self) -> str:
        answer = self._ask("/metrics")
        assert answer is not None, f"{self.name} does not answer"
        return answer[1].decode()

    def memory(self) -> int:
        """Resident bytes."""
        text = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        [line] = [line for line in text.splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1]) * 1024

    def _ask(self, path: str) -> tuple[int, bytes] | None:
        connection = http.client.HTTPConnection(LOOPBACK, self.status_port, timeout=ANSWER_TIMEOUT)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"{self.name} was not started"
        return self._process
