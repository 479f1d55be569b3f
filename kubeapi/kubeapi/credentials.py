"""Where the API server is, and how to prove who we are.

Files are looked at before every request (one `stat`) and re-read when they changed, so that a
rotated token or CA needs no restart. A file that cannot be read for a moment leaves the last good
content in use. Tokens never appear in messages.
"""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

# Where kubelet projects the pod's token, CA and namespace.
SERVICE_ACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")

T = TypeVar("T")


class UnusableCredentials(ValueError):
    """The message names the file or field and the remedy."""


class Credentials(Protocol):
    """What a request needs. Both methods are asked anew for every connection."""

    @property
    def server(self) -> str:
        """Base URL without a trailing slash."""

    def tls(self, *, is_anonymous: bool = False) -> ssl.SSLContext | None:
        """None for plain HTTP. `is_anonymous`: without a client certificate of ours, which an API
        server would believe before the token of somebody else that comes with the request."""

    async def authorization(self) -> str | None:
        """The Authorization header's value, if any."""


class WatchedFile(Generic[T]):
    """The parsed content of a file, as of its newest readable version."""

    def __init__(self, path: Path, parse: Callable[[Path], T]) -> None:
        self._path = path
        self._parse = parse
        self._version = self._stat()
        self._value = parse(path)

    def get(self) -> T:
        try:
            version = self._stat()
            if version != self._version:
                self._value = self._parse(self._path)
                self._version = version
        except (OSError, ValueError, ssl.SSLError):
            # Swapped under our eyes, or half written: the next request looks again.
            return self._value
        return self._value

    def _stat(self) -> tuple[int, int, int]:
        status = self._path.stat()
        return status.st_ino, status.st_mtime_ns, status.st_size


class InCluster:
    """A pod's service account: bearer token and CA from a folder that kubelet keeps fresh.

    Raises `UnusableCredentials` where the folder lacks either.
    """

    def __init__(self, server: str, folder: Path = SERVICE_ACCOUNT_DIR) -> None:
        self._server = server.rstrip("/")
        try:
            self._token = WatchedFile(folder / "token", _read_token)
            self._tls = WatchedFile(folder / "ca.crt", trusting)
        except (OSError, ValueError) as error:
            raise UnusableCredentials(
                f"service account in {folder}: {_describe(error)}; run in a pod whose service "
                "account token is mounted, or name a --kubeconfig"
            ) from error

    @property
    def server(self) -> str:
        return self._server

    def tls(self, *, is_anonymous: bool = False) -> ssl.SSLContext | None:
        return self._tls.get()

    async def authorization(self) -> str | None:
        return f"Bearer {self._token.get()}"


class Plain:
    """Plain HTTP and no credentials: a relay or `kubectl proxy` on this machine."""

    def __init__(self, server: str) -> None:
        self._server = server.rstrip("/")

    @property
    def server(self) -> str:
        return self._server

    def tls(self, *, is_anonymous: bool = False) -> ssl.SSLContext | None:
        return None

    async def authorization(self) -> str | None:
        return None


def trusting(ca_file: Path) -> ssl.SSLContext:
    """A client context that trusts exactly the CAs in `ca_file`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cafile=ca_file)
    # Kubernetes' own CAs often lack what strict RFC 5280 checking (Python 3.13's default) wants.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _read_token(path: Path) -> str:
    token = path.read_text().strip()
    if not token:
        raise ValueError(f"{path} is empty")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise ValueError(f"{path} is not a token")  # and would break the header that it is put in
    return token


def _describe(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or ''} {error.strerror}".strip()
    return str(error)
