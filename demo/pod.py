"""A "pod" on this machine: a main and its elector-sidecar as processes, and its own way out.

Owns the two processes, their fixed localhost ports and a proxy that is the pod's only link to the
API server. Guarantees: both processes die with the demo, however it ends (the control plane's
guardian watches them); Ctrl-C in the terminal does not reach them.
"""

import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from elector_sidecar.core.timing import Timing as CheckedTiming
from sidecar.values import seconds
from tests.controlplane.api_server import ApiServer
from tests.controlplane.proxy import FaultProxy
from tests.controlplane.reservation import LOOPBACK, Reservation
from tests.pods.elector import ask

ROOT = Path(__file__).parent.parent
LEASE = "demo"
# The Role of the README: what an elector needs, and nothing else. `create` cannot be limited to
# a name; it writes a Lease back that somebody deleted. Events tell who led when.
RULES: list[dict[str, list[str]]] = [
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": [LEASE],
        "verbs": ["get", "watch", "update"],
    },
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
]
# Seconds for an orderly end of a process, which needs tenths; then the step has failed.
END_TIMEOUT = 15.0
# What was done to a pod.
RUNNING, MAIN_KILLED, KILLED = "running", "main killed", "killed"
TERMINATING, CUT_OFF = "terminating", "cut off"


@dataclass(frozen=True)
class Timing:
    """Durations as on the sidecar's command line."""

    lease_duration: str
    renew_interval: str
    request_timeout: str

    def check(self) -> None:
        """Raises ValueError with the sidecar's own words where it would refuse to start."""
        CheckedTiming(
            seconds(self.lease_duration),
            seconds(self.renew_interval),
            seconds(self.request_timeout),
        )

    def flags(self) -> list[str]:
        return [
            *("--lease-duration", self.lease_duration),
            *("--renew-interval", self.renew_interval),
            *("--request-timeout", self.request_timeout),
        ]


class Pod:
    """`start` runs both processes; `fate` says in words what was done to it last."""

    def __init__(self, name: str, plane: ApiServer, namespace: str, timing: Timing) -> None:
        self.name = name
        self.fate = RUNNING
        self._plane = plane
        self._timing = timing
        self._namespace = namespace
        self._main: subprocess.Popen[bytes] | None = None
        self._sidecar: subprocess.Popen[bytes] | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.link = stack.enter_context(FaultProxy(self._plane.port, scheme=self._plane.scheme))
            ports = [Reservation(), Reservation()]
            for held in ports:
                stack.callback(held.release)
            self.port, self.main_port = (held.port for held in ports)
            self._credentials = self._plane.service_account_dir(self._namespace, "elector", RULES)
            stack.callback(self._stop)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def log(self) -> Path:
        """Of the sidecar, over all its processes."""
        return self._plane.folder / f"{self.name}.log"

    @property
    def ledger(self) -> Path:
        """One for all pods: each unit of work is a line with its term's fencing token."""
        return self._plane.folder / "ledger"

    def start(self) -> None:
        """As kubelet does for a native sidecar: the sidecar first, then the main."""
        self.start_sidecar()
        self.start_main()

    def start_sidecar(self) -> None:
        main = f"http://{LOOPBACK}:{self.main_port}"
        self._sidecar = self._spawn(
            [
                *("-m", "elector_sidecar", "--lease", LEASE, "--identity", self.name),
                *("--listen", f"{LOOPBACK}:{self.port}", "--server", self.link.url),
                *("--service-account-dir", str(self._credentials.path)),
                *("--health-url", f"{main}/healthz", "--drain-url", f"{main}/drain"),
                *("--release-on-term", *self._timing.flags()),
            ]
        )

    def start_main(self) -> None:
        elector = f"http://{LOOPBACK}:{self.port}"
        listen = ["--listen", str(self.main_port), "--ledger", str(self.ledger)]
        self._main = self._spawn(["-m", "demo.main", "--elector", elector, *listen])
        self.fate = RUNNING

    def is_eligible(self) -> bool:
        """What a readiness probe would ask: the main is healthy, the API server was reached."""
        answer = ask(self.port, "/eligible")
        return answer is not None and answer.status == 200

    def ended_unasked(self) -> str | None:
        """The program that ended though nothing was done to it."""
        is_alive = self.fate not in (KILLED, TERMINATING)
        if is_alive and self._sidecar is not None and self._sidecar.poll() is not None:
            return "elector-sidecar"
        if self.fate in (RUNNING, CUT_OFF) and self._main is not None and self._main.poll():
            return "main"
        return None

    def kill_main(self) -> None:
        self.fate = MAIN_KILLED
        self._end(self._main, signal.SIGKILL)

    def kill(self) -> None:
        self.fate = KILLED
        # The sidecar first: it must not see its main die.
        self._end(self._sidecar, signal.SIGKILL)
        self._end(self._main, signal.SIGKILL)

    def terminate(self) -> int | None:
        """As kubelet ends a pod with a native sidecar: the main first, the sidecar when it is
        gone. The sidecar's exit status; None if it did not end in time."""
        self.fate = TERMINATING
        self._end(self._main, signal.SIGTERM)
        return self._end(self._sidecar, signal.SIGTERM)

    def partition(self) -> None:
        self.fate = CUT_OFF
        self.link.black_hole()

    def heal(self) -> None:
        self.fate = RUNNING
        self.link.heal()

    def _spawn(self, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                env={"PATH": "/usr/bin:/bin"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._plane.guardian.watch(process.pid)
        return process

    def _end(self, process: subprocess.Popen[bytes] | None, number: signal.Signals) -> int | None:
        if process is None:
            return None
        process.send_signal(number)
        try:
            return process.wait(END_TIMEOUT)
        except subprocess.TimeoutExpired:
            return None

    def _stop(self) -> None:
        for process in (self._main, self._sidecar):
            if process is not None:
                process.kill()
                process.wait()
        self.link.stop()
