"""`tools.local_apiserver` as the API server of a test: one process instead of a cluster.

Owns: a temporary folder, the process, its data and, where wanted, a recorder before it that keeps
what kube-apiserver's audit log would. Guarantees: a server that is started again has its port and
its data; when `stop` returns, or the owner dies in any way, no process and no file is left.
Differs from a control plane: whoever reaches it may do anything, so credentials only look as such.
"""

from __future__ import annotations

import ssl
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Unpack

from tools.harness.controlplane.access.accounts import TOKEN_LIFETIME, Rule
from tools.harness.controlplane.access.kubeconfig import write_kubeconfig
from tools.harness.controlplane.access.service_account import ServiceAccountDirectory
from tools.harness.controlplane.api_server import STOP_TIMEOUT, ApiServer, Run
from tools.harness.controlplane.audit import RESPONSE_COMPLETE, AuditEvent, AuditSelectors
from tools.harness.controlplane.clients.admin import AdminClient
from tools.harness.controlplane.clients.answer import ask
from tools.harness.controlplane.daemon import Runnable
from tools.harness.controlplane.recorder import Recorder
from tools.harness.controlplane.reservation import LOOPBACK, Reservation

MODULE = "tools.local_apiserver"
# Seconds for a start on a busy machine; a quiet one needs half of one.
START_TIMEOUT = 60.0
READY_POLL_INTERVAL = 0.02
# A client may send it; nobody looks at it.
TOKEN = "anybody"


class LocalApiServerProcess(ApiServer):
    """`is_recorded`: `audit` has all requests. `run` gets the module's arguments; it listens on
    localhost."""

    scheme = "http"

    def __init__(
        self,
        *,
        is_recorded: bool = False,
        host: str = LOOPBACK,
        run: Run | None = None,
    ) -> None:
        super().__init__("edge-sidecars-local-apiserver-", host, run)
        self._reservation = Reservation()
        own_port = self._reservation.port
        self._recorder = Recorder(own_port) if is_recorded else None
        self.port = own_port if self._recorder is None else self._recorder.port
        self._own_port = own_port
        self._apiserver = self._run(
            [
                f"--listen={LOOPBACK}:{own_port}",
                f"--data-dir={self.folder / 'data'}",
            ],
            self.folder / "local_apiserver.log",
        )

    def _run_here(self, command: Sequence[str], log: Path) -> Runnable:
        return super()._run_here([sys.executable, "-m", MODULE, *command], log)

    # Processes

    def start(self) -> None:
        with ExitStack() as stack:
            stack.callback(self.stop)
            if self._recorder is not None:
                self._recorder.start()
            self.start_apiserver()
            stack.pop_all()

    def stop(self) -> None:
        self.stop_apiserver()
        if self._recorder is not None:
            self._recorder.stop()
        self.guardian.close()
        self._reservation.release()

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while not self._is_ready():
            self._apiserver.check_running()
            if time.monotonic() > deadline:
                raise TimeoutError(f"the local API server is not ready after {START_TIMEOUT:g} s")
            time.sleep(READY_POLL_INTERVAL)

    def _is_ready(self) -> bool:
        answer = ask(self._own_port, "/readyz", host=self.host, timeout=STOP_TIMEOUT)
        return answer is not None and answer.status == HTTPStatus.OK

    # Credentials

    @property
    def admin(self) -> AdminClient:
        """A client; like every other one, it may do anything."""
        return AdminClient(self.host, self.port, None)

    def tls(self, *, as_admin: bool = True) -> ssl.SSLContext | None:
        return None

    def admin_kubeconfig(self, *, server: str | None = None) -> Path:
        return self.kubeconfig_for("default", "admin", [], server=server)

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
        """Of the account's name; its rules hold nobody back."""
        return write_kubeconfig(
            self._new_path(service_account, "kubeconfig"),
            server=server or self.server,
            ca=None,
            credentials=TOKEN,
            namespace=namespace,
        )

    def service_account_dir(
        self,
        namespace: str,
        service_account: str,
        rules: Sequence[Rule],
        *,
        cluster_rules: Sequence[Rule] = (),
        expires_in: float = TOKEN_LIFETIME,
    ) -> ServiceAccountDirectory:
        """As kubelet mounts it into every pod; only the namespace in it is of use here."""
        path = self._new_path(service_account, "serviceaccount")
        return ServiceAccountDirectory(path, token=TOKEN, ca=b"", namespace=namespace)

    # Contents

    def audit(
        self, *, stage: str | None = RESPONSE_COMPLETE, **selectors: Unpack[AuditSelectors]
    ) -> Sequence[AuditEvent]:
        if self._recorder is None:
            raise ValueError("nothing is recorded: LocalApiServerProcess(is_recorded=True)")
        return self._recorder.events(stage=stage, **selectors)
