"""What proves a node's name, and which of two streams of one node goes on.

Pure. A token's claims are read here only after the API server has reviewed that token. Guarantee:
of a node that is connected, a stream with proof gives way only to the same pod's or a newer token;
a stream without proof never takes its place.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

import msgspec

from gm.core.tree import mapping


@dataclass(frozen=True, slots=True)
class NodeProof:
    """`issued_at`: Unix time of the token's `iat`; `pod`: the uid in its pod claim. Certificates
    have neither, and all of one node are equal."""

    issued_at: float = 0.0
    pod: str = ""


@dataclass(frozen=True, slots=True)
class SecondStream:
    """A stream came for a node that has one: `is_refused`, or it took the place of the other."""

    node: str
    proof: NodeProof | None
    is_refused: bool
    detail: str


CERTIFICATE = NodeProof()


def token_proof(token: str) -> NodeProof:
    """The claims `iat` and `kubernetes.io/pod` of a reviewed token (KEP-4193). What a token does
    not say makes it the oldest one, of no pod."""
    payload = token.split(".")[1:2]
    try:
        data = base64.urlsafe_b64decode(payload[0] + "=" * (-len(payload[0]) % 4))
        claims = msgspec.json.decode(data)
    except (IndexError, ValueError):
        return NodeProof()
    if not isinstance(claims, dict):
        return NodeProof()
    issued_at = claims.get("iat")
    pod = mapping(claims, "kubernetes.io", "pod").get("uid")
    return NodeProof(
        float(issued_at) if isinstance(issued_at, int | float) else 0.0,
        pod if isinstance(pod, str) else "",
    )


def may_replace(former: NodeProof | None, new: NodeProof | None) -> bool:
    """Whether a second stream ends the first one. Two tokens of one second are the same pod's, or
    the first stream goes on."""
    if former is None:
        return True
    if new is None or new.issued_at < former.issued_at:
        return False
    return new.issued_at > former.issued_at or new.pod == former.pod
