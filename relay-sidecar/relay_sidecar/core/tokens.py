"""Bearer tokens: from the Authorization header, and until when one says that it is good.

Verifies nothing: whose a token is, only upstream can say. Source: k8s.io/apiserver v0.36,
pkg/authentication/request/bearertoken/bearertoken.go; RFC 7519 for `exp`.
"""

import base64
import json
import math


def bearer_token(header: str | None) -> str | None:
    """The token that kube-apiserver would look at, None where there is none."""
    parts = (header or "").strip().split(" ", 2)
    if len(parts) < 2 or parts[0].lower() != "bearer":
        return None
    token = parts[1]
    return token if token.isascii() and token.isprintable() and token else None


def expiry(token: str) -> float | None:
    """Unix seconds; None where the token is no JWT, or says nothing."""
    segments = token.split(".")
    if len(segments) != 3:
        return None
    payload = segments[1]
    try:
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, RecursionError):
        return None
    told = claims.get("exp") if isinstance(claims, dict) else None
    if not isinstance(told, int | float) or isinstance(told, bool):
        return None
    try:
        at = float(told)
    except OverflowError:
        return None
    return at if math.isfinite(at) else None
