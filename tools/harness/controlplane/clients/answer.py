"""One request over HTTP, and its whole answer: how tests, demos and benchmarks ask any server.

Knows nothing of who is asked. Guarantees: a request is sent exactly once, over a connection of its
own; an answer of any status is returned; where there is none, nothing but OSError is raised. No
socket outlives the call, however it ends: http.client by itself keeps that of an answer which was
cut off for as long as somebody keeps the exception.
"""

import http.client
import json
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from tools.harness.controlplane.reservation import LOOPBACK

# An answer that takes longer is none: the process is frozen.
ANSWER_TIMEOUT = 2.0

Json = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """Names of `headers` are found in any case; `sent` and `received` are of `boottime`."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes
    sent: float
    received: float

    def json(self) -> Json:
        document: Json = json.loads(self.body)
        return document


def boottime() -> float:
    """Seconds on CLOCK_BOOTTIME, on which our programs reckon, too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def exchange(
    connection: http.client.HTTPConnection,
    path: str,
    *,
    method: str = "GET",
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Over a new connection, which is closed. Raises OSError where there is no whole answer."""
    sent = boottime()
    try:
        with closing(connection):
            connection.request(method, path, body, dict(headers or {}))
            with connection.getresponse() as response:
                content = response.read()
        return Answer(response.status, response.headers, content, sent, boottime())
    except http.client.HTTPException as error:
        raise ConnectionError(f"{method} {path}: {error!r}") from error


def ask(
    port: int,
    path: str,
    *,
    host: str = LOOPBACK,
    method: str = "GET",
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = ANSWER_TIMEOUT,
) -> Answer | None:
    """None without an answer in time."""
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        return exchange(connection, path, method=method, body=body, headers=headers)
    except OSError:
        return None
