"""A real control plane for tests: kube-apiserver and etcd, on free loopback ports or in containers.

Owns: a temporary folder, the two processes, their credentials and the audit log.
Guarantees: RBAC decides about every request; tokens of service accounts are really issued and
checked; the audit log is complete; a server that is started again has its port and its data;
when `stop` returns, or the owner dies in any way, no process and no file is left.
Differs from a cluster: no kubelet, scheduler or controllers (a deleted namespace stays
Terminating), and etcd does not sync to disk (data survives kills, not a loss of power).
"""

from __future__ import annotations

import base64
import http.client
import json
import shutil
import signal
import ssl
import time
from collections.abc import Sequence
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Any, Unpack

from cryptography.hazmat.primitives.asymmetric import ec

from tools.harness.controlplane import build
from tools.harness.controlplane.access.accounts import TOKEN_LIFETIME, Rule, ServiceAccounts
from tools.harness.controlplane.access.certificates import (
    Authority,
    CertificateFiles,
    write_private_key,
)
from tools.harness.controlplane.access.kubeconfig import write_kubeconfig
from tools.harness.controlplane.access.service_account import ServiceAccountDirectory
from tools.harness.controlplane.api_server import STOP_TIMEOUT, ApiServer, Run
from tools.harness.controlplane.audit import (
    POLICY,
    RESPONSE_COMPLETE,
    AuditEvent,
    AuditLog,
    AuditSelectors,
)
from tools.harness.controlplane.clients.admin import AdminClient, Json
from tools.harness.controlplane.clients.answer import exchange
from tools.harness.controlplane.daemon import Runnable
from tools.harness.controlplane.flags import (
    apiserver_flags,
    etcd_flags,
    flags_with_nodes,
    flags_without_nodes,
)
from tools.harness.controlplane.reservation import LOOPBACK, Reservation

# Seconds for a start on a busy machine; a quiet one needs about 5.
START_TIMEOUT = 120.0
READY_POLL_INTERVAL = 0.05
# What a client may call the server, besides by its address; the last one is that of its Service.
SERVER_HOSTS = (LOOPBACK, "localhost", "kubernetes.default.svc", "10.96.0.1")
ADMIN_USER = "controlplane-admin"


class ControlPlane(ApiServer):
    """Starts with `start` or as a context manager; programs are built where missing.

    `features`: feature gates that are switched on, or as in `WatchList=false`; `apis`: group
    versions served on top; `without_plugins`: of admission, that are on by default;
    `has_nodes`: real kubelets come. `run`: by what a command runs that logs to a file, as processes
    here unless said otherwise; `host`: where the API server listens then.
    """

    scheme = "https"

    def __init__(
        self,
        *,
        features: Sequence[str] = (),
        apis: Sequence[str] = (),
        without_plugins: Sequence[str] = (),
        plugins: Sequence[str] = (),
        has_nodes: bool = False,
        host: str = LOOPBACK,
        run: Run | None = None,
    ) -> None:
        programs = {name: str(build.binary(name)) for name in ("etcd", "kube-apiserver")}
        super().__init__("edge-sidecars-controlplane-", host, run)
        self._reservations = [Reservation() for _ in range(3)]
        ports = (held.port for held in self._reservations)
        self.port, self._etcd_port, etcd_peer_port = ports
        self._audit_log = AuditLog(self.folder / "audit.log")
        self._signing_key = ec.generate_private_key(ec.SECP256R1())
        write_private_key(self.folder / "service-account.key", self._signing_key)
        policy = json.dumps(POLICY)
        (self.folder / "audit-policy.json").write_text(policy, encoding="utf-8")
        # Signs whoever comes with a certificate.
        self.client_authority = Authority(self.folder, "client-ca")
        self._admin_files = self.client_authority.issue_client(
            "admin", user=ADMIN_USER, group="system:masters"
        )
        if has_nodes:
            self.client_authority.issue_client(
                "kubelet-client", user="kube-apiserver", group="system:masters"
            )
        self._generation = 0
        self._issue_serving_certificate()
        self._etcd = self._daemon(
            "etcd",
            [
                programs["etcd"],
                *etcd_flags(self.folder, self._etcd_port, etcd_peer_port),
            ],
        )
        self._apiserver = self._daemon(
            "kube-apiserver",
            [
                programs["kube-apiserver"],
                *apiserver_flags(self.folder, host, self.port, self._etcd_port),
                *(flags_with_nodes(self.folder, host) if has_nodes else flags_without_nodes()),
                *(f"--feature-gates={it if '=' in it else f'{it}=true'}" for it in features),
                *(f"--runtime-config={api}=true" for api in apis),
                *(f"--disable-admission-plugins={it}" for it in without_plugins),
                *(f"--enable-admission-plugins={it}" for it in plugins),
            ],
        )

    def _daemon(self, name: str, command: Sequence[str]) -> Runnable:
        return self._run(command, self.folder / f"{name}.log")

    # Processes

    def start(self) -> None:
        with ExitStack() as stack:
            stack.callback(self.stop)
            self._etcd.start()
            self.start_apiserver()
            stack.pop_all()

    def stop(self) -> None:
        self.stop_apiserver()
        self.stop_etcd()
        self.guardian.close()
        for held in self._reservations:
            held.release()

    @property
    def apiserver_pid(self) -> int:
        """Of the present process."""
        return self._apiserver.pid

    def start_etcd(self) -> None:
        """Starts etcd with the same data; returns when the API server is ready again."""
        self._etcd.start()
        self.wait_ready()

    def stop_etcd(self) -> None:
        """Kills etcd: the API server answers 500 or late to all that it has not cached."""
        self._etcd.stop(signal.SIGKILL, timeout=STOP_TIMEOUT)

    def back_up(self) -> None:
        """Keeps what etcd holds now, as one that was killed leaves it; the servers run again."""
        self.stop_etcd()
        shutil.rmtree(self.folder / "etcd-backup", ignore_errors=True)
        shutil.copytree(self.folder / "etcd", self.folder / "etcd-backup")
        self.start_etcd()

    def restore(self) -> None:
        """Makes etcd hold what it held at `back_up`: the versions since are given out again."""
        self.stop_apiserver()
        self.stop_etcd()
        shutil.rmtree(self.folder / "etcd")
        shutil.copytree(self.folder / "etcd-backup", self.folder / "etcd")
        self._etcd.start()
        self.start_apiserver()

    def compact(self) -> None:
        """Makes etcd forget every version but the present one, as it does each five minutes in a
        cluster: a list of an older one, or its next page, is 410 from now on."""
        present = self._ask_etcd("/v3/kv/range", {"key": base64.b64encode(b"\0").decode()})
        body = {"revision": present["header"]["revision"], "physical": True}
        self._ask_etcd("/v3/kv/compaction", body)

    def _ask_etcd(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Over etcd's gateway: https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway/"""
        connection = http.client.HTTPConnection(LOOPBACK, self._etcd_port, timeout=STOP_TIMEOUT)
        answer = exchange(connection, path, method="POST", body=json.dumps(body).encode())
        if answer.status != HTTPStatus.OK:
            raise ChildProcessError(f"etcd: {path}: {answer.body!r}")
        return answer.json()

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        said = "no answer"
        while time.monotonic() < deadline:
            self._etcd.check_running()
            self._apiserver.check_running()
            try:
                status, body = self.admin.get("/readyz?verbose")
            except OSError as error:
                said = str(error)
            else:
                if status == HTTPStatus.OK:
                    return
                said = f"{status}: {body.get('message')}"
            time.sleep(READY_POLL_INTERVAL)
        raise TimeoutError(f"kube-apiserver is not ready after {START_TIMEOUT:g} s: {said}")

    # Credentials

    @property
    def ca_bundle(self) -> Path:
        """The certificate of the authority that signed the present serving certificate."""
        return self._serving_authority.bundle

    @property
    def admin(self) -> AdminClient:
        return self.client()

    def client(self, token: str | None = None, *, port: int | None = None) -> AdminClient:
        """A client that may do what the token's account may, without a token anything; `port`:
        another way there, such as a proxy's."""
        context = self.tls(as_admin=token is None)
        return AdminClient(self.host, port or self.port, context, token=token)

    def tls(self, *, as_admin: bool = True) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.ca_bundle))
        if as_admin:
            context.load_cert_chain(self._admin_files.certificate, self._admin_files.key)
        return context

    def admin_kubeconfig(self, *, server: str | None = None) -> Path:
        return self._write_kubeconfig("admin", self._admin_files, server, "default")

    def kubeconfig_for(
        self,
        namespace: str,
        service_account: str,
        rules: Sequence[Rule],
        *,
        cluster_rules: Sequence[Rule] = (),
        server: str | None = None,
        expires_in: float = TOKEN_LIFETIME,
    ) -> Path:
        self._accounts.ensure(namespace, service_account, rules, cluster_rules=cluster_rules)
        token = self.new_token(namespace, service_account, expires_in=expires_in)
        return self._write_kubeconfig(service_account, token, server, namespace)

    def service_account_dir(
        self,
        namespace: str,
        service_account: str,
        rules: Sequence[Rule],
        *,
        cluster_rules: Sequence[Rule] = (),
        expires_in: float = TOKEN_LIFETIME,
    ) -> ServiceAccountDirectory:
        self._accounts.ensure(namespace, service_account, rules, cluster_rules=cluster_rules)
        return ServiceAccountDirectory(
            self._new_path(service_account, "serviceaccount"),
            token=self.new_token(namespace, service_account, expires_in=expires_in),
            ca=self.ca_bundle.read_bytes(),
            namespace=namespace,
        )

    def new_token(
        self,
        namespace: str,
        service_account: str,
        *,
        expires_in: float = TOKEN_LIFETIME,
        pod: Json | None = None,
    ) -> str:
        """Another token of an account that exists, or of a `pod` of it as kubelet mounts it. It is
        refused from `expires_in` seconds on (0 or less: from the start) or, if it was used before,
        up to 10 s later."""
        return self._accounts.token(namespace, service_account, expires_in=expires_in, pod=pod)

    def revoke_tokens(self, namespace: str, service_account: str) -> None:
        """Makes all tokens of the account invalid (within 10 s); new ones can do the same."""
        self._accounts.revoke_tokens(namespace, service_account)

    def rotate_serving_certificate(self) -> Path:
        """Restarts the API server with a certificate of a new authority, which no client trusts
        yet; returns the new authority's bundle."""
        self.stop_apiserver()
        self._issue_serving_certificate()
        self.start_apiserver()
        return self.ca_bundle

    # Contents

    def create_namespace(self, prefix: str = "test") -> str:
        """Creates a namespace with its default service account (in a cluster, the controller
        manager makes that); returns its name."""
        name = super().create_namespace(prefix)
        self._accounts.ensure(name, "default", [])
        return name

    def audit(
        self, *, stage: str | None = RESPONSE_COMPLETE, **selectors: Unpack[AuditSelectors]
    ) -> Sequence[AuditEvent]:
        return self._audit_log.events(stage=stage, **selectors)

    @property
    def _accounts(self) -> ServiceAccounts:
        return ServiceAccounts(self.admin, self._signing_key)

    def _issue_serving_certificate(self) -> None:
        self._generation += 1
        self._serving_authority = Authority(self.folder, f"serving-ca-{self._generation}")
        self._serving_authority.issue_server("serving", hosts={*SERVER_HOSTS, self.host})

    def _write_kubeconfig(
        self, name: str, credentials: CertificateFiles | str, server: str | None, namespace: str
    ) -> Path:
        return write_kubeconfig(
            self._new_path(name, "kubeconfig"),
            server=server or self.server,
            ca=self.ca_bundle.read_bytes(),
            credentials=credentials,
            namespace=namespace,
        )
