"""Where the API server is, and how to prove who we are.

A rotated token or CA needs no restart (`watched_files`). Tokens never appear in messages.
"""

import ssl
from pathlib import Path
from typing import Protocol

from edge_sidecars.kubeapi.file_watcher import WatchedFiles, describe_failure
from edge_sidecars.kubeapi.tls import client_context

# Where kubelet projects the pod's token, CA and namespace.
SERVICE_ACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class UnusableCredentials(ValueError):
    """The message names the file or field and the remedy."""


class Credentials(Protocol):
    """What a request needs. All of it is asked anew for every request."""

    @property
    def server(self) -> str:
        """Base URL without a trailing slash."""

    @property
    def tls_server_name(self) -> str | None:
        """The name that the server's certificate is checked against, where it is not the host of
        `server`."""

    def tls(self, *, is_anonymous: bool = False) -> ssl.SSLContext | None:
        """None for plain HTTP. `is_anonymous`: without a client certificate of ours, which an API
        server would believe before the token of somebody else that comes with the request."""

    async def authorization(self) -> str | None:
        """The Authorization header's value, if any; asked before `tls` of the same request, whose
        certificate it may bring. Raises `Unreachable` where there should be one and is none."""

    def refused(self) -> None:
        """The server answered 401 to what `authorization` and `tls` gave."""


class InCluster:
    """A pod's service account: bearer token and CA from a folder that kubelet keeps fresh.

    Raises `UnusableCredentials` where the folder lacks either.
    """

    tls_server_name: str | None = None

    def __init__(self, server: str, folder: Path = SERVICE_ACCOUNT_DIR) -> None:
        self.server = server.rstrip("/")
        try:
            token, authorities = folder / "token", folder / "ca.crt"
            self._token = WatchedFiles([token], lambda: read_token(token))
            self._tls = WatchedFiles([authorities], lambda: trusting(authorities))
            self._token.get()
            self._tls.get()
        except (OSError, ValueError) as error:
            raise UnusableCredentials(
                f"service account in {folder}: {describe_failure(error)}; run in a pod whose "
                "service account token is mounted, or name a --kubeconfig"
            ) from error

    def tls(self, *, is_anonymous: bool = False) -> ssl.SSLContext | None:
        return self._tls.get()

    async def authorization(self) -> str | None:
        return f"Bearer {self._token.get()}"

    def refused(self) -> None:
        """Kubelet replaces the file in its own time."""


class Plain:
    """Plain HTTP and no credentials: a relay or `kubectl proxy` on this machine."""

    tls_server_name: str | None = None

    def __init__(self, server: str) -> None:
        self.server = server.rstrip("/")

    def tls(self, *, is_anonymous: bool = False) -> ssl.SSLContext | None:
        return None

    async def authorization(self) -> str | None:
        return None

    def refused(self) -> None:
        """There is nothing to renew."""


def trusting(ca_file: Path) -> ssl.SSLContext:
    """A client context that trusts exactly the CAs in `ca_file`."""
    return client_context(ca_file.read_bytes())


def read_token(path: Path) -> str:
    """Raises OSError, or ValueError that names the file and not the token."""
    refusal = f"{path} is not a token"
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        raise ValueError(f"{refusal}: not text") from None
    return checked_token(text, refusal=refusal)


def checked_token(text: str, *, refusal: str) -> str:
    """Without the white space around it. Raises ValueError, which begins with `refusal`, for what
    would break the header."""
    token = text.strip()
    if not token:
        raise ValueError(f"{refusal}: it is empty")
    if not (token.isascii() and token.isprintable()):
        raise ValueError(f"{refusal}: it has control characters, or others than ASCII, within")
    if " " in token:
        raise ValueError(f"{refusal}: it has spaces within")
    return token
