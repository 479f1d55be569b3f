"""A thin synchronous JSON client for the API server, for what tests do as an administrator.

Guarantees: one fresh connection per request, so that it works across restarts and from any
thread; a request is sent exactly once; an answer of any status is returned, not raised.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Any

from tools.harness.controlplane.clients.answer import exchange

# The name under which the administrator's requests stand in the audit log.
USER_AGENT = "controlplane-admin"
# Seconds; the API server answers within milliseconds or is being tormented on purpose.
TIMEOUT = 10.0
MERGE_PATCH = "application/merge-patch+json"

Json = dict[str, Any]
# Status and document.
Told = tuple[int, Json]


class AdminClient:
    """Sends requests with the credentials of `context` (None: plain HTTP) or a bearer token."""

    def __init__(
        self, host: str, port: int, context: ssl.SSLContext | None, *, token: str | None = None
    ) -> None:
        self._host = host
        self._port = port
        self._context = context
        self._token = token

    def get(self, path: str, *, timeout: float = TIMEOUT) -> Told:
        """GET; raises OSError where there is no answer within `timeout` seconds."""
        return self._request("GET", path, None, "application/json", timeout)

    def put(self, path: str, body: Json, *, timeout: float = TIMEOUT) -> Told:
        """PUT; raises OSError as `get` does."""
        return self._request("PUT", path, body, "application/json", timeout)

    def post(self, path: str, body: Json, *, timeout: float = TIMEOUT) -> Told:
        """POST; raises OSError as `get` does."""
        return self._request("POST", path, body, "application/json", timeout)

    def patch(
        self, path: str, body: Json, *, content_type: str = MERGE_PATCH, timeout: float = TIMEOUT
    ) -> Told:
        """PATCH, by default a JSON merge patch; raises OSError as `get` does."""
        return self._request("PATCH", path, body, content_type, timeout)

    def delete(self, path: str, body: Json | None = None, *, timeout: float = TIMEOUT) -> Told:
        """DELETE; raises OSError as `get` does."""
        return self._request("DELETE", path, body, "application/json", timeout)

    def _request(
        self, method: str, path: str, body: Json | None, content_type: str, timeout: float
    ) -> Told:
        headers, content = self._message(body, content_type)
        answer = exchange(
            self._connection(timeout), path, method=method, body=content, headers=headers
        )
        return answer.status, decode(answer.body)

    def _message(
        self, body: Json | None, content_type: str
    ) -> tuple[Mapping[str, str], bytes | None]:
        """Headers and content."""
        headers = {"Accept": "application/json", "User-Agent": USER_AGENT}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        if body is None:
            return headers, None
        headers["Content-Type"] = content_type
        return headers, json.dumps(body).encode()

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        if self._context is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        return http.client.HTTPSConnection(
            self._host, self._port, context=self._context, timeout=timeout
        )


def decode(content: bytes) -> Json:
    """The object of a JSON answer; a plain text one (/readyz) as {"message": text}."""
    try:
        decoded: Json = json.loads(content)
    except ValueError:
        return {"message": content.decode(errors="replace")}
    return decoded
