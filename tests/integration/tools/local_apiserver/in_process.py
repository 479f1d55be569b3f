"""A server asked in the test's own thread: requests and answers as over HTTP, without it.

Guarantees: nothing happens in the background but while a request or `until` runs.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from edge_sidecars.apimachinery.request.request_info import RequestInfo
from edge_sidecars.apimachinery.store import Collection
from tools.local_apiserver import LocalApiServer

Json = dict[str, Any]
T = TypeVar("T")
JSON = "application/json"
# Seconds within which what goes on in the background is done.
PATIENCE = 10.0
POLL_INTERVAL = 0.002


class Told(NamedTuple):
    """An answer."""

    status: int
    body: Json
    warning: str = ""


class InProcess:
    """`directory` None: nothing is kept. `collects`: the background work runs."""

    def __init__(self, directory: Path | None = None, *, collects: bool = True) -> None:
        self._directory = directory
        self._collects = collects
        self._loop = asyncio.new_event_loop()
        self._collecting: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        self.server = self._loop.run_until_complete(self._open())
        return self

    async def _open(self) -> LocalApiServer:
        server = await LocalApiServer.open(self._directory)
        if self._collects:
            self._collecting = asyncio.create_task(server.run())
        return server

    def __exit__(self, *_: object) -> None:
        self._loop.run_until_complete(self._close())
        self._loop.close()

    async def _close(self) -> None:
        if self._collecting is not None:
            self._collecting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._collecting
        await self.server.close()

    def ask(
        self,
        method: str,
        path: str,
        body: Json | list[Any] | str | bytes | None = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Told:
        """A write, or a GET of one object."""
        return self._loop.run_until_complete(self._ask(method, path, body, content_type, accept))

    async def _ask(
        self,
        method: str,
        path: str,
        body: Json | list[Any] | str | bytes | None,
        content_type: str,
        accept: str,
    ) -> Told:
        info = RequestInfo.parse(method, path)
        if info.verb == "get" and not info.subresource:
            return self._get(info)
        match body:
            case None:
                content = b""
            case bytes():
                content = body
            case str():
                content = body.encode()
            case _:
                content = json.dumps(body).encode()
        headers = {"Content-Type": content_type, "Accept": accept}
        answer = await self.server.write(info, headers=headers, body=content)
        is_json = answer.headers.get("Content-Type", "").startswith(JSON)
        shown = json.loads(answer.body) if is_json else {"message": answer.body.decode().strip()}
        return Told(answer.status, shown, answer.headers.get("Warning", ""))

    def _get(self, info: RequestInfo) -> Told:
        resource = self.server.resource(info.resource)
        if resource is None:
            return Told(404, {"reason": "NotFound"})
        key = (info.namespace if resource.is_namespaced else "", info.name)
        found = self.collection(info).objects.get(key)
        if found is None:
            return Told(404, {"kind": "Status", "reason": "NotFound"})
        return Told(200, json.loads(found.raw))

    def collection(self, info: RequestInfo) -> Collection:
        return self.server.collection(info.resource)

    def objects(self, path: str) -> list[Json]:
        """All of a resource, whatever their namespace."""
        found = self.server.collection(RequestInfo.parse("GET", path).resource).objects
        return [json.loads(found[key].raw) for key in sorted(found)]

    def play(self, work: Coroutine[Any, Any, T]) -> T:
        """What several clients do at the same time."""
        return self._loop.run_until_complete(work)

    def until(self, condition: Callable[[], bool]) -> None:
        """Lets the background work run until it is so; fails where it never is."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, "it never came"
            self._loop.run_until_complete(asyncio.sleep(POLL_INTERVAL))
