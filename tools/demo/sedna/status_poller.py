"""What GMs and LCs say of themselves: each is asked for its /status again and again.

Owns one thread per process. Guarantee: an answer is never older than the question that it is
remembered for, so that nobody mistakes what was said before a fault for what is so after it.
"""

import threading
import time
from functools import partial
from typing import Any

from tools.harness.controlplane.clients.answer import ask
from tools.harness.pods.edge_node import EdgeNode
from tools.harness.pods.gm import GmPod
from tools.harness.pods.observers.polling import Polling
from tools.harness.pods.system import System

Json = dict[str, Any]

# Seconds between two questions to one process.
INTERVAL = 0.1
# A process that is frozen or busy starting does not answer.
ANSWER_TIMEOUT = 2.0


class StatusPoller(Polling):
    """Asks while it is entered."""

    def __init__(self, system: System) -> None:
        ports = [pod.gm.port for pod in system.gms]
        ports += [edge.lc.port for edge in system.edges.values()]
        super().__init__(
            [(f"look-at-{port}", partial(self._ask, port)) for port in ports], interval=INTERVAL
        )
        self._lock = threading.Lock()
        self._said: dict[int, tuple[float, Json | None]] = {}

    def gm(self, pod: GmPod, *, since: float = 0.0) -> Json | None:
        """What it last answered to a question asked after that, on the monotonic clock; None where
        it did not."""
        return self._last(pod.gm.port, since)

    def lc(self, edge: EdgeNode, *, since: float = 0.0) -> Json | None:
        """As `gm`."""
        return self._last(edge.lc.port, since)

    def _last(self, port: int, since: float) -> Json | None:
        with self._lock:
            asked_at, document = self._said.get(port, (0.0, None))
        return document if asked_at >= since else None

    def _ask(self, port: int) -> None:
        asked_at = time.monotonic()
        answer = ask(port, "/status", timeout=ANSWER_TIMEOUT)
        document = answer.json() if answer is not None and answer.status == 200 else None
        with self._lock:
            self._said[port] = (asked_at, document)
