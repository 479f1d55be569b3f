"""Where a client of these tests connects: to the API server itself, or to relays before it.

Owns: the way from the client to the API server, with the one link that a test may break.
Guarantees: what holds `direct` is the reference; every place serves the same control plane, so
that objects are made in the cloud and looked at through the place; `stop` ends all of it.
"""

from __future__ import annotations

import enum
import json
import secrets
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.proxy import FaultProxy
from tests.controlplane.reservation import LOOPBACK
from tests.controlplane.service_account import ServiceAccountDirectory
from tests.pods.caller import Caller
from tests.pods.relay import RelayProcess

# Seconds between two probes of the link: a third of the default, so that tests of cuts are quick.
PROBE_INTERVAL = "300ms"
# Where nobody breaks the link: a machine that is busy for a second makes no relay answer with what
# it knows instead of asking.
PATIENT = "--read-timeout=5s"
# How the tests call themselves where they ask the API server itself.
CLOUD = "cloud"


class Kind(enum.Enum):
    """How far the API server is."""

    DIRECT = "direct"
    RELAY = "relay"
    BEHIND_RELAY = "relay-behind-relay"


ALL = tuple(Kind)
RELAYS = (Kind.RELAY, Kind.BEHIND_RELAY)


class Place:
    """A way to the control plane; started by `start` or as a context manager.

    `link` is the part of the way that may be broken: before the API server in any case.
    `relays` stand in the order in which a request meets them. `flags` are for all of them.
    """

    def __init__(
        self,
        kind: Kind,
        plane: ControlPlane,
        *,
        flags: Sequence[str] = (),
        account: ServiceAccountDirectory | None = None,
        data_dir: Path | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        """`account`: the relay next to the API server goes there as in a pod, default: as an
        administrator. `data_dir` and `prefix` as RelayProcess has them, for a single relay."""
        self.kind = kind
        self.plane = plane
        self.link = FaultProxy(plane.port)
        self.relays: list[RelayProcess] = []
        self._flags = [f"--probe-interval={PROBE_INTERVAL}", *flags]
        self._account = account
        self._data_dir = data_dir
        self._prefix = prefix

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self.stop)
            self.link.start()
            if self.kind is not Kind.DIRECT:
                self._add_relay(self._upstream(), name="relay")
            if self.kind is Kind.BEHIND_RELAY:
                self._add_relay([f"--server={self.relays[0].url}"], name="second-relay")
            stack.pop_all()
        return self

    def stop(self) -> None:
        for relay in self.relays:
            relay.stop()
        self.link.stop()

    def _upstream(self) -> list[str]:
        """How the relay next to the API server goes there: through the link."""
        if self._account is None:
            return [f"--kubeconfig={self.plane.admin_kubeconfig(server=self.link.url)}"]
        return [f"--service-account-dir={self._account.path}"]

    def _add_relay(self, upstream: list[str], *, name: str) -> None:
        # What kubelet tells every container; looked at only where no flag names a server.
        environ = {
            "KUBERNETES_SERVICE_HOST": LOOPBACK,
            "KUBERNETES_SERVICE_PORT": str(self.link.port),
        }
        relay = RelayProcess(
            [*upstream, *self._flags],
            name=name,
            data_dir=self._data_dir,
            prefix=self._prefix,
            environ=environ,
        )
        self.relays.insert(0, relay)
        relay.start()

    @property
    def is_relayed(self) -> bool:
        return bool(self.relays)

    @property
    def relay(self) -> RelayProcess:
        """The one that the client connects to."""
        return self.relays[0]

    @property
    def url(self) -> str:
        return self.relays[0].url if self.relays else self.link.url

    def caller(self, **headers: str) -> Caller:
        """What asks here; `headers` come with every request, underscores for hyphens."""
        context = None if self.relays else self.plane.tls()
        named = {name.replace("_", "-").title(): value for name, value in headers.items()}
        return Caller(self.url, context=context, headers=named)

    @property
    def cloud(self) -> Caller:
        """What asks the API server itself, past every link and relay."""
        return Caller(self.plane.server, context=self.plane.tls(), headers={"User-Agent": CLOUD})

    def kubeconfig(self, *, namespace: str = "default") -> Path:
        """For clients that connect here; lives as long as the control plane."""
        if not self.relays:
            return self.plane.admin_kubeconfig(server=self.link.url)
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "relay", "cluster": {"server": self.url}}],
            "users": [{"name": "anyone", "user": {}}],
            "contexts": [
                {
                    "name": "relay",
                    "context": {"cluster": "relay", "user": "anyone", "namespace": namespace},
                }
            ],
            "current-context": "relay",
        }
        path = self.plane.folder / f"relay-{secrets.token_hex(4)}.kubeconfig"
        path.write_text(json.dumps(content), encoding="utf-8")
        return path

    # ── faults ──

    def cut(self, *, black_hole: bool = False) -> None:
        """Breaks the link; returns when every relay that has noticed it can."""
        if black_hole:
            self.link.black_hole()
        else:
            self.link.refuse()
        self._wait_link(up=False)

    def heal(self) -> None:
        self.link.heal()
        self._wait_link(up=True)

    def wait_up(self) -> None:
        """Returns when every relay says that it reaches the next one: who used the place, or the
        API server, before may have left it in doubt."""
        for relay in self.relays:
            relay.wait_link(up=True)

    def _wait_link(self, *, up: bool) -> None:
        """Of the relay at the link: the link of those before it is whole."""
        if self.relays:
            self.relays[-1].wait_link(up=up)
