"""client-go's shared informers as a process: the real client that a relay must satisfy.

Guarantees: `stop` leaves no process behind; `check` fails with every promise that the process saw
broken on the wire or in its handlers. What the flags mean says
tools/harness/peers/informer/main.go.
"""

import http.client
import json
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

from tools.harness.controlplane.clients.answer import exchange
from tools.harness.peers.build import informer_binary
from tools.harness.processes.child import Child

# Seconds; a quiet machine needs a tenth.
START_TIMEOUT = 30.0
POLL_INTERVAL = 0.05
# Seconds for an answer: hashing 200 copies of thousands of objects takes a while.
ANSWER_TIMEOUT = 60.0


def spec(
    kind: str,
    resource: str,
    *,
    namespace: str = "",
    label_selector: str = "",
    field_selector: str = "",
) -> str:
    """The text of one --informer; `resource` is PLURAL[.VERSION[.GROUP]]."""
    query = {
        "namespace": namespace,
        "labelSelector": label_selector,
        "fieldSelector": field_selector,
    }
    given = {name: value for name, value in query.items() if value}
    return f"{kind}:{resource}" + (f"?{urlencode(given)}" if given else "")


@dataclass(frozen=True)
class State:
    """What one informer holds; `objects` ("NAMESPACE/NAME", resourceVersion) where asked for."""

    informer: str
    is_synced: bool
    resource_version: str
    count: int
    hash: str
    content_hash: str
    objects: tuple[tuple[str, str], ...]


class InformerProcess(Child):
    """Informers of `specs`, `count` of each; starts as a context manager or with `start`.

    `kubeconfig`: None for the in-cluster configuration; `prefix`: a command that becomes the
    program."""

    def __init__(
        self,
        kubeconfig: Path | None,
        specs: Sequence[str],
        *,
        count: int = 1,
        watch_list: bool = True,
        user_agent: str = "informer",
        accept: str = "",
        environ: dict[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        self._command = [
            *prefix,
            str(informer_binary()),
            f"--kubeconfig={kubeconfig or ''}",
            f"--count={count}",
            f"--watch-list={str(watch_list).lower()}",
            f"--user-agent={user_agent}",
            f"--accept={accept}",
            *(f"--informer={each}" for each in specs),
        ]
        self._environ = {"PATH": "/usr/bin:/bin", **(environ or {})}
        self.name = "the informer"
        with tempfile.NamedTemporaryFile(prefix="informer-", suffix=".log", delete=False) as log:
            self._log = Path(log.name)
        self.port = 0

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        """Returns when it answers; synced or not."""
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self._environ,
            )
        self._process = process
        assert process.stdout is not None
        with process.stdout:
            line = process.stdout.readline()
        if not line:
            raise AssertionError(f"the informer did not start: {self.log_text()}")
        self.port = int(json.loads(line)["address"].rpartition(":")[2])
        return self

    def stop(self) -> None:
        if self.is_running:
            self.kill()
        self._log.unlink(missing_ok=True)

    def log_text(self) -> str:
        return self._log.read_text(errors="replace")

    def states(self, *, objects: bool = False, content: bool = False) -> list[State]:
        """One per informer, in the order of the specs, equal ones side by side."""
        query = "&".join(
            name for name, wanted in (("objects", objects), ("content", content)) if wanted
        )
        return [
            State(
                informer=each["informer"],
                is_synced=each["synced"],
                resource_version=each["version"],
                count=each["count"],
                hash=each["hash"],
                content_hash=each.get("contentHash", ""),
                objects=tuple((key, version) for key, version in each.get("objects", ())),
            )
            for each in self._get(f"/state?{query}")
        ]

    def stats(self) -> list[dict[str, Any]]:
        """The counts of informer/ledger.go, one per informer, in the order of `states`."""
        return self._get("/stats")

    def total(self, name: str) -> int:
        """The sum of one count over all informers."""
        return sum(each[name] for each in self.stats())

    def check(self) -> None:
        """Fails where a promise was broken."""
        found = [text for each in self.stats() for text in each["violations"]]
        assert not found, found

    def wait_synced(self, *, timeout: float = START_TIMEOUT) -> None:
        deadline = time.monotonic() + timeout
        while not all(each.is_synced for each in self.states()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not synced after {timeout:g} s: {self.log_text()[-3000:]}")
            time.sleep(POLL_INTERVAL)

    def _get(self, path: str) -> list[dict[str, Any]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_TIMEOUT)
        found: list[dict[str, Any]] = json.loads(exchange(connection, path).body)
        return found
