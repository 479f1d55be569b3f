"""What all scenarios share: the API server, pods of a size, relays before it, the load.

Guarantees: pods are made once per number and size, in a namespace of their own, with nobody who
runs them; every process is under the control plane's guardian, so none outlives the benchmark.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.bench.process import AS_IN_IMAGES
from tools.bench.progress import say
from tools.bench.relay.load import Load
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.pods.relay import RelayProcess

POD_BYTES = 3000
# How relays stand in the audit log.
USER_AGENT = "relay-sidecar"
EVERYTHING = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]


@dataclass(frozen=True)
class Pods:
    """Named pod-00000 on, all in one namespace."""

    namespace: str
    count: int

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def any_version(self) -> str:
        """The list that a cache answers."""
        return f"{self.path}?resourceVersion=0"


class World:
    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.folder = folder
        self.load = Load(self.guard)
        self._kubeconfig = plane.admin_kubeconfig()
        # As in a pod: reading a kubeconfig takes a library that an image for pods lacks.
        self._account = plane.service_account_dir(
            plane.create_namespace("relay"), "relay", [], cluster_rules=EVERYTHING
        )
        self._pods: dict[tuple[int, int, str, bool], Pods] = {}

    def guard(self, pid: int) -> None:
        """The process dies with the benchmark."""
        self.plane.guardian.watch(pid)

    def pods(
        self, count: int, *, size: int = POD_BYTES, purpose: str = "bench", is_managed: bool = True
    ) -> Pods:
        """Made when they are asked for first; what is for one `purpose` serves no other. Pods that
        are not managed lack managedFields: updating them costs the API server half as much."""
        key = (count, size, purpose, is_managed)
        if key not in self._pods:
            namespace = self.plane.create_namespace(purpose)
            report = self.load.run(
                "create",
                *self.direct,
                f"--namespace={namespace}",
                f"--count={count}",
                f"--size={size}",
                f"--managed-fields={str(is_managed).lower()}",
            )
            say(f"{count} pods of {report['bytes']} bytes in {report['seconds']:.1f} s")
            self._pods[key] = Pods(namespace, count)
        return self._pods[key]

    # ── who is asked, as flags of the load program ──

    @property
    def direct(self) -> list[str]:
        return [f"--kubeconfig={self._kubeconfig}"]

    def at_direct(self) -> list[str]:
        return [f"--at-kubeconfig={self._kubeconfig}"]

    # ── relays ──

    @contextmanager
    def relay(
        self, *, link: FaultProxy | None = None, flags: Sequence[str] = ()
    ) -> Iterator[RelayProcess]:
        """A relay that runs, with an empty data directory; behind `link`, else next to the API
        server."""
        with self.stopped_relay(link=link, flags=flags) as relay:
            self.start(relay)
            yield relay

    @contextmanager
    def relay_of_person(self) -> Iterator[RelayProcess]:
        """The same with a kubeconfig, in YAML as kubectl writes it."""
        path = self.folder / "yaml.kubeconfig"
        # YAML is all that JSON is; the comment is what JSON is not.
        path.write_text("# of a person\n" + self._kubeconfig.read_text(encoding="utf-8"))
        relay = RelayProcess([f"--kubeconfig={path}"], environ=AS_IN_IMAGES)
        try:
            self.start(relay)
            yield relay
        finally:
            relay.stop()

    @contextmanager
    def stopped_relay(
        self, *, link: FaultProxy | None = None, flags: Sequence[str] = ()
    ) -> Iterator[RelayProcess]:
        relay = RelayProcess([*self.upstream(link), *flags], environ=AS_IN_IMAGES)
        try:
            yield relay
        finally:
            relay.stop()

    def start(self, relay: RelayProcess, *, wait: bool = True) -> None:
        relay.start(wait=False)
        self.guard(relay.pid)
        if wait:
            relay.wait_ready()

    def as_caller(self) -> list[str]:
        """Flags of a load program that asks with a token."""
        return [f"--token-file={self._account.path / 'token'}"]

    def upstream(self, link: FaultProxy | None) -> Sequence[str]:
        """Flags of a relay."""
        server = self.plane.server if link is None else link.url
        return [f"--server={server}", f"--service-account-dir={self._account.path}"]


def at(relay: RelayProcess) -> list[str]:
    """Flags of the load program."""
    return [f"--server={relay.url}"]
