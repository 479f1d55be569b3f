"""From the text of a flag or a query parameter to a value, or one line that says what is wrong.

Pure. Every failure is `BadInput`, which names the value and the remedy, whatever the text was.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

MAX_PORT = 65535
# uint64, etcd's revisions: nothing that Kubernetes counts is longer.
MAX_DIGITS = 20
_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?", re.ASCII)
# Kubernetes' quantities, as far as they are for memory.
_SIZES = {"": 1, "k": 1000, "M": 1000**2, "G": 1000**3, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}
_SIZE = re.compile(r"(\d{1,20})([kMG]|[KMG]i)?", re.ASCII)
_LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
_HOST = re.compile(r"[a-z0-9_]([-a-z0-9_.]*[a-z0-9_])?", re.ASCII)


class BadInput(ValueError):
    """One line that names the value and the remedy."""


def describe_failure(error: Exception) -> str:
    """One line; names the file where the system does."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or ''} {error.strerror}".strip()
    return " ".join(str(error).split())


def seconds(text: str) -> float:
    """`1.5s`, `500ms`, `2m30s`, `7d`, or bare seconds."""
    total, end = 0.0, 0
    for match in _DURATION.finditer(text):
        if match.start() != end:
            break
        total += float(match[1]) * _UNITS[match[2] or ""]
        end = match.end()
    if not text or end != len(text) or not math.isfinite(total):
        raise BadInput(f"{text!r:.80} is not a duration: write it like 15s, 500ms or 1m30s")
    return total


def whole(text: str) -> int:
    """Digits only, as many as anything in Kubernetes has."""
    if not (text.isascii() and text.isdecimal()) or len(text) > MAX_DIGITS:
        raise BadInput(f"{text!r:.80} is not a whole number")
    return int(text)


def size(text: str) -> int:
    """Bytes: `4Mi`, `500k`, or a bare number."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise BadInput(f"{text!r:.80} is not a size: write it like 4Mi, 512Ki or 1000000")
    return int(match[1]) * _SIZES[match[2] or ""]


@dataclass(frozen=True)
class Address:
    """Where to listen: `host:port`, or `unix:/path`. Without a host it is every address of both IP
    families; 0.0.0.0 and [::] are those of one."""

    host: str
    port: int
    path: str = ""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine, or this pod, can get there."""
        if self.path or self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def dialled(self) -> "Address":
        """Where this machine reaches it: a listener on every address is on loopback too."""
        if self.path:
            return self
        return Address(_LOOPBACK.get(self.host, self.host), self.port, self.path)

    @property
    def url(self) -> str:
        """Of what listens here."""
        return str(self) if self.path else f"http://{self if self.host else self.dialled}"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"unix:{self.path}" if self.path else f"{host}:{self.port}"


def address(text: str) -> Address:
    """Without a host it is every address of this machine, IPv4 and IPv6, as in Go."""
    if text.startswith("unix:"):
        if not text.startswith("unix:/"):
            raise BadInput(
                f"{text!r:.80}: a unix socket needs an absolute path, like unix:/run/e.sock"
            )
        return Address("", 0, text.removeprefix("unix:"))
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not _is_port(port) or (":" in host) != (bare is not host):
        raise BadInput(f"{text!r:.80} is not host:port (like 127.0.0.1:8080) or unix:/path")
    if not _can_be_looked_up(bare):
        raise BadInput(f"{text!r:.80}: its host has an empty part, or one of over 63 characters")
    return Address(bare.lower(), int(port))


def loopback(text: str) -> Address:
    found = address(text)
    if found.path or not found.is_loopback:
        raise BadInput(f"{text!r:.80}: only processes of this node may get there; use 127.0.0.1")
    return found


def host_name(text: str) -> str:
    """What may stand in a Host header, without a port: a name or an address, in lower case."""
    host = text.lower().strip("[]")
    try:
        return str(ip_address(host))
    except ValueError:
        pass
    if not _HOST.fullmatch(host):
        raise BadInput(f"{text!r:.80} is not a host name or address: write it without a port")
    return host


def url(text: str) -> str:
    """An http or https URL with a host, as it was written."""
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
        is_usable = (
            parts.scheme in ("http", "https")
            and bool(host)
            and _can_be_looked_up(host)
            and parts.port != 0  # itself raises ValueError above 65535
            and text.isprintable()
            and " " not in text
        )
    except ValueError:
        is_usable = False
    if not is_usable:
        raise BadInput(f"{text!r:.80} is not a URL like http://127.0.0.1:8080/healthz")
    return text


def plain_url(who: str, *, like: str) -> Callable[[str], str]:
    """Parses the URL of one that is asked in the clear, so on this machine. `who`: the subject and
    verb of the message."""

    def parse(text: str) -> str:
        if not url(text).startswith("http:"):
            raise BadInput(f"{text}: {who} asked over http, like {like}")
        return text.rstrip("/")

    return parse


def _can_be_looked_up(host: str) -> bool:
    """Whoever resolves it encodes it like this."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) <= MAX_PORT
