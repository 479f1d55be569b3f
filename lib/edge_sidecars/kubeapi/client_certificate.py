"""A client certificate as identity: of a node, whose kubelet renews it in place.

Guarantees: certificate, key and authorities are read again when their files change; a pair that is
half written, or of which one part is another's, leaves the last good one in use.
"""

import hashlib
import ssl
from pathlib import Path
from typing import NamedTuple

from edge_sidecars.kubeapi.credentials import (
    UnusableCredentials,
    WatchedFiles,
    client_context,
    present,
)
from edge_sidecars.runtime.cli.proxies import NO_PROXIES, ProxyVariables
from edge_sidecars.runtime.cli.values import describe_failure


class _Loaded(NamedTuple):
    own: ssl.SSLContext
    anonymous: ssl.SSLContext
    certificate: bytes  # PEM, as in the file


class ClientCertificate:
    """`key`: None where the certificate's file holds both, as kubelet's does. `authorities`: None
    for those of the system; `tls_server_name`: which its certificate has, None for the server's.
    Raises `UnusableCredentials` naming the files, `BadInput` for
    `proxies` that cannot be used."""

    def __init__(
        self,
        server: str,
        *,
        certificate: Path,
        key: Path | None,
        authorities: Path | None,
        tls_server_name: str | None = None,
        proxies: ProxyVariables = NO_PROXIES,
    ) -> None:
        self.tls_server_name = tls_server_name
        self.server = server.rstrip("/")
        self.proxy = proxies.proxy_for(server)
        self.certificate, self.key = certificate, key or certificate
        self._authorities = authorities
        files = [self.certificate, self.key, *([] if authorities is None else [authorities])]
        self._loaded = WatchedFiles(files, self._read)
        try:
            self._loaded.get()
        except (OSError, ValueError) as error:
            raise UnusableCredentials(
                f"--client-certificate {certificate} with --client-key {self.key}: "
                f"{describe_failure(error)}; name kubelet's, in kubelet's folder pki"
            ) from error

    @property
    def fingerprint(self) -> bytes:
        """SHA-256 of the certificate in use, as DER."""
        pem = self._loaded.get().certificate.decode("ascii", "ignore")
        begin = pem.index(ssl.PEM_HEADER)
        end = pem.index(ssl.PEM_FOOTER, begin) + len(ssl.PEM_FOOTER)
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem[begin:end])).digest()

    def tls(self, *, is_anonymous: bool = False) -> ssl.SSLContext | None:
        loaded = self._loaded.get()
        return loaded.anonymous if is_anonymous else loaded.own

    async def authorization(self) -> str | None:
        return None

    def refused(self) -> None:
        """Kubelet renews it in its own time."""

    def _read(self) -> _Loaded:
        """Raises OSError or ValueError."""
        authorities = None if self._authorities is None else self._authorities.read_bytes()
        certificate, key = self.certificate.read_bytes(), self.key.read_bytes()
        try:
            own, anonymous = client_context(authorities), client_context(authorities)
            present(own, certificate, key)
        except ssl.SSLError as error:
            raise ValueError(f"these are no pair of PEM files: {error.reason}") from error
        return _Loaded(own, anonymous, certificate)
