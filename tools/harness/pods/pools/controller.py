"""A pod of the pools' controller: the controller and its elector as real processes.

Guarantees: all ports stay the pod's own over restarts; whatever a test does to it (freeze, kill),
`stop` leaves no process behind. It has the account that the manifests give it, and no other rights.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

from tools.harness.controlplane.access.kubeconfig import write_kubeconfig
from tools.harness.controlplane.clients.answer import ask
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.guardian import Guardian
from tools.harness.controlplane.reservation import LOOPBACK, Reservation
from tools.harness.pods.elector import ElectorPod
from tools.harness.processes.child import POLL_INTERVAL, START_TIMEOUT
from tools.harness.processes.process import Process

NAMESPACE, ACCOUNT = "edge-pool", "controller"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
# As short as leaves time for writes, so that failovers are quick.
LEASE_FLAGS = ("--lease-duration", "6s", "--renew-interval", "1s", "--request-timeout", "2s")


class PoolControllerProcess(Process):
    """`flags` as on the command line."""

    def __init__(self, flags: Sequence[str], *, name: str, guardian: Guardian) -> None:
        super().__init__(name, ports=1, environ={"POD_NAME": name}, guardian=guardian)
        self.flags = list(flags)
        (self.port,) = self.ports

    def start(self) -> Self:
        """A new process with the same port; returns at once."""
        listen = f"--listen={LOOPBACK}:{self.port}"
        self._launch("pool-sidecar", "controller", listen, "--log-format=json", *self.flags)
        return self

    def readyz(self) -> int | None:
        answer = ask(self.port, "/readyz")
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


class PoolControllerPod:
    """A context manager that starts and stops it; the overlay has been applied to `plane`."""

    def __init__(
        self,
        plane: ControlPlane,
        folder: Path,
        *,
        name: str = "controller-0",
        flags: Sequence[str] = (),
        server: str | None = None,
    ) -> None:
        """`server`: another way to the API server for the controller, such as a proxy's."""
        self.name = name
        kubeconfig = write_kubeconfig(
            folder / f"{name}.kubeconfig",
            server=plane.server,
            ca=plane.ca_bundle.read_bytes(),
            credentials=plane.new_token(NAMESPACE, ACCOUNT),
            namespace=NAMESPACE,
        )
        self._port = Reservation()
        self.controller = PoolControllerProcess(
            [
                f"--kubeconfig={kubeconfig}",
                f"--elector=http://{LOOPBACK}:{self._port.port}",
                *([f"--server={server}"] if server else []),
                "--request-timeout=1s",
                *flags,
            ],
            name=name,
            guardian=plane.guardian,
        )
        self.elector = ElectorPod(
            name,
            ACCOUNT,
            [
                *("--kubeconfig", str(kubeconfig), "--namespace", NAMESPACE),
                *("--listen", f"{LOOPBACK}:{self._port.port}", *LEASE_FLAGS),
                *("--health-url", f"http://{LOOPBACK}:{self.controller.port}/readyz"),
            ],
            environ={"POD_NAME": name},
            guardian=plane.guardian,
        )
        self.elector.port = self._port.port

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self.stop)
            self.start()
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        self.elector.start(wait=False)
        self.controller.start()
        return self

    def wait_leading(self) -> Self:
        """Returns when it may write."""
        self.wait_for(lambda: self.may_act, what="lead")
        return self

    @property
    def is_ready(self) -> bool:
        return self.controller.readyz() == HTTPStatus.OK

    @property
    def may_act(self) -> bool:
        """False without an answer, too."""
        answer = ask(self.controller.port, "/status") if self.controller.is_running else None
        return answer is not None and bool(answer.json()["leader"]["mayAct"])

    def wait_for(
        self, condition: Callable[[], bool], *, what: str, timeout: float = START_TIMEOUT
    ) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline or not self.controller.is_running:
                raise AssertionError(
                    f"{self.name} does not {what}: {self.controller.log_text()[-3000:]}\n"
                    f"{self.elector.log_text()[-1000:]}"
                )
            time.sleep(POLL_INTERVAL)

    def freeze(self) -> None:
        """Both processes, as when the machine stands still."""
        self.controller.freeze()
        self.elector.freeze()

    def thaw(self) -> None:
        self.elector.thaw()
        self.controller.thaw()

    def kill(self) -> None:
        """Both at once, as when the machine dies."""
        self.controller.kill()
        self.elector.kill()

    def stop(self) -> None:
        self.controller.stop()
        self.elector.stop()
        self._port.release()
