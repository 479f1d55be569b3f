"""What tests of clients need of an API server, whichever it is.

kube-apiserver with etcd (`ControlPlane`) and `tools.local_apiserver` (`LocalApiServerProcess`) both
are one, so that a test of a client can say what must hold, and run on both.
"""

import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, Unpack

from tools.harness.controlplane.access.accounts import TOKEN_LIFETIME, Rule
from tools.harness.controlplane.access.service_account import ServiceAccountDirectory
from tools.harness.controlplane.audit import RESPONSE_COMPLETE, AuditEvent, AuditSelectors
from tools.harness.controlplane.clients.admin import AdminClient
from tools.harness.controlplane.guardian import Guardian


class ApiServer(Protocol):
    """Each method is described at ControlPlane."""

    @property
    def folder(self) -> Path: ...
    @property
    def guardian(self) -> Guardian: ...
    @property
    def scheme(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def server(self) -> str: ...
    @property
    def admin(self) -> AdminClient: ...

    def start_apiserver(self) -> None: ...
    def stop_apiserver(self, *, graceful: bool = False) -> None: ...
    def freeze(self) -> None: ...
    def thaw(self) -> None: ...

    def tls(self, *, as_admin: bool = True) -> ssl.SSLContext | None: ...
    def admin_kubeconfig(self, *, server: str | None = None) -> Path: ...
    def create_namespace(self, prefix: str = "test") -> str: ...
    def service_account_dir(
        self,
        namespace: str,
        service_account: str,
        rules: Sequence[Rule],
        *,
        cluster_rules: Sequence[Rule] = (),
        expires_in: float = TOKEN_LIFETIME,
    ) -> ServiceAccountDirectory: ...
    def kubeconfig_for(
        self,
        namespace: str,
        service_account: str,
        rules: Sequence[Rule],
        *,
        cluster_rules: Sequence[Rule] = (),
        server: str | None = None,
        expires_in: float = TOKEN_LIFETIME,
    ) -> Path: ...

    def audit(
        self, *, stage: str | None = RESPONSE_COMPLETE, **selectors: Unpack[AuditSelectors]
    ) -> Sequence[AuditEvent]: ...
    def count_requests(self, **selectors: Unpack[AuditSelectors]) -> int: ...
