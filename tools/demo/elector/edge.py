"""An edge node: a relay-sidecar behind a link that can be cut, and a program that works through it.

Owns the program's thread, not where the relay runs. Guarantees: both have ended when it has been
left; what is asked here, is asked of the relay and nobody else.
"""

import http.client
import json
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Self

from tools.demo.elector.follower import Follower
from tools.demo.environment import EdgeParts

# What this relay's one client reads, and nothing else.
RULES: list[dict[str, list[str]]] = [
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}
]
ANSWER_TIMEOUT = 5.0
# Seconds between two looks at the relay, for people's eyes.
LOOK_INTERVAL = 0.2


@dataclass(frozen=True)
class Listing:
    """An answer to a LIST: names with their resourceVersions; `took` in seconds."""

    versions: Mapping[str, str]
    took: float


class Edge:
    """`start` runs the relay and, the first time, the program; `is_cut` and `is_killed` say what
    was done last, `is_link_up` what the relay says of its link (None: nothing)."""

    def __init__(self, parts: EdgeParts, namespace: str) -> None:
        self.is_cut = False
        self.is_killed = False
        self.is_link_up: bool | None = None
        self._relay = parts.relay
        self._link = parts.link
        self._host = parts.host
        self._port = parts.port
        self._status_port = parts.status_port
        self._path = f"/api/v1/namespaces/{namespace}/configmaps"
        self.follower = Follower(parts.host, parts.port, self._path)
        self._stop = threading.Event()
        self._looking = threading.Thread(target=self._look, name="look-at-edge")

    @property
    def page(self) -> str:
        """For a browser."""
        return f"http://{self._host}:{self._status_port}/"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self.follower.stop()
        # Ends what the program reads, too.
        self.kill()
        if self._looking.is_alive():
            self._looking.join()
        self.follower.join()

    def log_tail(self) -> Sequence[str]:
        """Of the relay."""
        return self._relay.log_tail()

    def start(self) -> None:
        """The relay; returns at once."""
        self._relay.start()
        self.is_killed = False
        if not self._looking.is_alive():
            self.follower.start()
            self._looking.start()

    def kill(self) -> None:
        """SIGKILL; gone when it returns."""
        self.is_killed = True
        self._relay.end(signal.SIGKILL)

    def cut(self) -> None:
        """From now on nothing gets through."""
        self.is_cut = True
        self._link.cut()

    def heal(self) -> None:
        self.is_cut = False
        self._link.heal()

    def ended_unasked(self) -> bool:
        return not self.is_killed and self._relay.exit_status() is not None

    def list(self) -> Listing | None:
        """What any client is answered now; None without an answer, or with another than 200."""
        started = time.monotonic()
        answer = self._ask(self._port, self._path)
        if answer is None or answer[0] != HTTPStatus.OK:
            return None
        items: list[dict[str, Any]] = json.loads(answer[1])["items"]
        versions = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in items}
        return Listing(versions, time.monotonic() - started)

    def _look(self) -> None:
        """In a thread of its own."""
        while not self._stop.wait(LOOK_INTERVAL):
            answer = self._ask(self._status_port, "/readyz?upstream=true")
            self.is_link_up = None if answer is None else answer[0] == HTTPStatus.OK

    def _ask(self, port: int, path: str) -> tuple[int, bytes] | None:
        connection = http.client.HTTPConnection(self._host, port, timeout=ANSWER_TIMEOUT)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
