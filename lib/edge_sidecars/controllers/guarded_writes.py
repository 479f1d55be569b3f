"""Every write of a controller: sent only while it may be, counted, and bounded in time.

Guarantees: nothing is sent that may end after another process has become the one that writes, as
far as a clock can tell; what is refused for that reason raises `NotLeading` and was not sent.
Writes bear the field manager, and none is ever sent twice.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from edge_sidecars.kubeapi import ApiClient, ApiError
from edge_sidecars.kubeapi.client import JSON, MERGE_PATCH

Json = dict[str, Any]


class NotLeading(Exception):
    """Nothing was sent."""


class GuardedWrites:
    """`may_write` is asked anew before each, with the uid of the object that is the `owner`: on
    whose behalf it is, "" where it is of none. `encode`: a body as bytes; by default JSON that
    the client makes. `counts` by verb and outcome: `ok`, the status of a refusal, `unknown`,
    `not leading`."""

    def __init__(
        self,
        api: ApiClient,
        may_write: Callable[[str], bool],
        *,
        field_manager: str,
        timeout: float,
        encode: Callable[[Json], bytes] | None = None,
    ) -> None:
        self._api = api
        self._may_write = may_write
        self._field_manager = field_manager
        self._timeout = timeout
        self._encode = encode
        self.counts: Counter[tuple[str, str]] = Counter()

    async def post(self, path: str, body: Json, *, owner: str = "") -> bytes:
        return await self._send("POST", path, body, owner)

    async def put(self, path: str, body: Json, *, owner: str = "") -> bytes:
        return await self._send("PUT", path, body, owner)

    async def patch(self, path: str, body: Json, *, owner: str = "") -> bytes:
        """A merge patch; with a resourceVersion among its metadata it can conflict."""
        return await self._send("PATCH", path, body, owner, content_type=MERGE_PATCH)

    async def delete(
        self,
        path: str,
        *,
        uid: str,
        resource_version: str = "",
        propagation_policy: str = "",
        owner: str = "",
    ) -> bytes:
        """Exactly this object; with a `resource_version` in exactly this state."""
        preconditions = {"uid": uid}
        if resource_version:
            preconditions["resourceVersion"] = resource_version
        body: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        if propagation_policy:
            body["propagationPolicy"] = propagation_policy
        return await self._send("DELETE", path, body, owner)

    async def get(self, path: str) -> bytes:
        """A live read: not from what a relay keeps, while its link is up."""
        return await self._api.fetch("GET", path, timeout=self._timeout, pooled=True)

    async def _send(
        self, method: str, path: str, body: Json, owner: str, *, content_type: str = JSON
    ) -> bytes:
        """Raises `NotLeading`, `ApiError`, `Unreachable`."""
        if not self._may_write(owner):
            self.counts[method, "not leading"] += 1
            raise NotLeading
        params = None if method == "DELETE" else {"fieldManager": self._field_manager}
        outcome = "unknown"
        try:
            answer = await self._api.fetch(
                method,
                path,
                timeout=self._timeout,
                params=params,
                body=body if self._encode is None else self._encode(body),
                content_type=content_type,
                pooled=True,
            )
            outcome = "ok"
            return answer
        except ApiError as error:
            outcome = str(error.status)
            raise
        finally:
            self.counts[method, outcome] += 1
