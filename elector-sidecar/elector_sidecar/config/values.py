"""From the text of a flag or a query parameter to a value, or one line that says what is wrong.

Pure. Every failure is `BadInput`, which names the value and the remedy, whatever the text was.
"""

import math
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

MAX_PORT = 65535
# uint64, etcd's revisions: nothing that Kubernetes counts is longer.
MAX_DIGITS = 20
_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?", re.ASCII)


class BadInput(ValueError):
    """One line that names the value and the remedy."""


def seconds(text: str) -> float:
    """`1.5s`, `500ms`, `2m30s`, or bare seconds."""
    total, end = 0.0, 0
    for match in _DURATION.finditer(text):
        if match.start() != end:
            break
        total += float(match[1]) * _UNITS[match[2] or ""]
        end = match.end()
    if not text or end != len(text) or not math.isfinite(total):
        raise BadInput(f"{text!r} is not a duration: write it like 15s, 500ms or 1m30s")
    return total


def whole(text: str) -> int:
    """Digits only, as many as anything in Kubernetes has."""
    if not (text.isascii() and text.isdecimal()) or len(text) > MAX_DIGITS:
        raise BadInput(f"{text!r:.80} is not a whole number")
    return int(text)


@dataclass(frozen=True)
class Address:
    """Where to listen: `host:port`, or `unix:/path`."""

    host: str
    port: int
    path: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"unix:{self.path}" if self.path else f"{host}:{self.port}"


def address(text: str) -> Address:
    if text.startswith("unix:"):
        if not text.startswith("unix:/"):
            raise BadInput(f"{text!r}: a unix socket needs an absolute path, like unix:/run/e.sock")
        return Address("", 0, text.removeprefix("unix:"))
    host, colon, port = text.rpartition(":")
    if not colon or not _is_port(port):
        raise BadInput(f"{text!r} is not host:port (like 127.0.0.1:4040) or unix:/path")
    return Address(host.strip("[]") or "0.0.0.0", int(port))  # contrib's ":4040" means all


def url(text: str) -> str:
    """An http or https URL with a host, as it was written."""
    try:
        parts = urlsplit(text)
        is_usable = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.port != 0  # itself raises ValueError above 65535
            and text.isprintable()
            and " " not in text
        )
    except ValueError:
        is_usable = False
    if not is_usable:
        raise BadInput(f"{text!r} is not a URL like http://127.0.0.1:8080/healthz")
    return text


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) <= MAX_PORT
