"""An edge node: LC, in mode relay with the relay of its pod, and links to the cloud that can break.

Owns the links: in modes with a stream one to each GM, in mode relay one to the API server.
Guarantees: ports and data are the node's own over restarts; `stop` leaves nothing behind.
"""

from collections.abc import Sequence
from pathlib import Path

from tools.harness.controlplane.api_server import ApiServer
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.pods.gm import GmPod
from tools.harness.pods.lc import LcProcess, relay_flags
from tools.harness.pods.relay import RelayProcess

RELAY = "relay"


class EdgeNode:
    """`root`: of its file system. Starts with `start`."""

    def __init__(
        self,
        name: str,
        plane: ApiServer,
        gms: Sequence[GmPod],
        *,
        mode: str,
        namespace: str,
        root: Path,
        flags: Sequence[str] = (),
    ) -> None:
        self.name = name
        root.mkdir(parents=True, exist_ok=True)
        self.relay: RelayProcess | None = None
        if mode == RELAY:
            self.links = [FaultProxy(plane.port, scheme=plane.scheme)]
            kubeconfig = plane.admin_kubeconfig(server=self.links[0].url)
            self.relay = RelayProcess(
                [f"--kubeconfig={kubeconfig}", "--probe-interval=300ms"],
                name=f"{name}-relay",
                guardian=plane.guardian,
            )
            own = [*relay_flags(self.relay), f"--namespace={namespace}"]
        else:
            self.links = [FaultProxy(pod.gm.stream_port) for pod in gms]
            own = [f"--gm-address={','.join(f'{LOOPBACK}:{link.port}' for link in self.links)}"]
        self.lc = LcProcess(
            # Its workers have capabilities, as GM's pods do.
            [*own, "--log-format=json", "--trust-any-worker=false", *flags],
            node=name,
            root=root,
            guardian=plane.guardian,
        )

    def start(self) -> None:
        """Returns at once."""
        for link in self.links:
            link.start()
        self.restart()

    def restart(self) -> None:
        """What does not run, with its data and ports."""
        if self.relay is not None and not self.relay.is_running:
            self.relay.start(wait=False)
        if not self.lc.is_running:
            self.lc.start(wait=False)

    def stop(self) -> None:
        self.lc.stop()
        if self.relay is not None:
            self.relay.stop()
        for link in self.links:
            link.stop()

    def kill(self) -> None:
        """The pod: LC, and its relay."""
        self.lc.kill()
        if self.relay is not None:
            self.relay.kill()

    def cut(self, *, is_silent: bool = False) -> None:
        """From the cloud; silently, as where packets vanish, or with resets."""
        for link in self.links:
            if is_silent:
                link.black_hole()
            else:
                link.refuse()

    def heal(self) -> None:
        for link in self.links:
            link.heal()
