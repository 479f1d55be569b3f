"""An edge node: a relay-sidecar behind a link that can be cut, and a program that works through it.

Owns the relay's process, ports and data, the link, and the program's thread. Guarantee: all of it
ends with the demo, however that ends; what is asked here, is asked of the relay and nobody else.
"""

import http.client
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from demo.follower import Follower
from tests.controlplane.api_server import ApiServer
from tests.controlplane.proxy import FaultProxy
from tests.controlplane.reservation import LOOPBACK, Reservation

ROOT = Path(__file__).parent.parent
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

    def __init__(self, plane: ApiServer, namespace: str) -> None:
        self.is_cut = False
        self.is_killed = False
        self.is_link_up: bool | None = None
        self._plane = plane
        self._namespace = namespace
        self._path = f"/api/v1/namespaces/{namespace}/configmaps"
        self._relay: subprocess.Popen[bytes] | None = None
        self._stop = threading.Event()
        self._looking = threading.Thread(target=self._look, name="look-at-edge")
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            plane = self._plane
            self._link = stack.enter_context(FaultProxy(plane.port, scheme=plane.scheme))
            ports = [Reservation(), Reservation()]
            for held in ports:
                stack.callback(held.release)
            self._port, self._status_port = (held.port for held in ports)
            self._credentials = plane.service_account_dir(self._namespace, "edge-relay", RULES)
            self.follower = Follower(self._port, self._path)
            stack.callback(self._end)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def log(self) -> Path:
        """Of the relay, over all its processes."""
        return self._plane.folder / "edge.log"

    def start(self) -> None:
        """The relay; returns at once."""
        with self.log.open("ab") as log:
            self._relay = subprocess.Popen(
                [
                    *(sys.executable, "-m", "relay_sidecar", "--server", self._link.url),
                    *("--service-account-dir", str(self._credentials.path)),
                    *("--listen", f"{LOOPBACK}:{self._port}"),
                    *("--status-listen", f"{LOOPBACK}:{self._status_port}"),
                    *("--data-dir", str(self._plane.folder / "edge")),
                ],
                cwd=ROOT,
                env={"PATH": "/usr/bin:/bin"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._plane.guardian.watch(self._relay.pid)
        self.is_killed = False
        if not self._looking.is_alive():
            self.follower.start()
            self._looking.start()

    def kill(self) -> None:
        """SIGKILL; gone when it returns."""
        self.is_killed = True
        if self._relay is not None:
            self._relay.send_signal(signal.SIGKILL)
            self._relay.wait()

    def cut(self) -> None:
        """From now on nothing gets through, and nobody is told."""
        self.is_cut = True
        self._link.black_hole()

    def heal(self) -> None:
        self.is_cut = False
        self._link.heal()

    def ended_unasked(self) -> bool:
        return not self.is_killed and self._relay is not None and self._relay.poll() is not None

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
        connection = http.client.HTTPConnection(LOOPBACK, port, timeout=ANSWER_TIMEOUT)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def _end(self) -> None:
        self._stop.set()
        self.follower.stop()
        # Ends what the program reads, too.
        self.kill()
        if self._looking.is_alive():
            self._looking.join()
        self.follower.join()
