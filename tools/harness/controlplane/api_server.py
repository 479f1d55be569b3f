"""What tests of clients need of an API server, whichever it is.

kube-apiserver with etcd (`ControlPlane`) and `tools.local_apiserver` (`LocalApiServerProcess`) both
are one, so that a test of a client can say what must hold, and run on both. Owns what both share: a
temporary folder, the program that serves, and what its guardian ends.
"""

import secrets
import signal
import ssl
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self, Unpack

from tools.harness.controlplane.access.accounts import TOKEN_LIFETIME, Rule, expect
from tools.harness.controlplane.access.service_account import ServiceAccountDirectory
from tools.harness.controlplane.audit import RESPONSE_COMPLETE, AuditEvent, AuditSelectors
from tools.harness.controlplane.clients.admin import AdminClient
from tools.harness.controlplane.daemon import Daemon, Runnable
from tools.harness.controlplane.guardian import Guardian

# Seconds for a graceful end, which waits for requests in flight; then SIGKILL.
STOP_TIMEOUT = 20.0
# By what a command runs that logs to a file.
Run = Callable[[Sequence[str], Path], Runnable]


class ApiServer(ABC):
    """Starts with `start` or as a context manager. `host`: the address of its clients; `run`: here
    as a process, unless another is given."""

    scheme: str
    port: int
    _apiserver: Runnable

    def __init__(self, folder: str, host: str, run: Run | None) -> None:
        """`folder`: how its name begins."""
        self.folder = Path(tempfile.mkdtemp(prefix=folder))
        self.guardian = Guardian(self.folder)
        self.host = host
        self._run = run or self._run_here

    def _run_here(self, command: Sequence[str], log: Path) -> Runnable:
        return Daemon(command, log=log, guardian=self.guardian)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def server(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"

    # Processes

    @abstractmethod
    def start(self) -> None:
        """Returns when it is ready. Raises ChildProcessError with the end of a log."""

    @abstractmethod
    def stop(self) -> None:
        """Kills all of it and removes the folder; may be called again."""

    @abstractmethod
    def wait_ready(self) -> None:
        """Raises ChildProcessError if a program has ended, TimeoutError."""

    def start_apiserver(self) -> None:
        """Starts it on the same port with the same data; returns when it is ready."""
        self._apiserver.start()
        self.wait_ready()

    def stop_apiserver(self, *, graceful: bool = False) -> None:
        """Kills it; `graceful`: SIGTERM, with up to STOP_TIMEOUT for requests in flight."""
        number = signal.SIGTERM if graceful else signal.SIGKILL
        self._apiserver.stop(number, timeout=STOP_TIMEOUT)

    def freeze(self) -> None:
        """SIGSTOP: connections are accepted, nothing is answered."""
        self._apiserver.freeze()

    def thaw(self) -> None:
        """Lets a frozen one run on."""
        self._apiserver.thaw()

    # Credentials

    @property
    @abstractmethod
    def admin(self) -> AdminClient:
        """A client that may do anything."""

    @abstractmethod
    def tls(self, *, as_admin: bool = True) -> ssl.SSLContext | None:
        """Trusts the API server; `as_admin`: with the certificate of who may do anything. None: it
        speaks HTTP."""

    @abstractmethod
    def admin_kubeconfig(self, *, server: str | None = None) -> Path:
        """A kubeconfig that may do anything; `server`: another way there, such as a proxy."""

    @abstractmethod
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
        """A kubeconfig with a token of the account, which is created, allowed to do `rules` in its
        namespace and `cluster_rules` everywhere, and nothing else."""

    @abstractmethod
    def service_account_dir(
        self,
        namespace: str,
        service_account: str,
        rules: Sequence[Rule],
        *,
        cluster_rules: Sequence[Rule] = (),
        expires_in: float = TOKEN_LIFETIME,
    ) -> ServiceAccountDirectory:
        """The account of `kubeconfig_for` as a pod sees it: a directory with token, ca.crt and
        namespace, of which the tests can replace the contents."""

    def _new_path(self, name: str, suffix: str) -> Path:
        return self.folder / f"{name}-{secrets.token_hex(4)}.{suffix}"

    # Contents

    def create_namespace(self, prefix: str = "test") -> str:
        """Creates a namespace; returns its name."""
        name = f"{prefix}-{secrets.token_hex(4)}"
        expect(self.admin.post("/api/v1/namespaces", {"metadata": {"name": name}}))
        return name

    @abstractmethod
    def audit(
        self, *, stage: str | None = RESPONSE_COMPLETE, **selectors: Unpack[AuditSelectors]
    ) -> Sequence[AuditEvent]:
        """The recorded events up to now (see AuditLog.events); all stages with `stage=None`."""

    def count_requests(self, **selectors: Unpack[AuditSelectors]) -> int:
        """The requests that were received up to now, watches that still run included."""
        return len({event.audit_id for event in self.audit(stage=None, **selectors)})
