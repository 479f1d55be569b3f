"""One read of a relay's pool-scoped streams, which passes two members: the head of its request.

    relay --GET /relay/n3/api/... (token)--> member --CONNECT relay, GET /api/...--> member of n3
          --GET /api/... (token of n3)--> relay of n3

Guarantees: what a peer gets to the relay is a GET without a body and with two headers, one in each
connection; the token of a node never leaves it.
"""

from dataclasses import dataclass
from typing import Final

from pool_sidecar.lan.http_head import Head

# Where relays of this node ask: this path, a slash, the peer's name, and the path there.
PREFIX: Final = "/relay/"
# As peers name it in CONNECT.
RELAY: Final = "relay"
# What the answer depends on, apart from the path.
_PASSED_ON: Final = ("accept", "accept-encoding")


@dataclass(frozen=True, slots=True)
class RelayRead:
    """`target`: path and query at the peer's relay."""

    target: str
    headers: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, head: Head) -> "RelayRead | None":
        """None where it is no read."""
        method, target, _ = head.first
        has_body = head.headers.get("content-length", "0") != "0"
        if method != "GET" or not target.startswith("/") or has_body:
            return None
        if "transfer-encoding" in head.headers or "upgrade" in head.headers:
            return None
        headers = head.headers
        return cls(target, tuple((it, headers[it]) for it in _PASSED_ON if it in headers))

    def to_peer(self) -> tuple[str, "RelayRead"] | None:
        """The peer's name, and what it is to be asked; None where no peer is named."""
        name, slash, rest = self.target.removeprefix(PREFIX).partition("/")
        if not self.target.startswith(PREFIX) or not (name and slash):
            return None
        return name, RelayRead(f"/{rest}", self.headers)

    def encode(self, *, host: str, token: str = "") -> bytes:
        lines = [f"GET {self.target} HTTP/1.1", f"Host: {host}", "Connection: close"]
        lines += [f"{name}: {text}" for name, text in self.headers]
        if token:
            lines.append(f"Authorization: Bearer {token}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")
