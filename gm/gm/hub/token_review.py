"""Which node a bearer token proves, asked of the API server.

Owns the TokenReview. Guarantees: no token is kept or logged; a token that is not bound to a node
proves none. Bound tokens: KEP-4193, on by default since Kubernetes 1.30.
"""

from edge_sidecars.kubeapi import ApiClient, ApiError, Unreachable
from gm.core.tree import flag, items, mapping
from gm.hub.ports import ReviewUnavailable

PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
NODE_CLAIM = "authentication.kubernetes.io/node-name"


class TokenReviews:
    """The port of the hub."""

    def __init__(self, api: ApiClient, *, timeout: float) -> None:
        self._api = api
        self._timeout = timeout

    async def node_of(self, token: str) -> str | None:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        }
        try:
            told = await self._api.request("POST", PATH, timeout=self._timeout, body=body)
        except (ApiError, Unreachable) as error:
            raise ReviewUnavailable(str(error)) from error
        if not flag(told, "status", "authenticated"):
            return None
        found = items(mapping(told, "status", "user", "extra"), NODE_CLAIM)
        return found[0] if len(found) == 1 and isinstance(found[0], str) else None
