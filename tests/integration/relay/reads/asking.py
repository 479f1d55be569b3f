"""Thousands of questions over one connection, each target just as it is written.

Guarantees: an answer of any status is returned; of a watch that was accepted, only that it was.
"""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from http import HTTPStatus

from tools.harness.pods.wire.caller import Caller, Json


@dataclass(frozen=True)
class Answered:
    """`content_type` without its parameters."""

    status: int
    content_type: str
    body: bytes

    def json(self) -> Json:
        document: Json = json.loads(self.body)
        return document


class KeptCaller:
    """Asks with the credentials and headers of `caller`; `close` ends the connection."""

    def __init__(self, caller: Caller, *, timeout: float = 20.0) -> None:
        self._headers = dict(caller.headers)
        self._connection = caller.open(timeout)

    def close(self) -> None:
        self._connection.close()

    def get(self, target: str, *, accept: str = "application/json") -> Answered:
        """GET of what ends; with the empty `accept` no Accept header is sent."""
        return self.ask("GET", target, accept=accept)

    def ask(self, method: str, target: str, *, accept: str = "application/json") -> Answered:
        """Any request without a body."""
        response = self._send(method, target, accept)
        return _answered(response, response.read())

    def begin(self, target: str) -> Answered:
        """GET of a watch: a refusal, or the empty body of an answer that has begun."""
        response = self._send("GET", target, "application/json")
        if response.status != HTTPStatus.OK:
            return _answered(response, response.read())
        response.close()
        # It would go on on this connection; the next request makes another one.
        self._connection.close()
        return _answered(response, b"")

    def _send(self, method: str, target: str, accept: str) -> http.client.HTTPResponse:
        headers = {**self._headers, "Accept": accept}
        if not accept:
            del headers["Accept"]
        self._connection.request(method, target, headers=headers)
        return self._connection.getresponse()


def _answered(response: http.client.HTTPResponse, body: bytes) -> Answered:
    return Answered(response.status, response.headers.get_content_type(), body)
