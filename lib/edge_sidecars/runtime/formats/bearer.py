"""Bearer tokens of requests: which one a header has, and whether it is the expected one. Pure.

Guarantees: a token is compared in constant time; without an expected token no request is let in.
"""

import hmac


def bearer_token(header: str | None) -> str | None:
    """The token of an Authorization header that kube-apiserver would look at, None where there is
    none. Source: k8s.io/apiserver v0.36, pkg/authentication/request/bearertoken/bearertoken.go."""
    parts = (header or "").strip().split(" ", 2)
    if len(parts) < 2 or parts[0].lower() != "bearer":
        return None
    token = parts[1]
    return token if token.isascii() and token.isprintable() and token else None


def authorizes(header: str | None, expected: str | bytes) -> bool:
    """Whether the header brings this token."""
    scheme, _, token = (header or "").strip().partition(" ")
    return scheme.lower() == "bearer" and is_token(token.strip(), expected)


def is_token(given: str | None, expected: str | bytes) -> bool:
    wanted = expected.encode() if isinstance(expected, str) else expected
    found = (given or "").encode(errors="surrogateescape")
    return bool(wanted) and hmac.compare_digest(found, wanted)
