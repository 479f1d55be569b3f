"""An LC as a real process, seen only through its port, its signals and its log.

Guarantees: its port stays its own over restarts; whatever a test does to it (freeze, kill), `stop`
leaves no process behind and, unless the test brought its own root, no file. `relay_flags` says how
to reach a relay that the test has; who cuts that relay's link, or kills it, has a pod of both.
"""

import http.client
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.controlplane.guardian import Guardian
from tests.controlplane.reservation import LOOPBACK, Reservation
from tests.pods.relay import RelayProcess

Json = dict[str, Any]

# Seconds for a start on a busy machine; a quiet one needs half a second.
START_TIMEOUT = 30.0
# Seconds in which something that is waited for must be so.
PATIENCE = 20.0
POLL_INTERVAL = 0.02
# Seconds; an answer that takes longer is none: the process is frozen.
ANSWER_TIMEOUT = 5.0


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Json:
        document: Json = json.loads(self.body)
        return document


def relay_flags(relay: RelayProcess) -> list[str]:
    """Of an LC in the relay's pod."""
    status = f"http://{LOOPBACK}:{relay.status_port}"
    return ["--mode=relay", f"--api={relay.url}", f"--relay-status={status}"]


def ask(
    port: int,
    path: str,
    *,
    method: str = "GET",
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    host: str = LOOPBACK,
) -> Reply | None:
    """One request over a new connection; None without an answer in time."""
    connection = http.client.HTTPConnection(host, port, timeout=ANSWER_TIMEOUT)
    try:
        connection.request(method, path, body, dict(headers or {}))
        response = connection.getresponse()
        return Reply(response.status, dict(response.headers), response.read())
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


class LcProcess:
    """`flags` as on the command line; `prefix`: a command that becomes LC, such as setpriv;
    `guardian` ends it with whoever started it."""

    def __init__(
        self,
        flags: Sequence[str],
        *,
        node: str = "edge-a",
        root: Path | None = None,
        environ: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        guardian: Guardian | None = None,
    ) -> None:
        self.node = node
        self.flags = list(flags)
        self._folder = Path(tempfile.mkdtemp(prefix=f"lc-{node}-"))
        self.root = root or self._folder / "root"
        self.root.mkdir(exist_ok=True)
        self.data_dir = self.root / "var/lib/sedna"
        self._log = self._folder / "log"
        self._log_start = 0
        self._reservation = Reservation()
        self.port = self._reservation.port
        self.url = f"http://{LOOPBACK}:{self.port}"
        self._environ = {"PATH": "/usr/bin:/bin", **(environ or {})}
        self.prefix = list(prefix)
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
        """A new process with the same port, root and data; returns when it answers."""
        command = [
            *self.prefix,
            str(Path(sys.executable).parent / "lc"),
            f"--node={self.node}",
            f"--root={self.root}",
            f"--bind-port={self.port}",
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
        while (answer := ask(self.port, "/readyz")) is None or answer.status != 200:
            if time.monotonic() > deadline or not self.is_running:
                raise AssertionError(f"{self.node} did not start: {self.log_text()[-4000:]}")
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
        self._reservation.release()
        shutil.rmtree(self._folder, ignore_errors=True)

    # ── the node ──

    def write(self, path: str, content: str) -> Path:
        """A file of the node, by its path there."""
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, encoding="utf-8")
        return place

    # ── what it says ──

    def log_text(self, *, all_lives: bool = False) -> str:
        """Of the present process, or of all with this log."""
        start = 0 if all_lives else self._log_start
        return self._log.read_bytes()[start:].decode(errors="replace")

    def ask(self, path: str, **how: Any) -> Reply:
        answer = ask(self.port, path, **how)
        assert answer is not None, f"{self.node} does not answer: {self.log_text()[-2000:]}"
        return answer

    def report(self, worker: str, told: Json) -> Reply | None:
        """What a worker posts; None without an answer."""
        return ask(
            self.port,
            f"/sedna/workers/{worker}/info",
            method="POST",
            body=json.dumps({"name": worker, **told}).encode(),
            headers={"Content-Type": "application/json"},
        )

    def status(self) -> Json:
        """The /status document."""
        return self.ask("/status").json()

    def metrics(self) -> str:
        return self.ask("/metrics").body.decode()

    def notes(self) -> dict[str, str]:
        """Of each object, by `kind name`: how it stands with it."""
        return {f"{it['kind']} {it['name']}": it["note"] for it in self.status()["objects"]}

    def until(self, is_so: Callable[[Json], object], *, timeout: float = PATIENCE) -> Json:
        """The first status of which that is true."""
        deadline = time.monotonic() + timeout
        while not is_so(status := self.status()):
            assert time.monotonic() < deadline, json.dumps(status, indent=1)[-4000:]
            time.sleep(POLL_INTERVAL)
        return status

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A sub-command that is told this LC's port, to its end."""
        return subprocess.run(
            [str(Path(sys.executable).parent / "lc"), *arguments],
            capture_output=True,
            text=True,
            timeout=START_TIMEOUT,
            check=False,
            env={**self._environ, "BIND_PORT": str(self.port)},
        )

    def memory(self) -> int:
        """Resident bytes."""
        text = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        [line] = [line for line in text.splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1]) * 1024

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"{self.node} was not started"
        return self._process
