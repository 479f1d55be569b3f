"""The real kube-controller-manager beside a test control plane: Deployments, garbage collection.

Owns: its process. Guarantees: it dies with the control plane's owner; only the controllers below
run, and those that are asked for, since the others need a cluster's nodes or write what tests
count.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tools.harness.controlplane import build
from tools.harness.controlplane.api_server import STOP_TIMEOUT
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.daemon import Daemon

CONTROLLERS = (
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "replicaset-controller",
)


class ControllerManager:
    """Runs between `start` and `stop`, or as a context manager."""

    def __init__(
        self, plane: ControlPlane, *, more: Sequence[str] = (), flags: Sequence[str] = ()
    ) -> None:
        """`more`: names of further controllers; `flags`: what they need."""
        kubeconfig = plane.admin_kubeconfig()
        self._log: Path = plane.folder / "kube-controller-manager.log"
        self._daemon = Daemon(
            [
                str(build.binary("kube-controller-manager")),
                f"--kubeconfig={kubeconfig}",
                f"--authentication-kubeconfig={kubeconfig}",
                f"--authorization-kubeconfig={kubeconfig}",
                f"--controllers={','.join((*CONTROLLERS, *more))}",
                "--leader-elect=false",
                # No port of its own: nobody asks it anything.
                "--secure-port=0",
                # The defaults are for one writer among many; tests make hundreds of Deployments.
                "--kube-api-qps=500",
                "--kube-api-burst=1000",
                "--concurrent-gc-syncs=5",
                *flags,
            ],
            log=self._log,
            guardian=plane.guardian,
        )

    def start(self) -> Self:
        """Returns at once; what it does shows in the API a second or two later."""
        self._daemon.start()
        return self

    def stop(self) -> None:
        """Ends it."""
        self._daemon.stop(signal.SIGTERM, timeout=STOP_TIMEOUT)

    def check_running(self) -> None:
        """Raises ChildProcessError with the end of its log where it has ended."""
        self._daemon.check_running()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
