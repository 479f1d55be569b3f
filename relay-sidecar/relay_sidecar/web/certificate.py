"""The certificate that `--listen` shows, read again when its files change.

Guarantee: a new connection gets the newest pair that could be read and belongs together; a pair
half replaced leaves the last good one in use.
"""

import ssl
from pathlib import Path

from edge_sidecars.kubeapi.file_watcher import WatchedFiles, describe_failure
from edge_sidecars.runtime.values import BadInput


class ServingCertificate:
    """Raises `BadInput` where the files cannot be used."""

    def __init__(self, cert_file: Path, key_file: Path) -> None:
        self._newest = WatchedFiles([cert_file, key_file], lambda: _loaded(cert_file, key_file))
        try:
            self._newest.get()
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise BadInput(
                f"--tls-cert-file {cert_file} with --tls-private-key-file {key_file}: "
                f"{describe_failure(error)}; name a PEM certificate with its chain, and its key"
            ) from error
        self.context = _loaded(cert_file, key_file)
        self.context.sni_callback = self._choose

    def _choose(
        self, connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext
    ) -> None:
        """At each handshake, whether the client names a server or not."""
        connection.context = self._newest.get()


def _loaded(cert_file: Path, key_file: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # A key with a passphrase would be asked for on a terminal, which is not there.
    context.load_cert_chain(cert_file, key_file, password="")
    return context
