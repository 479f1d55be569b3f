"""What one curl can ask a Kubernetes API, with every header and byte of the answer in view.

Guarantees: a request is sent exactly once, on a fresh connection; an answer of any status is
returned, not raised; OSError where there is none. A watch is read in a thread of its own, each
event with the moment of its arrival, until the server ends it or the block does.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

from tools.harness.controlplane.clients.answer import exchange

Json = dict[str, Any]
Parameters = Mapping[str, str | int]
# Query parameters; a sequence of pairs repeats a name.
Query = Parameters | Sequence[tuple[str, str | int]]

# Seconds; longer than anything that a relay waits for before it answers.
TIMEOUT = 20.0
POLL_INTERVAL = 0.01


@dataclass(frozen=True)
class Reply:
    """An answer; names of `headers` are found in any case; `seconds` from the request on."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes
    seconds: float

    def json(self) -> Json:
        document: Json = json.loads(self.body)
        return document

    def expect(self, status: int = HTTPStatus.OK) -> Json:
        """Its JSON; fails where the status is another one."""
        assert self.status == status, f"{self.status}: {self.body[:2000].decode(errors='replace')}"
        return self.json()

    @property
    def version(self) -> str:
        """The resourceVersion of the object or list."""
        version: str = self.json()["metadata"]["resourceVersion"]
        return version

    @property
    def names(self) -> list[str]:
        """Of the items of a list, in its order."""
        return [item["metadata"]["name"] for item in self.json()["items"]]


@dataclass(frozen=True)
class Seen:
    """An event of a watch; `at` on the monotonic clock."""

    type: str
    object: Json
    at: float

    @property
    def name(self) -> str:
        return str(self.object["metadata"].get("name", ""))

    @property
    def version(self) -> int:
        return int(self.object["metadata"]["resourceVersion"])

    @property
    def is_initial_end(self) -> bool:
        annotations: dict[str, str] = self.object["metadata"].get("annotations", {})
        return annotations.get("k8s.io/initial-events-end") == "true"


class Caller:
    """Asks `url`; `context` where it is https; `headers` come with every request."""

    def __init__(
        self,
        url: str,
        *,
        context: ssl.SSLContext | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.url = url
        self.context = context
        self._parts = urlsplit(url)
        self._headers = {"Accept": "application/json", "User-Agent": "caller", **(headers or {})}

    def ask(
        self,
        path: str,
        query: Query = (),
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: Json | bytes | None = None,
        timeout: float = TIMEOUT,
    ) -> Reply:
        """One request; a dictionary is sent as JSON unless `headers` say what it is."""
        content = json.dumps(body).encode() if isinstance(body, dict) else body
        kind = {"Content-Type": "application/json"} if isinstance(body, dict) else {}
        answer = exchange(
            self.open(timeout),
            target_of(path, query),
            method=method,
            body=content,
            headers={**self._headers, **kind, **(headers or {})},
        )
        return Reply(answer.status, answer.headers, answer.body, answer.received - answer.sent)

    def get(self, path: str, query: Query = (), **headers: str) -> Reply:
        """GET; `headers` with underscores: `accept="…"`, `accept_encoding="gzip"`."""
        named = {name.replace("_", "-").title(): value for name, value in headers.items()}
        return self.ask(path, query, headers=named)

    def post(self, path: str, body: Json) -> Reply:
        return self.ask(path, method="POST", body=body)

    def put(self, path: str, body: Json) -> Reply:
        return self.ask(path, method="PUT", body=body)

    def patch(
        self, path: str, body: Json, *, content_type: str = "application/merge-patch+json"
    ) -> Reply:
        headers = {"Content-Type": content_type}
        return self.ask(path, method="PATCH", body=body, headers=headers)

    def delete(self, path: str) -> Reply:
        return self.ask(path, method="DELETE")

    def watch(
        self, path: str, query: Query = (), *, headers: Mapping[str, str] | None = None
    ) -> Watching:
        """A watch that has begun; `watch=true` is added."""
        return Watching(self, target_of(path, query, watch="true"), headers or {})

    @contextlib.contextmanager
    def connected(self, timeout: float = TIMEOUT) -> Iterator[http.client.HTTPConnection]:
        """A connection; closed at the end of the block."""
        with contextlib.closing(self.open(timeout)) as connection:
            yield connection

    def open(self, timeout: float | None) -> http.client.HTTPConnection:
        """A connection that the caller closes."""
        host, port = self._parts.hostname or "", self._parts.port
        if self.context is None:
            return http.client.HTTPConnection(host, port, timeout=timeout)
        return http.client.HTTPSConnection(host, port, timeout=timeout, context=self.context)

    @property
    def headers(self) -> Mapping[str, str]:
        return self._headers


class Watching:
    """One watch; a context manager that ends it."""

    def __init__(self, caller: Caller, target: str, headers: Mapping[str, str]) -> None:
        self.seen: list[Seen] = []
        self.ended_at: float | None = None
        with contextlib.ExitStack() as stack:
            connection = stack.enter_context(contextlib.closing(caller.open(TIMEOUT)))
            connection.connect()
            # Answers without a length make http.client forget its socket.
            self._socket: socket.socket = connection.sock
            connection.request("GET", target, headers={**caller.headers, **headers})
            self.response = stack.enter_context(connection.getresponse())
            self._socket.settimeout(None)
            self._stack = stack.pop_all()
        self.status = self.response.status
        self.headers = self.response.headers
        self.started_at = time.monotonic()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(TIMEOUT)
        self._stack.close()

    @property
    def is_open(self) -> bool:
        return self.ended_at is None

    def events(self, *types: str) -> list[Seen]:
        """Up to now, bookmarks left out unless they are asked for by type."""
        return [
            each
            for each in list(self.seen)
            if (each.type in types if types else each.type != "BOOKMARK")
        ]

    def told(self) -> list[tuple[str, str]]:
        """Type and name of each event up to now, bookmarks left out."""
        return [(each.type, each.name) for each in self.events()]

    def wait_for(
        self, condition: Callable[[Watching], bool], *, timeout: float = TIMEOUT, what: str = ""
    ) -> Self:
        """Returns as soon as the condition holds."""
        deadline = time.monotonic() + timeout
        while not condition(self):
            if time.monotonic() > deadline:
                told = [(each.type, each.name) for each in self.seen][-20:]
                raise AssertionError(
                    f"not within {timeout:g} s: {what}; open: {self.is_open}, seen: {told}"
                )
            time.sleep(POLL_INTERVAL)
        return self

    def wait_told(self, *expected: tuple[str, str], timeout: float = TIMEOUT) -> Self:
        """Returns when exactly this was told; fails at anything else."""
        self.wait_for(
            lambda it: len(it.told()) >= len(expected), timeout=timeout, what=str(expected)
        )
        assert self.told() == list(expected)
        return self

    def wait_initial_end(self, *, timeout: float = TIMEOUT) -> Seen:
        """The bookmark that ends the initial events."""

        def find() -> Seen | None:
            bookmarks = self.events("BOOKMARK")
            return next((each for each in bookmarks if each.is_initial_end), None)

        self.wait_for(lambda _: find() is not None, timeout=timeout, what="initial-events-end")
        found = find()
        assert found is not None
        return found

    def wait_ended(self, *, timeout: float = TIMEOUT) -> Self:
        """Returns when the server has ended the stream."""
        return self.wait_for(lambda it: not it.is_open, timeout=timeout, what="the end")

    def _read(self) -> None:
        try:
            for line in self._lines():
                event = json.loads(line)
                # A refusal is one Status, not a line of a stream.
                kind = event.get("type", "STATUS")
                self.seen.append(Seen(kind, event.get("object", event), time.monotonic()))
        except (OSError, http.client.HTTPException, ValueError):
            pass
        finally:
            self.ended_at = time.monotonic()

    def _lines(self) -> Iterator[bytes]:
        """As they come; of a packed answer, each flush of which is a whole member of gzip
        (k8s.io/apiserver 0.37, perFlushGzipWriter), what a client of that kind gets to see."""
        if self.headers["Content-Encoding"] != "gzip":
            yield from iter(self.response.readline, b"")
            return
        begun, member = b"", zlib.decompressobj(16 + zlib.MAX_WBITS)
        while packed := self.response.read1():
            while packed:
                begun += member.decompress(packed)
                packed = member.unused_data
                if member.eof:
                    member = zlib.decompressobj(16 + zlib.MAX_WBITS)
            *lines, begun = begun.split(b"\n")
            yield from lines


def _pairs(query: Query) -> list[tuple[str, str | int]]:
    return list(query.items()) if isinstance(query, Mapping) else list(query)


def target_of(path: str, query: Query, **more: str) -> str:
    pairs = [*_pairs(query), *more.items()]
    return f"{path}?{urlencode(pairs)}" if pairs else path
