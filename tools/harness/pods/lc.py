"""An LC as a real process, seen only through its port, its signals and its log.

Guarantee: `stop` leaves, unless the test brought its own root, no file. `relay_flags` says how to
reach a relay that the test has; who cuts that relay's link, or kills it, has a pod of both.
"""

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tools.harness.controlplane.clients.answer import Answer, ask
from tools.harness.controlplane.guardian import Guardian
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.pods.relay import RelayProcess
from tools.harness.processes.child import POLL_INTERVAL
from tools.harness.processes.process import Process

Json = dict[str, Any]

# Seconds in which something that is waited for must be so, on a busy machine and with the retries
# that it makes necessary; on a quiet one it is so in less than one.
PATIENCE = 60.0
# Seconds; a report is on the disk when it is answered.
ANSWER_TIMEOUT = 5.0


def relay_flags(relay: RelayProcess) -> list[str]:
    """Of an LC in the relay's pod."""
    status = f"http://{LOOPBACK}:{relay.status_port}"
    return ["--mode=relay", f"--api={relay.url}", f"--relay-status={status}"]


class LcProcess(Process):
    """`flags` as on the command line; `root` of the node's file system, all of which it may use,
    and it trusts any worker, unless the flags say otherwise."""

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
        super().__init__(f"lc-{node}", ports=1, environ=environ, prefix=prefix, guardian=guardian)
        self.node = node
        self.flags = list(flags)
        self.root = root or self._folder / "root"
        self.root.mkdir(exist_ok=True)
        self.data_dir = self.root / "var/lib/sedna"
        [self.port] = self.ports
        self.url = f"http://{LOOPBACK}:{self.port}"

    # ── its life ──

    def start(self, *, wait: bool = True) -> Self:
        """A new process with the same port, root and data; returns when it answers."""
        self._launch(
            "sedna-lc",
            f"--node={self.node}",
            f"--root={self.root}",
            f"--bind-port={self.port}",
            *self._defaults(),
            *self.flags,
        )
        if wait:
            self.wait_ready()
        return self

    def _defaults(self) -> list[str]:
        told = " ".join(self.flags)
        wanted = ("--files-root=/", "--trust-any-worker=true")
        return [it for it in wanted if it.partition("=")[0] not in told]

    def wait_ready(self) -> None:
        self._wait_until(self._is_ready, what="start")

    def _is_ready(self) -> bool:
        answer = ask(self.port, "/readyz")
        return answer is not None and answer.status == 200

    # ── the node ──

    def write(self, path: str, content: str) -> Path:
        """A file of the node, by its path there."""
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, encoding="utf-8")
        return place

    # ── what it says ──

    def ask(self, path: str, **how: Any) -> Answer:
        answer = ask(self.port, path, **{"timeout": ANSWER_TIMEOUT, **how})
        assert answer is not None, f"{self.node} does not answer: {self.log_text()[-2000:]}"
        return answer

    def report(self, worker: str, told: Json, *, below: str = "") -> Answer | None:
        """What a worker posts, to a path below that of its LC_SERVER; None without an answer."""
        return ask(
            self.port,
            f"{below}/sedna/workers/{worker}/info",
            method="POST",
            body=json.dumps({"name": worker, **told}).encode(),
            headers={"Content-Type": "application/json"},
            timeout=ANSWER_TIMEOUT,
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
        return self._command("sedna-lc", *arguments, environ={"BIND_PORT": str(self.port)})
