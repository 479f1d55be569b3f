"""`tools.local_apiserver` as the API server of a test: one process instead of a cluster.

Owns: a temporary folder, the process, its data and, where wanted, a recorder before it that keeps
what kube-apiserver's audit log would. Guarantees: a server that is started again has its port and
its data; when `stop` returns, or the owner dies in any way, no process and no file is left.
Differs from a control plane: whoever reaches it may do anything, so credentials only look as such.
"""

from __future__ import annotations

import secrets
import signal
import ssl
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

from tools.harness.controlplane.access.accounts import TOKEN_LIFETIME, Rule, expect
from tools.harness.controlplane.access.kubeconfig import write_kubeconfig
from tools.harness.controlplane.access.service_account import ServiceAccountDirectory
from tools.harness.controlplane.audit import RESPONSE_COMPLETE, AuditEvent, AuditSelectors
from tools.harness.controlplane.clients.admin import AdminClient
from tools.harness.controlplane.clients.answer import ask
from tools.harness.controlplane.daemon import Daemon, Runnable
from tools.harness.controlplane.guardian import Guardian
from tools.harness.controlplane.recorder import Recorder
from tools.harness.controlplane.reservation import LOOPBACK, Reservation

MODULE = "tools.local_apiserver"
# Seconds for a start on a busy machine; a quiet one needs half of one.
START_TIMEOUT = 60.0
STOP_TIMEOUT = 20.0
READY_POLL_INTERVAL = 0.02
# A client may send it; nobody looks at it.
TOKEN = "anybody"


class LocalApiServerProcess:
    """Starts with `start` or as a context manager. `is_recorded`: `audit` tells of all requests.

    `run`: by what the module of these arguments runs, which logs to a file: a process here unless
    another is given; `host`: the address at which its clients reach it. It listens on localhost.
    """

    scheme = "http"

    def __init__(
        self,
        *,
        is_recorded: bool = False,
        host: str = LOOPBACK,
        run: Callable[[Sequence[str], Path], Runnable] | None = None,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="edge-sidecars-local-apiserver-"))
        self.guardian = Guardian(self.folder)
        self._reservation = Reservation()
        own_port = self._reservation.port
        self._recorder = Recorder(own_port) if is_recorded else None
        self.port = own_port if self._recorder is None else self._recorder.port
        self._own_port = own_port
        self._host = host
        self.server = f"http://{host}:{self.port}"
        self._process = (run or self._run_here)(
            [
                f"--listen={LOOPBACK}:{own_port}",
                f"--data-dir={self.folder / 'data'}",
            ],
            self.folder / "local_apiserver.log",
        )

    def _run_here(self, arguments: Sequence[str], log: Path) -> Runnable:
        command = [sys.executable, "-m", MODULE, *arguments]
        return Daemon(command, log=log, guardian=self.guardian)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    # Processes

    def start(self) -> None:
        """Returns when it is ready. Raises ChildProcessError with the end of its log."""
        with ExitStack() as stack:
            stack.callback(self.stop)
            if self._recorder is not None:
                self._recorder.start()
            self.start_apiserver()
            stack.pop_all()

    def stop(self) -> None:
        """Kills it and removes the folder; may be called again."""
        self.stop_apiserver()
        if self._recorder is not None:
            self._recorder.stop()
        self.guardian.close()
        self._reservation.release()

    def start_apiserver(self) -> None:
        """Starts it on the same port with the same data; returns when it is ready."""
        self._process.start()
        deadline = time.monotonic() + START_TIMEOUT
        while not self._is_ready():
            self._process.check_running()
            if time.monotonic() > deadline:
                raise TimeoutError(f"the local API server is not ready after {START_TIMEOUT:g} s")
            time.sleep(READY_POLL_INTERVAL)

    def stop_apiserver(self, *, graceful: bool = False) -> None:
        """Kills it; `graceful`: SIGTERM first."""
        number = signal.SIGTERM if graceful else signal.SIGKILL
        self._process.stop(number, timeout=STOP_TIMEOUT)

    def freeze(self) -> None:
        """SIGSTOP: connections are accepted, nothing is answered."""
        self._process.freeze()

    def thaw(self) -> None:
        """Lets a frozen one run on."""
        self._process.thaw()

    def _is_ready(self) -> bool:
        answer = ask(self._own_port, "/readyz", host=self._host, timeout=STOP_TIMEOUT)
        return answer is not None and answer.status == HTTPStatus.OK

    # Credentials

    @property
    def admin(self) -> AdminClient:
        """A client; like every other one, it may do anything."""
        return AdminClient(self._host, self.port, None)

    def tls(self, *, as_admin: bool = True) -> ssl.SSLContext | None:
        """None: it speaks HTTP."""
        return None

    def admin_kubeconfig(self, *, server: str | None = None) -> Path:
        """A kubeconfig; `server`: another way there, such as a proxy."""
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

    def _new_path(self, name: str, suffix: str) -> Path:
        return self.folder / f"{name}-{secrets.token_hex(4)}.{suffix}"

    # Contents

    def create_namespace(self, prefix: str = "test") -> str:
        """Creates a namespace; returns its name."""
        name = f"{prefix}-{secrets.token_hex(4)}"
        expect(self.admin.post("/api/v1/namespaces", {"metadata": {"name": name}}))
        return name

    def audit(
        self, *, stage: str | None = RESPONSE_COMPLETE, **selectors: Unpack[AuditSelectors]
    ) -> Sequence[AuditEvent]:
        """The recorded events up to now; all stages with `stage=None`."""
        return self._record.events(stage=stage, **selectors)

    def count_requests(self, **selectors: Unpack[AuditSelectors]) -> int:
        """The requests up to now, those that still run included."""
        return len({event.audit_id for event in self._record.events(stage=None, **selectors)})

    @property
    def _record(self) -> Recorder:
        if self._recorder is None:
            raise ValueError("nothing is recorded: LocalApiServerProcess(is_recorded=True)")
        return self._recorder
