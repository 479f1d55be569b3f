"""A program on an edge node: lists ConfigMaps once, and follows them by a watch from then on.

It knows nothing of relays and links, only an address, and behaves as the reflectors of
Kubernetes' clients do: a watch that ends is begun again where it ended, and only a 410 makes it
list again. Guarantee: `objects` never goes back to what it was before.
"""

import http.client
import json
import threading
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

# Seconds without a byte: a server sends a bookmark each minute or so.
SILENCE_LIMIT = 300.0
RETRY_DELAY = 0.1
GONE = 410


@dataclass(frozen=True)
class News:
    """One event of a watch; `at` on the monotonic clock."""

    type: str
    name: str
    version: str
    at: float


class Follower:
    """Works in its own thread from `start` until what it reads from ends after `stop`."""

    def __init__(self, host: str, port: int, path: str) -> None:
        self._host = host
        self._port = port
        self._path = path
        self._lock = threading.Lock()
        self._objects: dict[str, dict[str, Any]] = {}
        self._news: list[News] = []
        self._version = ""
        self._watching_since: float | None = None
        self._lists = 0
        self._watches = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="follower", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def join(self) -> None:
        if self._thread.is_alive():
            self._thread.join()

    @property
    def objects(self) -> dict[str, dict[str, Any]]:
        """By name, as it knows them."""
        with self._lock:
            return dict(self._objects)

    @property
    def versions(self) -> dict[str, str]:
        """resourceVersions by name."""
        return {name: it["metadata"]["resourceVersion"] for name, it in self.objects.items()}

    @property
    def lists(self) -> int:
        """How often it had to list."""
        with self._lock:
            return self._lists

    @property
    def watches(self) -> int:
        """How many watches it has begun."""
        with self._lock:
            return self._watches

    @property
    def watching_since(self) -> float | None:
        """When its present watch was answered, on the monotonic clock; None: it has none."""
        with self._lock:
            return self._watching_since

    def news(self, *, since: float) -> list[News]:
        """What watches told since then."""
        with self._lock:
            return [news for news in self._news if news.at >= since]

    def _follow(self) -> None:
        while not self._stop.is_set():
            connection = http.client.HTTPConnection(self._host, self._port, timeout=SILENCE_LIMIT)
            try:
                if self._version or self._list(connection):
                    self._watch(connection)
            except (OSError, http.client.HTTPException, ValueError):
                pass  # the next turn begins where this one was cut off
            finally:
                connection.close()
                with self._lock:
                    self._watching_since = None
            self._stop.wait(RETRY_DELAY)

    def _list(self, connection: http.client.HTTPConnection) -> bool:
        connection.request("GET", self._path)
        response = connection.getresponse()
        content = response.read()
        if response.status != HTTPStatus.OK:
            return False
        page = json.loads(content)
        with self._lock:
            self._lists += 1
            self._objects = {item["metadata"]["name"]: item for item in page["items"]}
            self._version = page["metadata"]["resourceVersion"]
        return True

    def _watch(self, connection: http.client.HTTPConnection) -> None:
        query = f"watch=true&allowWatchBookmarks=true&resourceVersion={self._version}"
        connection.request("GET", f"{self._path}?{query}")
        response = connection.getresponse()
        if response.status == GONE:
            self._version = ""
        if response.status != HTTPStatus.OK:
            return
        with self._lock:
            self._watches += 1
            self._watching_since = time.monotonic()
        for line in response:
            event = json.loads(line)
            if event["type"] == "ERROR":
                if event["object"].get("code") == GONE:
                    self._version = ""
                return
            self._told(event["type"], event["object"])

    def _told(self, kind: str, item: dict[str, Any]) -> None:
        metadata = item["metadata"]
        with self._lock:
            self._version = metadata["resourceVersion"]
            if kind == "BOOKMARK":
                return
            if kind == "DELETED":
                self._objects.pop(metadata["name"], None)
            else:
                self._objects[metadata["name"]] = item
            self._news.append(News(kind, metadata["name"], self._version, time.monotonic()))
