"""Who looks at the cloud from outside: watches of its own of Nodes and pods.

Owns one thread for each. Guarantees: what was seen stands in `history` with the time at which it
was seen; an API server that is away is asked again, and what went meanwhile is noted as gone.
"""

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

from tools.harness.controlplane.cluster import ControlPlane
from tools.nemesis.pool.judge.history import History

Json = dict[str, Any]

# Seconds: of silence after which a watch is begun again; before another try.
QUIET, PAUSE = 20.0, 0.2
Noted = Callable[[Json, float, bool], None]


class _Watch:
    """Of one collection: each object that is seen, when, and whether it is gone."""

    def __init__(
        self, plane: ControlPlane, path: str, noted: Noted, ended: threading.Event
    ) -> None:
        self._plane, self._path, self._noted, self._ended = plane, path, noted, ended
        self._known: dict[str, Json] = {}

    def run(self) -> None:
        while not self._ended.wait(PAUSE):
            try:
                version = self._list()
                for kind, found in self._events(version):
                    if kind == "ERROR":
                        break
                    if kind != "BOOKMARK":
                        self._note(found, is_gone=kind == "DELETED")
            except (OSError, http.client.HTTPException, ValueError):
                # Away, or a line that was cut off.
                continue

    def _list(self) -> str:
        status, found = self._plane.admin.get(self._path)
        if status != HTTPStatus.OK:
            raise ConnectionError(f"{self._path}: {status}")
        items = {it["metadata"]["uid"]: it for it in found["items"]}
        for uid in self._known.keys() - items.keys():
            self._note(self._known[uid], is_gone=True)
        for it in items.values():
            self._note(it, is_gone=False)
        return str(found["metadata"]["resourceVersion"])

    def _events(self, version: str) -> Iterator[tuple[str, Json]]:
        plane = self._plane
        connection = http.client.HTTPSConnection(
            plane.host, plane.port, context=plane.tls(), timeout=QUIET
        )
        query = f"watch=1&allowWatchBookmarks=true&resourceVersion={version}"
        with closing(connection):
            connection.request("GET", f"{self._path}?{query}")
            with connection.getresponse() as response:
                if response.status != HTTPStatus.OK:
                    raise ConnectionError(f"{self._path}: {response.status}")
                while not self._ended.is_set() and (line := response.readline()):
                    event = json.loads(line)
                    yield event["type"], event["object"]

    def _note(self, found: Json, *, is_gone: bool) -> None:
        uid = found["metadata"]["uid"]
        if is_gone:
            self._known.pop(uid, None)
        else:
            self._known[uid] = found
        self._noted(found, time.time(), is_gone)


class Observer:
    """Looks while it is entered; `history` is read under `lock`."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.history = History()
        self.lock = threading.Lock()
        self._ended = threading.Event()
        watches = [
            _Watch(plane, "/api/v1/nodes", self._node, self._ended),
            _Watch(plane, f"/api/v1/namespaces/{namespace}/pods", self._pod, self._ended),
        ]
        self._threads = [threading.Thread(target=it.run, daemon=True) for it in watches]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    @property
    def is_looking(self) -> bool:
        """Else what it has seen is no proof."""
        return all(it.is_alive() for it in self._threads)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        # They are in the midst of a read, and end with the process at the latest.
        self._ended.set()

    def _node(self, found: Json, at: float, is_gone: bool) -> None:
        with self.lock:
            self.history.node(found, at)

    def _pod(self, found: Json, at: float, is_gone: bool) -> None:
        with self.lock:
            self.history.pod(found, at, is_gone=is_gone)
