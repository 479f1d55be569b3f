"""kubectl as a process, with a home of its own so that its discovery cache is the test's.

Guarantees: the binary is the one that tools/harness/controlplane/build.py made; nothing of the
developer's configuration is read; a watch that is begun is ended by its block.
"""

import contextlib
import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tools.harness.controlplane.build import binary

# Seconds for one command; kubectl itself gives up on a server that does not answer after 30.
TIMEOUT = 60.0
POLL_INTERVAL = 0.02


@dataclass(frozen=True)
class Outcome:
    """Of one command that has ended."""

    status: int
    output: str
    errors: str

    def expect(self) -> str:
        """Its output; fails where the command did."""
        assert self.status == 0, f"{self.output}\n{self.errors}"
        return self.output

    def json(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.expect())
        return document


class Kubectl:
    """Commands in one namespace against one server."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="kubectl-")
        self._command = [
            str(binary("kubectl")),
            f"--kubeconfig={kubeconfig}",
            f"--namespace={namespace}",
            f"--cache-dir={self._home.name}/cache",
        ]
        self._environ = {"PATH": "/usr/bin:/bin", "HOME": self._home.name}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._home.cleanup()

    def run(self, *arguments: str, stdin: str = "", timeout: float = TIMEOUT) -> Outcome:
        """One command to its end."""
        done = subprocess.run(
            [*self._command, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env=self._environ,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    @contextlib.contextmanager
    def running(self, *arguments: str) -> Iterator["Running"]:
        """A command that goes on until the block ends."""
        with subprocess.Popen(
            [*self._command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._environ,
        ) as process:
            running = Running(process)
            try:
                yield running
            finally:
                process.kill()
                running.join()


class Running:
    """The lines of a command so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_line(self, text: str, *, timeout: float = TIMEOUT) -> str:
        """The first line that contains the text."""
        deadline = time.monotonic() + timeout
        while True:
            for line in list(self.lines):
                if text in line:
                    return line
            assert time.monotonic() < deadline, f"no {text!r} in {self.lines}"
            time.sleep(POLL_INTERVAL)

    def pause(self) -> None:
        """Lets it go on for a moment."""
        time.sleep(POLL_INTERVAL)

    def join(self) -> None:
        self._thread.join(TIMEOUT)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))
