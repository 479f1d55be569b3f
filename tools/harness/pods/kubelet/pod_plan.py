"""What becomes of a pod on a node of the kubelets' stand-in, and what is known of one there.

Owns no process: whoever starts one keeps it in `PodState`.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from edge_sidecars.runtime.formats import rfc3339

Json = dict[str, Any]

# A worker in a thread: it is given its environment, ends soon after the event, and returns what a
# process would exit with.
Work = Callable[[Mapping[str, str], threading.Event], int]


@dataclass(frozen=True)
class PodPlan:
    """What becomes of a pod: Running after `starts_after` seconds; then its command runs as a
    process, or `work` in a thread, or it ends with `phase` after `runs_for` seconds (None: it runs
    on)."""

    starts_after: float = 0.05
    runs_for: float | None = None
    phase: str = "Succeeded"
    is_process: bool = False
    work: Work | None = None

    @property
    def is_working(self) -> bool:
        return self.is_process or self.work is not None


class Working(Protocol):
    """A pod's process, or its work in a thread."""

    def poll(self) -> int | None:
        """What it exited with; None: it has not. Raises what work in a thread died of."""

    def end(self) -> None:
        """Begins to end it, or returns when it has ended."""


@dataclass
class PodState:
    """`phase` as it is on the node; `told`: as the API has it."""

    object: Json
    plan: PodPlan
    phase: str = "Pending"
    told: str = ""
    process: Working | None = None
    restarts: int = 0
    is_leaving: bool = False

    @property
    def uid(self) -> str:
        return str(self.object["metadata"]["uid"])

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])

    @property
    def node(self) -> str:
        return str(self.object["spec"].get("nodeName", ""))

    @property
    def namespace(self) -> str:
        return str(self.object["metadata"]["namespace"])

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    @property
    def address(self) -> str:
        """Its own one among the loopback addresses."""
        digest = hashlib.sha256(self.uid.encode()).digest()
        return f"127.{digest[0]}.{digest[1]}.{1 + digest[2] % 254}"

    def end(self) -> None:
        """Its process, where it has one."""
        if self.process is not None:
            self.process.end()

    def status(self) -> Json:
        """As a kubelet tells it."""
        ready = {"type": "Ready", "status": "True" if self.phase == "Running" else "False"}
        return {
            "phase": self.phase,
            "conditions": [ready],
            "podIP": self.address,
            "startTime": rfc3339.stamp_now(),
        }
