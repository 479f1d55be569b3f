"""Where the API server is, and how to prove who we are; what is made of files that rotate.

Guarantees: files are looked at before each use (one `stat` each) and are read again when they
changed, so that a rotated token or CA needs no restart. While they cannot be used, because one is
missing, half written or does not fit another, what was made last stays in use and one log line
names the problem. Tokens and contents of files never appear in messages. No certificate and no key
is ever written to a file system; an encrypted key is refused, there is no prompt for its password.
"""

import logging
import os
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from edge_sidecars.kubeapi.errors import Unreachable
from edge_sidecars.runtime.cli.proxies import NO_PROXIES, HttpProxy, ProxyVariables
from edge_sidecars.runtime.cli.values import describe_failure
from edge_sidecars.runtime.log import fields

# Kubernetes' own CAs often lack what strict RFC 5280 checking (Python 3.13's default) wants.
_TOO_STRICT = ssl.VERIFY_X509_STRICT
# X509_V_FLAG_NO_CHECK_TIME of OpenSSL 1.1 and later.
_NO_CHECK_TIME = 0x200000
# Seconds; a file may have changed again within one tick of its time stamp, without another size.
RETRY = 1.0

logger = logging.getLogger("kubeapi")

T = TypeVar("T")
_Version = tuple[tuple[int, int, int] | None, ...]


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

    @property
    def proxy(self) -> HttpProxy | None:
        """Through which `server` is reached, if any."""

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

    Raises `UnusableCredentials` where the folder lacks either, `BadInput` for `proxies` that cannot
    be used.
    """

    tls_server_name: str | None = None

    def __init__(self, server: str, folder: Path, *, proxies: ProxyVariables = NO_PROXIES) -> None:
        self.server = server.rstrip("/")
        self.proxy = proxies.proxy_for(server)
        try:
            token, authorities = folder / "token", folder / "ca.crt"
            self._token = watched_token(token)
            self._tls = WatchedFiles(
                [authorities], lambda: client_context(authorities.read_bytes())
            )
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
    """Plain HTTP: a relay or `kubectl proxy` on this machine, which may ask for a token. Raises
    `BadInput` for `proxies` that cannot be used."""

    tls_server_name: str | None = None

    def __init__(
        self,
        server: str,
        token: "WatchedFiles[str] | None" = None,
        *,
        proxies: ProxyVariables = NO_PROXIES,
    ) -> None:
        self.server = server.rstrip("/")
        self.proxy = proxies.proxy_for(server)
        self._token = token

    def tls(self, *, is_anonymous: bool = False) -> ssl.SSLContext | None:
        return None

    async def authorization(self) -> str | None:
        if self._token is None:
            return None
        try:
            return f"Bearer {self._token.get()}"
        except (OSError, ValueError) as error:
            raise Unreachable(f"no token: {describe_failure(error)}") from error

    def refused(self) -> None:
        """There is nothing to renew."""


def pod_credentials(
    server: str | None, service_account_dir: Path, proxies: ProxyVariables
) -> Credentials:
    """Those of a program without a kubeconfig: none for a `server` over http, else the pod's
    service account. Raises as these do."""
    if server is not None and server.startswith("http:"):
        return Plain(server, proxies=proxies)
    return InCluster(server or "", service_account_dir, proxies=proxies)


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


def client_context(authorities: bytes | None, *, is_insecure: bool = False) -> ssl.SSLContext:
    """A context that trusts exactly `authorities` (PEM), or those of the system where None.

    `is_insecure`: any server is believed. Raises ValueError or ssl.SSLError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags &= ~_TOO_STRICT
    if is_insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif authorities is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        # Text beside the certificates may be in any language.
        context.load_verify_locations(cadata=authorities.decode("ascii", "ignore"))
    return context


def present(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Lets `context` prove who we are with the pair, both PEM.

    Raises ValueError or ssl.SSLError where they are no such things or do not fit each other.
    """
    with _in_memory("certificate", certificate) as first, _in_memory("key", key) as second:
        context.load_cert_chain(first, second, password=_refuse_password)


def verify_clients(context: ssl.SSLContext, authorities: bytes) -> None:
    """Lets clients of a server show a certificate that one of `authorities` (PEM) has signed; one
    of another signer, or not made for clients, ends the handshake. Its times are not looked at:
    whether one that ended is good is the caller's to judge. Raises ValueError or ssl.SSLError."""
    context.load_verify_locations(cadata=authorities.decode("ascii", "ignore"))
    context.verify_mode = ssl.CERT_OPTIONAL
    context.verify_flags |= ssl.VerifyFlags(_NO_CHECK_TIME)


@contextmanager
def _in_memory(name: str, content: bytes) -> Iterator[str]:
    """The path of a file that is on no disk and is gone when the block, or the process, ends:
    OpenSSL takes a pair from files only."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _refuse_password() -> str:
    raise ValueError("the client key is encrypted: keep it without a password, in a file of 0600")


class WatchedFiles(Generic[T]):
    """`read` makes the value of what the files hold; it raises OSError or ValueError."""

    def __init__(self, paths: Sequence[Path], read: Callable[[], T]) -> None:
        self._paths = tuple(map(str, paths))
        self._read = read
        self._made: tuple[_Version, T] | None = None
        self._failed: tuple[_Version, float, OSError | ValueError] | None = None
        self._logged = ""

    def get(self) -> T:
        """Raises OSError or ValueError while no content was ever usable."""
        version = tuple(_stat(path) for path in self._paths)
        if self._made is not None and self._made[0] == version:
            return self._made[1]
        now = time.monotonic()
        if self._failed is None or self._failed[0] != version or now >= self._failed[1]:
            try:
                self._made = version, self._read()
            except (OSError, ValueError) as error:
                self._failed = version, now + RETRY, error
                self._log(describe_failure(error))
            else:
                self._failed, self._logged = None, ""
        if self._made is not None:
            return self._made[1]
        assert self._failed is not None
        raise self._failed[2]

    def _log(self, problem: str) -> None:
        if self._made is None or problem == self._logged:
            return
        self._logged = problem
        files = ", ".join(self._paths)
        logger.warning(
            "changed credentials cannot be used: the last good ones stay in use",
            extra=fields(files=files, why=problem),
        )


def watched_token(path: Path) -> WatchedFiles[str]:
    return WatchedFiles([path], lambda: read_token(path))


def _stat(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
