"""The conditions that users meet, so that a promise is run in the cell where it could break.

    way x round trip x who asks x life of the relay
    {http, tls, tls by proxy} x {0, 0.3, 2 s} x {own, caller, node} x
    {fresh, restarted, resumed, restored}

Owns one relay in one such cell, the link before its API server and who asks there. Guarantees: when
it has begun, the relay says that its link is up, at the cell's round trip, and what the cell's life
says has befallen it; its clients speak as the cell says. Which cells are played, and why the others
are not: CELLS here, and the tables of situations in README.md.
"""

from __future__ import annotations

import enum
import secrets
import ssl
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from tests.integration.http_proxy import HttpProxy
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.access.certificates import Authority, CertificateFiles
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.relay import RelayProcess
from tools.harness.pods.wire.caller import Caller, Reply
from tools.harness.relay_objects import Contents

# In the certificate of the harness' API server, and in no DNS: only the proxy can look it up.
HOST: Final = "kubernetes.default.svc"
GROUP: Final = "system:nodes"
EVERYTHING: Final = [
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
]
# Seconds that a relay is stopped: longer than it takes a standstill for a busy machine.
FROZEN: Final = 6.0
# Writes that are lost by a restore: more than an API server makes while it starts.
LOST_WRITES: Final = 300
# Seconds for what takes no round trips, on a busy machine.
SOON: Final = 20.0


class Way(enum.Enum):
    """How clients reach the relay, and it the API server, which speaks TLS in any case."""

    HTTP = "http"
    TLS = "tls"
    # The relay's clients come over TLS, too.
    PROXY = "proxy"


class Who(enum.Enum):
    """Whose rights count: the relay's, those of the caller's token, those of a node, by whose
    certificate both the relay and its client say who they are."""

    OWN = "own"
    CALLER = "caller"
    NODE = "node"


class Life(enum.Enum):
    """What has befallen the relay, or the API server behind it, since it knew what there is."""

    FRESH = "fresh"
    # Killed, and started again on its data.
    RESTARTED = "restarted"
    # Stopped and continued, as a machine that was suspended.
    RESUMED = "resumed"
    # The API server's etcd was restored from a backup while the relay ran.
    RESTORED = "restored"


@dataclass(frozen=True)
class Condition:
    """`round_trip` in seconds."""

    way: Way
    round_trip: float
    who: Who
    life: Life

    def __str__(self) -> str:
        return f"{self.way.value}-{self.round_trip:g}s-{self.who.value}-{self.life.value}"


# Each value of each axis, and each pair of values of two axes that meet in one piece of code: the
# connect with TLS, proxy and delay; the credentials with restarts; the cursors with a restore.
CELLS: Final = (
    Condition(Way.HTTP, 0, Who.OWN, Life.FRESH),
    Condition(Way.TLS, 0, Who.NODE, Life.RESTARTED),
    Condition(Way.TLS, 0, Who.CALLER, Life.RESUMED),
    Condition(Way.HTTP, 0, Who.OWN, Life.RESTORED),
    Condition(Way.PROXY, 0, Who.OWN, Life.RESTARTED),
    Condition(Way.PROXY, 0, Who.NODE, Life.RESUMED),
    Condition(Way.TLS, 0.3, Who.CALLER, Life.FRESH),
    Condition(Way.HTTP, 0.3, Who.OWN, Life.RESTARTED),
    Condition(Way.PROXY, 0.3, Who.CALLER, Life.RESUMED),
    Condition(Way.TLS, 2, Who.OWN, Life.FRESH),
    Condition(Way.PROXY, 2, Who.NODE, Life.RESTARTED),
)


class Situation:
    """A relay in a cell; a context manager. `contents` are of a namespace of its own, in which
    `known` was there, and was known to the relay, before the cell's life befell it."""

    known: Final = "known"

    def __init__(self, plane: ControlPlane, folder: Path, condition: Condition) -> None:
        self.condition = condition
        self._plane = plane
        self._folder = folder
        self._stack = ExitStack()
        self.link = FaultProxy(plane.port)
        self.contents = Contents(plane, plane.create_namespace())
        self._serving: tuple[Path, CertificateFiles] | None = None
        self._pair = plane.client_authority.issue_client(
            unique("node"), user="system:node:edge-1", group=GROUP
        )
        self._token = ""
        environ: dict[str, str] = {}
        server = self.link.url
        if condition.way is Way.PROXY:
            proxy = self._stack.enter_context(HttpProxy({HOST: self.link.port}))
            self._stack.callback(proxy.cut)
            server, environ = f"https://{HOST}:{self.link.port}", {"HTTPS_PROXY": proxy.url}
        flags = [*self._upstream(server), *self._asked(), "--probe-interval=300ms"]
        self.relay = RelayProcess(
            flags,
            name=f"relay-{condition.life.value}",
            environ=environ,
            guardian=plane.guardian,
            serving=None if self._serving is None else self._serving[1],
        )

    # ── what it is made of ──

    def _upstream(self, server: str) -> list[str]:
        if self.condition.who is not Who.NODE:
            return [f"--kubeconfig={self._plane.admin_kubeconfig(server=server)}"]
        return [
            f"--server={server}",
            f"--client-certificate={self._pair.certificate}",
            f"--client-key={self._pair.key}",
            f"--certificate-authority={self._plane.ca_bundle}",
            f"--client-ca-file={self._plane.client_authority.bundle}",
        ]

    def _asked(self) -> list[str]:
        """How clients ask, and who they are."""
        if self.condition.way is not Way.HTTP:
            authority = Authority(self._folder, unique("relay-ca"))
            serving = authority.issue_server(unique("relay"), hosts=[LOOPBACK])
            self._serving = authority.bundle, serving
        if self.condition.who is Who.OWN:
            return []
        if self.condition.who is Who.CALLER:
            account = self._plane.service_account_dir(
                "default", unique("caller"), [], cluster_rules=EVERYTHING
            )
            self._token = (account.path / "token").read_text()
        return ["--access=caller"]

    def caller(self) -> Caller:
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        if self._serving is None:
            return Caller(self.relay.url, headers=headers)
        context = ssl.create_default_context(cafile=str(self._serving[0]))
        if self.condition.who is Who.NODE:
            context.load_cert_chain(self._pair.certificate, self._pair.key)
        return Caller(self.relay.url, context=context, headers=headers)

    # ── its life ──

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self.stop)
            if self.condition.who is Who.NODE:
                allow_nodes(self._plane)
            self.link.start()
            self.slow()
            self.contents.configmap(self.known)
            if self.condition.life is Life.RESTORED:
                self._plane.back_up()
            self.relay.start()
            self.wait_up()
            self._befall()
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        text = self.relay.log_text(all_lives=True)
        self.stop()
        assert "Traceback" not in text, text

    def stop(self) -> None:
        self.relay.stop()
        self.link.stop()
        self._stack.close()

    def _befall(self) -> None:
        if self.condition.life is Life.FRESH:
            return
        path = self.contents.path("configmaps")
        wait_for(lambda: self.known in self._names(path), timeout=self.patience, what="the list")
        match self.condition.life:
            case Life.RESTARTED:
                self.relay.kill()
                self.relay.start()
            case Life.RESUMED:
                self.relay.freeze()
                time.sleep(FROZEN)
                self.relay.thaw()
            case Life.RESTORED:
                self._restore(path)
        self.wait_up()

    def _restore(self, path: str) -> None:
        """What was written, and known, since the backup, is gone."""
        self.contents.configmap("lost")
        for number in range(LOST_WRITES):
            self.contents.edit("configmaps", self.known, {"data": {"key": str(number)}})
        version = {"resourceVersion": self.contents.version()}
        self.caller().get(path, version).expect()
        self._plane.restore()
        wait_for(
            lambda: "lost" not in self._names(path), timeout=self.patience, what="what there is"
        )

    def _names(self, path: str) -> list[str]:
        reply: Reply = self.caller().get(path, {"resourceVersion": "0"})
        return reply.names if reply.status == 200 else []

    # ── the link ──

    @property
    def patience(self) -> float:
        """Seconds for what takes some round trips."""
        return SOON + 10 * self.condition.round_trip

    def slow(self) -> None:
        """As the cell has it, and whole."""
        self.link.be_slow(round_trip=self.condition.round_trip)

    def wait_up(self) -> None:
        self.relay.wait_link(up=True, timeout=self.patience)

    def cut(self) -> None:
        """Returns when the relay has noticed."""
        self.link.black_hole()
        self.relay.wait_link(up=False, timeout=self.patience)

    def heal(self) -> None:
        self.slow()
        self.wait_up()


def unique(what: str) -> str:
    return f"{what}-{secrets.token_hex(4)}"


def allow_nodes(plane: ControlPlane) -> None:
    """Nodes may do all here: the node authorizer is not on."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    subjects = [{"kind": "Group", "name": GROUP, "apiGroup": "rbac.authorization.k8s.io"}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"metadata": {"name": unique("nodes")}, "subjects": subjects, "roleRef": role}
    expect(plane.admin.post(f"{rbac}/clusterrolebindings", binding))
