"""Bearer tokens, from the Authorization header.

Verifies nothing: whose a token is, and until when it is good, only upstream can say. Source:
k8s.io/apiserver v0.36, pkg/authentication/request/bearertoken/bearertoken.go.
"""


def bearer_token(header: str | None) -> str | None:
    """The token that kube-apiserver would look at, None where there is none."""
    parts = (header or "").strip().split(" ", 2)
    if len(parts) < 2 or parts[0].lower() != "bearer":
        return None
    token = parts[1]
    return token if token.isascii() and token.isprintable() and token else None
