"""A pod of the demo: a main and its elector-sidecar, and its own way to the API server.

Knows what is done to a pod and in which order, not where its programs run.
"""

import signal
from collections.abc import Sequence

from tools.demo.environment import PodParts
from tools.demo.timing import Timing
from tools.harness.controlplane.clients.answer import ask

LEASE = "demo"
# The Role of docs/how-to/add-the-elector.md: what an elector needs, nothing else. `create` cannot
# be limited to a name; it writes a Lease back that somebody deleted. Events tell who led when.
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
# What was done to a pod.
RUNNING, MAIN_KILLED, KILLED = "running", "main killed", "killed"
TERMINATING, CUT_OFF = "terminating", "cut off"


def elector_flags(name: str, timing: Timing, *, main: str) -> list[str]:
    """Those that are the same everywhere; `main`: its URL on localhost."""
    return [
        *("--lease", LEASE, "--identity", name),
        *("--health-url", f"{main}/healthz", "--drain-url", f"{main}/drain"),
        *("--release-on-term", *timing.flags()),
    ]


class Pod:
    """`start` runs both programs; `fate` says in words what was done to it last."""

    def __init__(self, name: str, parts: PodParts) -> None:
        self.name = name
        self.fate = RUNNING
        self.host = parts.host
        self.port = parts.port
        self.main_port = parts.main_port
        self._sidecar = parts.sidecar
        self._main = parts.main
        self._link = parts.link

    @property
    def page(self) -> str:
        """For a browser."""
        return f"http://{self.host}:{self.port}/"

    def start(self) -> None:
        """As kubelet does for a native sidecar: the sidecar first, then the main."""
        self._sidecar.start()
        self.start_main()

    def start_main(self) -> None:
        self._main.start()
        self.fate = RUNNING

    def is_eligible(self) -> bool:
        """What a readiness probe would ask: the main is healthy, the API server was reached."""
        answer = ask(self.port, "/eligible", host=self.host)
        return answer is not None and answer.status == 200

    def ended_unasked(self) -> str | None:
        """The program that ended though nothing was done to it."""
        is_alive = self.fate not in (KILLED, TERMINATING)
        if is_alive and self._sidecar.exit_status() is not None:
            return "elector-sidecar"
        if self.fate in (RUNNING, CUT_OFF) and self._main.exit_status() is not None:
            return "main"
        return None

    def log_tail(self) -> Sequence[str]:
        return [*self._sidecar.log_tail(), *self._main.log_tail()]

    def kill_main(self) -> None:
        self.fate = MAIN_KILLED
        self._main.end(signal.SIGKILL)

    def kill(self) -> None:
        self.fate = KILLED
        # The sidecar first: it must not see its main die.
        self._sidecar.end(signal.SIGKILL)
        self._main.end(signal.SIGKILL)

    def terminate(self) -> int | None:
        """As kubelet ends a pod with a native sidecar: the main first, the sidecar when it is
        gone. The sidecar's exit status; None if it did not end in time."""
        self.fate = TERMINATING
        self._main.end(signal.SIGTERM)
        return self._sidecar.end(signal.SIGTERM)

    def partition(self) -> None:
        self.fate = CUT_OFF
        self._link.cut()

    def heal(self) -> None:
        self.fate = RUNNING
        self._link.heal()
