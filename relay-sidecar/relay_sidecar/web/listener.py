"""The relay's sockets, and the endpoints on its own port: /livez, /readyz,
/metrics, /status, /history.

Guarantees: clients never use up the descriptors that upstream, the journal and the other listener
need; a client that watches or waits keeps its connection; a new connection gets the newest
certificate and key that belong together. `/livez`: this process answers; `/readyz`: so does the
Kubernetes API, offline or not; `?upstream=true`: and the link is up. No endpoint shows an object.
"""

import ssl
import time
from dataclasses import replace
from functools import partial
from json import dumps
from pathlib import Path
from typing import Final, Protocol

from edge_sidecars.kubeapi.credentials import WatchedFiles, verify_clients
from edge_sidecars.runtime.cli.values import Address, BadInput, describe_failure
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.connections import Handler
from edge_sidecars.runtime.web.endpoints import (
    is_asked,
    json,
    own_routes,
    query,
    routed,
    text,
)
from edge_sidecars.runtime.web.intake import MAX_HEAD
from edge_sidecars.runtime.web.listener import WRITE_TIMEOUT, Listener, ListenerOptions
from edge_sidecars.runtime.web.page.asked import Page
from relay_sidecar.telemetry.metrics import RelayCounters, measure
from relay_sidecar.telemetry.status import RelayStatus, UpstreamLinkStatus

# Kept for connections to upstream, the journal and the runtime itself.
RESERVED_DESCRIPTORS = 128
MIN_CONNECTIONS = 16
# Seconds; Go's transports keep a connection for 90: the client is to end it, not we while a
# request is on its way.
KEPT_FOR = 120.0
# Bytes; as Go's servers: http.DefaultMaxHeaderBytes. Selectors are in the first line.
MAX_HEADER = 1024 * 1024
API: Final = ListenerOptions(
    log="relay.http",
    # So many wait in the kernel: all informers of a pod come at once.
    backlog=512,
    shutdown_grace=1.0,
    # A client that left is not waited for: what was asked for it upstream ends, too.
    ends_with_client=True,
    max_head=MAX_HEADER,
    http={"keepalive_timeout": KEPT_FOR, "auto_decompress": False},
)
# The relay's own endpoints: no name of an object in them is for a web page.
OWN: Final = replace(API, max_head=MAX_HEAD, guards=True)


def listening(
    address: Address,
    handler: Handler,
    *,
    limit: int,
    tls: ssl.SSLContext | None = None,
    write_timeout: float = WRITE_TIMEOUT,
    options: ListenerOptions = API,
) -> Listener:
    """`options`: API, whose handler has rules of its own, or OWN."""
    options = replace(options, write_timeout=write_timeout)
    return Listener(address, handler, options=options, limit=limit, tls=tls)


def connection_limit(descriptors: int, *, wanted: int, others: int) -> int:
    """Of a listener beside which `others` connections may come; each costs a descriptor, and one
    that is passed on another to upstream."""
    share = (descriptors - RESERVED_DESCRIPTORS - others) // 2
    return max(min(wanted, share), MIN_CONNECTIONS)


class ServingCertificate:
    """`client_ca_file`: who signs the certificates that clients may show; None: they show none.
    Raises `BadInput` where the files cannot be used."""

    def __init__(self, cert_file: Path, key_file: Path, client_ca_file: Path | None = None) -> None:
        if client_ca_file is not None:
            _check_authorities(client_ca_file)
        loaded = partial(_loaded, cert_file, key_file, client_ca_file)
        files = [cert_file, key_file, *([] if client_ca_file is None else [client_ca_file])]
        self._newest = WatchedFiles(files, loaded)
        try:
            self._newest.get()
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise BadInput(
                f"--tls-cert-file {cert_file} with --tls-private-key-file {key_file}: "
                f"{describe_failure(error)}; name a PEM certificate with its chain, and its key"
            ) from error
        self.context = loaded()
        self.context.sni_callback = self._choose

    def _choose(
        self, connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext
    ) -> None:
        """At each handshake, whether the client names a server or not."""
        connection.context = self._newest.get()


def _loaded(cert_file: Path, key_file: Path, client_ca_file: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # A key with a passphrase would be asked for on a terminal, which is not there.
    context.load_cert_chain(cert_file, key_file, password="")
    if client_ca_file is not None:
        verify_clients(context, client_ca_file.read_bytes())
    return context


def _check_authorities(client_ca_file: Path) -> None:
    try:
        verify_clients(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), client_ca_file.read_bytes())
    except (OSError, ValueError) as error:
        raise BadInput(
            f"--client-ca-file {client_ca_file}: {describe_failure(error)}; name the PEM file of "
            "kubelet's own kubeconfig"
        ) from error


class ReportedRelay(Protocol):
    @property
    def counters(self) -> RelayCounters: ...

    @property
    def lack(self) -> str:
        """What is missing before requests can be answered, "" when nothing is."""
        ...

    @property
    def link(self) -> UpstreamLinkStatus: ...

    def status(self, *, of_restart: bool = False) -> RelayStatus:
        """As of now; `of_restart`: also what a restart would find."""
        ...


class OwnEndpoints:
    def __init__(self, relay: ReportedRelay) -> None:
        self._relay = relay
        self.routes = own_routes(
            ready=self._readyz,
            measure=lambda: measure(relay.status(), relay.counters),
            status=lambda: relay.status(of_restart=True).json(),
        )
        self.routes["/history"] = ("GET", self._history)
        self._page = Page("relay", lambda: relay.status().json())

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        return await routed(request, self.routes, self._page)

    async def _history(self, request: web.BaseRequest) -> web.StreamResponse:
        query(request)
        document = self._relay.link.history(time.time())
        return json(dumps(document, separators=(",", ":")).encode())

    async def _readyz(self, request: web.BaseRequest) -> web.StreamResponse:
        asks_upstream = is_asked(request, "upstream")
        if self._relay.lack:
            return text(503, f"not ready: {self._relay.lack}")
        if asks_upstream and (problem := self._relay.link.problem):
            return text(503, problem)
        return text(200, "ok")
