"""Every write of this GM: sent only while it may be, counted, and bounded in time.

Owns rule G1's check. Guarantees: nothing is sent that may end after the object on whose behalf it
is has become another GM's, as far as a clock can tell; what is refused for that reason raises
`NotLeading` and was not sent. Writes bear
our field manager, and none is ever sent twice.
"""

import json
from collections import Counter
from collections.abc import Callable

import msgspec

from edge_sidecars.kubeapi import ApiClient, ApiError
from edge_sidecars.kubeapi.client import JSON, MERGE_PATCH
from edge_sidecars.sedna_api.core.api_object import Json

FIELD_MANAGER = "sedna-gm"
# What the API server says when it is not the object's fault.
TROUBLE = frozenset({408, 429, 500, 502, 503, 504})


class NotLeading(Exception):
    """Nothing was sent."""


class ApiWrites:
    """`may_write` is asked anew before each, with the uid of the object that is the `owner`: on
    whose behalf it is, "" where it is nobody's. `counts` by verb and outcome: `ok`, the status of a
    refusal, `unknown`, `not leading`."""

    def __init__(self, api: ApiClient, may_write: Callable[[str], bool], *, timeout: float) -> None:
        self._api = api
        self._may_write = may_write
        self._timeout = timeout
        self.counts: Counter[tuple[str, str]] = Counter()

    async def post(self, path: str, body: Json, *, owner: str) -> bytes:
        return await self._send("POST", path, body, owner)

    async def put(self, path: str, body: Json, *, owner: str) -> bytes:
        return await self._send("PUT", path, body, owner)

    async def patch(self, path: str, body: Json, *, owner: str) -> bytes:
        """A merge patch; with a resourceVersion among its metadata it can conflict."""
        return await self._send("PATCH", path, body, owner, content_type=MERGE_PATCH)

    async def delete(self, path: str, *, uid: str, resource_version: str, owner: str) -> bytes:
        """Exactly this object in exactly this state."""
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": preconditions,
            "propagationPolicy": "Background",
        }
        return await self._send("DELETE", path, body, owner)

    async def get(self, path: str) -> bytes:
        """A live read: not from what the relay keeps, while its link is up."""
        return await self._api.fetch("GET", path, timeout=self._timeout, pooled=True)

    async def _send(
        self, method: str, path: str, body: Json, owner: str, *, content_type: str = JSON
    ) -> bytes:
        """Raises `NotLeading`, `ApiError`, `Unreachable`."""
        if not self._may_write(owner):
            self.counts[method, "not leading"] += 1
            raise NotLeading
        params = None if method == "DELETE" else {"fieldManager": FIELD_MANAGER}
        outcome = "unknown"
        try:
            answer = await self._api.fetch(
                method,
                path,
                timeout=self._timeout,
                params=params,
                body=_encoded(body),
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


def _encoded(body: Json) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        # Half a surrogate pair, from JSON within JSON: escaped, it is for the API server to judge.
        return json.dumps(body, separators=(",", ":")).encode()
