"""Where a client of these tests connects: to the API server itself, or to relays before it.

Owns: the way from the client to the API server, with the one link that a test may break, and how
its clients speak and say who they are. What is promised holds over plain HTTP and over TLS, and
for callers with rights of their own: each kind of place shows another of these.
Guarantees: what holds `direct` is the reference; every place serves the same control plane, so
that objects are made in the cloud and looked at through the place; `stop` ends all of it.
"""

from __future__ import annotations

import enum
import secrets
import socket
import ssl
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

from tools.harness.controlplane.access.certificates import Authority, CertificateFiles
from tools.harness.controlplane.access.service_account import ServiceAccountDirectory
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.pods.relay import RelayProcess
from tools.harness.pods.wire.caller import Caller

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

# Seconds between two probes of the link: a third of the default, so that tests of cuts are quick.
PROBE_INTERVAL = "300ms"
# Where nobody breaks the link: a machine that is busy for a second makes no relay answer with what
# it knows instead of asking.
PATIENT = "--read-timeout=5s"
# Rules of who may do all that there is.
EVERYTHING = [
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
]
# How the tests call themselves where they ask the API server itself.
CLOUD = "cloud"


class Kind(enum.Enum):
    """How far the API server is, and how one gets there.

    `RELAY`: plain HTTP, --access own. `BEHIND_RELAY`: TLS to the first relay and between both,
    --access own. `FOR_CALLERS`: TLS, --access caller, and clients with a token that may do all.
    """

    DIRECT = "direct"
    RELAY = "relay"
    BEHIND_RELAY = "relay-behind-relay"
    FOR_CALLERS = "relay-for-callers"

    @property
    def is_tls(self) -> bool:
        return self is not Kind.RELAY


ALL = tuple(Kind)


def played(*kinds: Kind) -> list[ParameterSet]:
    """The kinds for a test with a place of its own. The short stage plays the nearest relay: what
    TLS, a second relay and callers' tokens add is in tests that ask the shared places."""
    near = (Kind.DIRECT, Kind.RELAY)
    marks = {kind: () if kind in near else (pytest.mark.long,) for kind in kinds}
    return [pytest.param(kind, marks=marks[kind], id=kind.value) for kind in kinds]


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
        self._ca: Path | None = None
        self._serving: CertificateFiles | None = None
        self._clients: ServiceAccountDirectory | None = None
        self._account = account
        self._data_dir = data_dir
        self._prefix = prefix

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self.stop)
            self.link.start()
            if self.kind is not Kind.DIRECT:
                self._issue()
                self._add_relay(self._upstream(), name="relay")
            if self.kind is Kind.BEHIND_RELAY:
                self._add_relay([f"--kubeconfig={self.kubeconfig()}"], name="second-relay")
            stack.pop_all()
        return self

    def _issue(self) -> None:
        """What the relays show to their clients, and clients to the relay."""
        if self.kind.is_tls:
            authority = Authority(self.plane.folder, f"relay-ca-{secrets.token_hex(4)}")
            name = f"relay-{secrets.token_hex(4)}"
            self._serving = authority.issue_server(name, hosts=[LOOPBACK])
            self._ca = authority.bundle
        if self.kind is Kind.FOR_CALLERS:
            self._flags.append("--access=caller")
            self._clients = self.plane.service_account_dir(
                "default", f"caller-{secrets.token_hex(4)}", [], cluster_rules=EVERYTHING
            )

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
            serving=self._serving,
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
        named = {name.replace("_", "-").title(): value for name, value in headers.items()}
        if self._clients is not None:
            token = (self._clients.path / "token").read_text()
            named.setdefault("Authorization", f"Bearer {token}")
        return Caller(self.url, context=self.tls(), headers=named)

    def tls(self) -> ssl.SSLContext | None:
        """What clients here trust; None over plain HTTP."""
        if not self.relays:
            return self.plane.tls()
        return None if self._ca is None else ssl.create_default_context(cafile=str(self._ca))

    @property
    def cloud(self) -> Caller:
        """What asks the API server itself, past every link and relay."""
        return Caller(self.plane.server, context=self.plane.tls(), headers={"User-Agent": CLOUD})

    @property
    def authority(self) -> Path | None:
        """The PEM file of what clients of a relay trust; None over plain HTTP."""
        return self._ca

    def connect(self, sock: socket.socket) -> socket.socket:
        """The socket as a client's connection to the relay, to read from it as one likes."""
        sock.connect((LOOPBACK, self.relay.port))
        context = self.tls()
        return sock if context is None else context.wrap_socket(sock, server_hostname=LOOPBACK)

    def request_head(self, target: str) -> bytes:
        """A GET of `target`, written by hand."""
        caller = self.caller()
        lines = [f"{name}: {value}" for name, value in caller.headers.items()]
        return "\r\n".join([f"GET {target} HTTP/1.1", f"Host: {LOOPBACK}", *lines, "", ""]).encode()

    def kubeconfig(self, *, namespace: str = "default") -> Path:
        """For clients that connect here; lives as long as the control plane."""
        if not self.relays:
            return self.plane.admin_kubeconfig(server=self.link.url)
        flags = [f"--namespace={namespace}"]
        if self._serving is not None:
            flags += [
                f"--tls-cert-file={self._serving.certificate}",
                f"--certificate-authority={self._ca}",
            ]
        if self._clients is not None:
            flags += ["--access=caller", f"--service-account-dir={self._clients.path}"]
        path = self.plane.folder / f"relay-{secrets.token_hex(4)}.kubeconfig"
        path.write_text(self.relay.command("kubeconfig", *flags), encoding="utf-8")
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
