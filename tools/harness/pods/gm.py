"""A pod of GM: gm, its elector and its relay as real processes, behind one link to the API server.

Guarantees: all ports stay the pod's own over restarts; whatever a test does to it (freeze, kill,
cut), `stop` leaves no process behind. Owns no expectation of what GM does.
"""

import http.client
import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Self

from tools.harness.controlplane.api_server import ApiServer
from tools.harness.controlplane.clients.answer import ask, exchange
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.controlplane.guardian import Guardian
from tools.harness.controlplane.reservation import LOOPBACK, Reservation
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.relay import RelayProcess
from tools.harness.processes.child import POLL_INTERVAL, START_TIMEOUT
from tools.harness.processes.process import Process

LEASE = "gm"
# As short as leaves time for writes, so that failovers are quick.
LEASE_FLAGS = ("--lease-duration", "6s", "--renew-interval", "1s", "--request-timeout", "2s")
REQUEST_TIMEOUT = "1500ms"
# Of electors whose GMs have --leadership shards; who is new takes its share soon.
SHARDS = 64
SHARDING = ("--shards", str(SHARDS), "--shard-settle", "1s")
SHARD_FLAGS = (*LEASE_FLAGS, *SHARDING)


class GmProcess(Process):
    """`flags` as on the command line; `guardian` ends it with whoever started it."""

    def __init__(
        self, flags: Sequence[str], *, name: str = "gm", guardian: Guardian | None = None
    ) -> None:
        super().__init__(name, ports=2, environ={"POD_NAME": name}, guardian=guardian)
        self.flags = list(flags)
        self.port, self.stream_port = self.ports

    def start(self) -> Self:
        """A new process with the same ports; returns at once."""
        has_streams = "--mode=relay" not in self.flags
        streams = [f"--stream-listen={LOOPBACK}:{self.stream_port}"] if has_streams else []
        self._launch(
            "sedna-gm",
            f"--listen={LOOPBACK}:{self.port}",
            *streams,
            "--log-format=json",
            *self.flags,
        )
        return self

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A sub-command that is told this process's address."""
        environ = {"GM_LISTEN": f"{LOOPBACK}:{self.port}"}
        return self._command("sedna-gm", *arguments, environ=environ)

    # ── what it says ──

    def log_messages(self) -> list[str]:
        lines = self.log_text().splitlines()
        return [
            json.loads(line)["message"]
            for line in lines
            if line.startswith("{") and line.endswith("}")
        ]

    def readyz(self, query: str = "") -> int | None:
        answer = ask(self.port, f"/readyz{query}")
        return answer.status if answer else None

    def status(self) -> dict[str, Any]:
        """The /status document."""
        answer = ask(self.port, "/status", timeout=10)
        assert answer is not None, f"{self.name} does not answer: {self.log_text()[-2000:]}"
        return answer.json()

    def metrics(self) -> str:
        answer = ask(self.port, "/metrics")
        assert answer is not None, f"{self.name} does not answer"
        return answer.body.decode()

    def post(self, path: str, *, timeout: float = START_TIMEOUT) -> int:
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=timeout)
        return exchange(connection, path, method="POST").status


class GmPod:
    """gm with both sidecars; `namespace` has the Lease, and is all that GM looks after where
    `is_confined`. `is_linked`: what it says to the API server goes over `link`, which costs time.
    A context manager that starts and stops it."""

    def __init__(
        self,
        plane: ApiServer,
        namespace: str,
        *,
        name: str = "gm-0",
        mode: str = "active-standby",
        flags: Sequence[str] = (),
        lease_flags: Sequence[str] = LEASE_FLAGS,
        is_confined: bool = True,
        is_linked: bool = True,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.link = FaultProxy(plane.port, scheme=plane.scheme)
        kubeconfig = plane.admin_kubeconfig(server=self.link.url if is_linked else None)
        self.relay = RelayProcess(
            [f"--kubeconfig={kubeconfig}", "--probe-interval=300ms"],
            name=f"{name}-relay",
            environ=environ,
            guardian=plane.guardian,
        )
        self.elector = ElectorPod(
            name,
            LEASE,
            [
                *("--namespace", namespace, "--kubeconfig", str(kubeconfig)),
                # A table of shards may not be taken at once where it is missing.
                *(() if "--shards" in lease_flags else ("--on-missing", "take")),
                *lease_flags,
            ],
            environ=environ or {},
            guardian=plane.guardian,
        )
        self._elector_port = Reservation()
        self.elector.port = self._elector_port.port
        self.elector.flags += ["--listen", f"{LOOPBACK}:{self.elector.port}"]
        confined = [f"--namespace={namespace}"] if is_confined else []
        self.gm = GmProcess(
            [
                f"--mode={mode}",
                f"--api={self.relay.url}",
                f"--relay-status=http://{LOOPBACK}:{self.relay.status_port}",
                f"--elector=http://{LOOPBACK}:{self.elector.port}",
                f"--request-timeout={REQUEST_TIMEOUT}",
                *confined,
                *flags,
            ],
            name=name,
            guardian=plane.guardian,
        )

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self.stop)
            self.start()
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, *, wait: bool = True) -> Self:
        """Returns when GM has listed everything."""
        self.link.start()
        self.relay.start(wait=False)
        self.elector.start(wait=False)
        self.gm.start()
        if wait:
            self.wait_ready()
        return self

    def restart(self) -> None:
        """After a kill: the same pod with new processes."""
        self.relay.start(wait=False)
        self.elector.start(wait=False)
        self.gm.start()

    def wait_ready(self) -> None:
        self.wait_for(lambda: self.gm.readyz() == http.HTTPStatus.OK, what="be ready")
        self.elector.wait_listening()

    def wait_leading(self) -> None:
        self.wait_for(lambda: self.may_act, what="lead")

    def wait_for(self, condition: Any, *, what: str, timeout: float = START_TIMEOUT) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline or not self.gm.is_running:
                raise AssertionError(
                    f"{self.name} does not {what}: {self.gm.log_text()[-3000:]}\n"
                    f"{self.elector.log_text()[-1000:]}\n{self.relay.log_text()[-1000:]}"
                )
            time.sleep(POLL_INTERVAL)

    @property
    def is_leader(self) -> bool:
        return self._leader("isLeader")

    @property
    def may_act(self) -> bool:
        return self._leader("mayAct")

    def _leader(self, field: str) -> bool:
        """False without an answer, too."""
        answer = ask(self.gm.port, "/status") if self.gm.is_running else None
        return answer is not None and bool(answer.json()["leader"][field])

    def freeze(self) -> None:
        """All three processes, as when the machine stands still."""
        for process in (self.gm, self.elector, self.relay):
            process.freeze()

    def thaw(self) -> None:
        for process in (self.relay, self.elector, self.gm):
            process.thaw()

    def kill(self) -> None:
        """All three at once, as when the machine dies."""
        for process in (self.gm, self.elector, self.relay):
            process.kill()

    def stop(self) -> None:
        self.gm.stop()
        self.elector.stop()
        self.relay.stop()
        self.link.stop()
        self._elector_port.release()
