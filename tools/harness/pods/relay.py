"""A relay-sidecar as a real process, seen only through its two ports, its signals and its log.

Guarantee: `stop` leaves, unless the test brought its own, no data directory.
"""

import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

from tools.harness.controlplane.access.certificates import CertificateFiles
from tools.harness.controlplane.clients.answer import ANSWER_TIMEOUT, Answer, ask
from tools.harness.controlplane.guardian import Guardian
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.processes.child import POLL_INTERVAL
from tools.harness.processes.process import Process

# Seconds in which the state of the link is told: the relay promises three for a cut.
LINK_TIMEOUT = 10.0


class RelayProcess(Process):
    """`flags` as on the command line, how to reach the upstream among them; `serving`: what its
    API shows to clients, which then come over TLS."""

    def __init__(
        self,
        flags: Sequence[str],
        *,
        name: str = "relay",
        data_dir: Path | None = None,
        environ: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        guardian: Guardian | None = None,
        serving: CertificateFiles | None = None,
    ) -> None:
        super().__init__(name, ports=2, environ=environ, prefix=prefix, guardian=guardian)
        self.flags = list(flags)
        self.data_dir = data_dir or self._folder / "data"
        self.port, self.status_port = self.ports
        self.url = f"http://{LOOPBACK}:{self.port}"
        if serving is not None:
            self.url = f"https://{LOOPBACK}:{self.port}"
            self.flags += [
                f"--tls-cert-file={serving.certificate}",
                f"--tls-private-key-file={serving.key}",
            ]

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
        self._wait_until(lambda: self.readyz() == HTTPStatus.OK, what="start")

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
        return answer.status if answer else None

    @property
    def is_link_up(self) -> bool:
        return self.readyz("?upstream=true") == HTTPStatus.OK

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
        answer = self._ask("/status", timeout=10)
        assert answer is not None, f"{self.name} does not answer"
        return answer.json()

    def metrics(self) -> str:
        answer = self._ask("/metrics", timeout=10)
        assert answer is not None, f"{self.name} does not answer"
        return answer.body.decode()

    def _ask(self, path: str, *, timeout: float = ANSWER_TIMEOUT) -> Answer | None:
        return ask(self.status_port, path, timeout=timeout)
