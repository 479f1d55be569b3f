"""A relay-sidecar as a real process, seen only through its two ports, its signals and its log.

Guarantee: `stop` leaves, unless the test brought its own, no data directory.
"""

import http.client
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.controlplane.guardian import Guardian
from tests.controlplane.reservation import LOOPBACK
from tests.pods.process import POLL_INTERVAL, Process

# Seconds in which the state of the link is told: the relay promises three for a cut.
LINK_TIMEOUT = 10.0
# Seconds; an answer of the status port that takes longer is none: the process is frozen.
ANSWER_TIMEOUT = 2.0


class RelayProcess(Process):
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
        super().__init__(name, ports=2, environ=environ, prefix=prefix, guardian=guardian)
        self.flags = list(flags)
        self.data_dir = data_dir or self._folder / "data"
        self.port, self.status_port = self.ports
        self.url = f"http://{LOOPBACK}:{self.port}"

    # ── its life ──

    def start(self, *, wait: bool = True) -> Self:
        """A new process with the same ports and the same data; returns when it is ready."""
        self._launch(
            "relay-sidecar",
            f"--listen={LOOPBACK}:{self.port}",
            f"--status-listen={LOOPBACK}:{self.status_port}",
            f"--data-dir={self.data_dir}",
            *self.flags,
        )
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self) -> None:
        self._wait_until(lambda: self.readyz() == http.HTTPStatus.OK, what="start")

    def command(self, *arguments: str) -> str:
        """What a sub-command prints that is told this relay's ports."""
        environ = {
            "RELAY_LISTEN": f"{LOOPBACK}:{self.port}",
            "RELAY_STATUS_LISTEN": f"{LOOPBACK}:{self.status_port}",
        }
        done = self._command("relay-sidecar", *arguments, environ=environ)
        assert done.returncode == 0, done.stderr
        return done.stdout

    # ── what it says ──

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
