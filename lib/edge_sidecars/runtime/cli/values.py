"""From the text of a flag or a query parameter to a value, or one line that says what is wrong.

Pure. Every failure is `BadInput`, which names the value and the remedy, whatever the text was.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

MAX_PORT = 65535
# uint64, etcd's revisions: nothing that Kubernetes counts is longer.
MAX_DIGITS = 20
# A count of anything in one process; int32, as Kubernetes' own counts.
MAX_COUNT = 2**31 - 1
# Seconds; a hundred years: what is longer is a mistake, and no timer takes it.
MAX_DURATION = 36525 * 86400.0
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
        # 3h30 may be meant as minutes.
        is_bare = match[2] is None and match[0] != text
        if match.start() != end or is_bare:
            break
        total += float(match[1]) * _UNITS[match[2] or ""]
        end = match.end()
    if not text or end != len(text):
        raise BadInput(f"{text!r:.80} is not a duration: write it like 15s, 500ms or 1m30s")
    if total > MAX_DURATION:
        raise BadInput(f"{text!r:.80} is over a hundred years: write it like 15s, 500ms or 1m30s")
    return total


def whole(text: str) -> int:
    """Digits only, as many as anything in Kubernetes has."""
    if not (text.isascii() and text.isdecimal()) or len(text) > MAX_DIGITS:
        raise BadInput(f"{text!r:.80} is not a whole number: write it in digits, like 16")
    return int(text)


def count(text: str) -> int:
    """From 1 to `MAX_COUNT`."""
    found = whole(text)
    if not 1 <= found <= MAX_COUNT:
        raise BadInput(f"{found} must be at least 1 and at most {MAX_COUNT}")
    return found


def switch(text: str) -> bool:
    """What manifests and shells write for a boolean."""
    if text.lower() in ("false", "no", "off", "0"):
        return False
    if text.lower() in ("true", "yes", "on", "1"):
        return True
    raise BadInput(f"{text!r:.80}: write true or false")


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
        raise BadInput(f"{text!r:.80} is not host:port or unix:/path: write it like 127.0.0.1:8080")
    if not _can_be_looked_up(bare):
        raise BadInput(
            f"{text!r:.80} has no host that has an address: write it like 127.0.0.1:8080"
        )
    return Address(bare.lower(), int(port))


def loopback(text: str) -> Address:
    found = address(text)
    if found.path or not found.is_loopback:
        raise BadInput(f"{text!r:.80}: only processes of this node may get there: use 127.0.0.1")
    return found


def check_distinct(listeners: Mapping[str, Address | None]) -> None:
    """By flag. Raises `BadInput` where one address is that of another listener, or every address
    of this machine is."""
    before: dict[str, Address] = {}
    for name, it in listeners.items():
        if it is None:
            continue
        taken = next((other for other, at in before.items() if _overlap(it, at)), None)
        if taken is not None:
            raise BadInput(f"{name} {it} is taken by {taken} {before[taken]}: choose another port")
        before[name] = it


def _overlap(a: Address, b: Address) -> bool:
    if a.path or b.path:
        return a.path == b.path
    is_either = _covers(a.host, b.host) or _covers(b.host, a.host)
    return a.port == b.port and bool(a.port) and is_either


def _covers(host: str, other: str) -> bool:
    """Whether who listens on `host` has the addresses of `other`, as far as names tell."""
    if host in ("", other):
        return True
    if host in ("0.0.0.0", "::"):
        return other == "localhost" or (":" in other) == (host == "::")
    return host == "localhost" and other in ("127.0.0.1", "::1")


def host_name(text: str) -> str:
    """What may be in a Host header, without a port: a name or an address, in lower case."""
    host = text.lower().strip("[]")
    try:
        return str(ip_address(host))
    except ValueError:
        pass
    if not _HOST.fullmatch(host):
        raise BadInput(f"{text!r:.80} is not a host name or address: write it without a port")
    return host


def url_like(example: str) -> Callable[[str], str]:
    """Parses an http or https URL with a host, as it was written; `example` is for the message."""

    def parse(text: str) -> str:
        if _is_url(text):
            return text
        guess = f"{urlsplit(example).scheme}://{text}"
        is_near = "://" not in text and text and _is_url(guess)
        remedy = f"write {without_user(guess):.80}" if is_near else f"write it like {example}"
        raise BadInput(f"{without_user(text)!r:.80} is not a URL: {remedy}")

    return parse


url = url_like("http://127.0.0.1:8080/healthz")
_any_server_url = url_like("https://10.0.0.1:6443")


def api_server_url(text: str) -> str:
    """Of the URLs of HTTP one that a path can be put behind, without a password that logs show."""
    shown = without_user(_any_server_url(text))
    if shown != text:
        raise BadInput(
            f"{shown!r:.80} has a user before its host: drop it, and name a kubeconfig that has one"
        )
    if "?" in text or "#" in text:
        raise BadInput(f"{text!r:.80} has more than a path: write it like https://10.0.0.1:6443")
    return text


def without_user(text: str) -> str:
    """A URL as it may be shown: a password can be in it."""
    scheme, separator, rest = text.partition("://")
    place = re.match(r"[^/?#]*", rest)
    netloc = place[0] if place else ""
    return f"{scheme}{separator}{netloc.rpartition('@')[2]}{rest[len(netloc) :]}"


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
        return (
            parts.scheme in ("http", "https")
            and bool(host)
            and _can_be_looked_up(host)
            and parts.port != 0  # itself raises ValueError above 65535
            and text.isprintable()
            and " " not in text
        )
    except ValueError:
        return False


def plain_url(who: str, *, like: str) -> Callable[[str], str]:
    """Parses the URL of one that is asked in the clear, so on this machine. `who`: the subject and
    verb of the message."""

    checked = url_like(like)

    def parse(text: str) -> str:
        if not checked(text).startswith("http:"):
            raise BadInput(f"{text!r:.80}: {who} asked over http: write it like {like}")
        return text.rstrip("/")

    return parse


def _can_be_looked_up(host: str) -> bool:
    """The resolver encodes it like this."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return host.isprintable() and " " not in host


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) <= MAX_PORT
