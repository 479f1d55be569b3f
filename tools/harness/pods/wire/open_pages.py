"""A component's page as browsers have it open: its files, and a stream of its document each."""

import http.client
import json
import socket
import threading
import time
from contextlib import ExitStack, closing
from typing import Any, Self

from edge_sidecars.runtime.web.page.asked import EVENTS, MAX_STREAMS
from tools.harness.controlplane.clients.answer import ask
from tools.harness.controlplane.reservation import LOOPBACK

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
# Seconds for a component on a busy machine.
PATIENCE = 30.0


class _Stream:
    """Documents of one page, counted in a thread; `newest` is the last of them."""

    def __init__(self, port: int) -> None:
        self.documents = 0
        self.newest: dict[str, Any] = {}
        with ExitStack() as stack:
            opened = http.client.HTTPConnection(LOOPBACK, port, timeout=PATIENCE)
            self._connection = stack.enter_context(closing(opened))
            self._connection.request("GET", EVENTS, headers={"Accept": "text/event-stream"})
            self._answer = stack.enter_context(self._connection.getresponse())
            if self._answer.status != 200:
                raise ConnectionError(f"{EVENTS} is answered with {self._answer.status}")
            self._stack = stack.pop_all()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def close(self) -> None:
        if self._connection.sock is not None:
            self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        self._stack.close()

    def _read(self) -> None:
        try:
            while line := self._answer.readline():
                if line.startswith(b"data: "):
                    self.newest = json.loads(line.removeprefix(b"data: "))
                    self.documents += 1
        except (OSError, http.client.HTTPException, ValueError):
            return


class OpenPages:
    """As many as may follow one process at a time, while it is entered."""

    def __init__(self, port: int, component: str, *, count: int = MAX_STREAMS) -> None:
        self._port = port
        self._component = component
        self._count = count
        self._streams: list[_Stream] = []

    def __enter__(self) -> Self:
        shared = ("page/page.js", "page/shell.js", "page/style.css", "page/icon.svg")
        for path in ("", *shared, f"page/{self._component}.js"):
            answer = ask(self._port, f"/{path}", headers={"Accept": BROWSER}, timeout=PATIENCE)
            if answer is None or answer.status != 200:
                raise ConnectionError(f"/{path} of {self._component} is not answered with 200")
        with ExitStack() as stack:
            for _ in range(self._count):
                self._streams.append(stream := _Stream(self._port))
                stack.callback(stream.close)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def wait_for_documents(self, count: int) -> None:
        """Until each page has had so many. Raises `TimeoutError`."""
        deadline = time.monotonic() + PATIENCE
        while min(it.documents for it in self._streams) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"pages of {self._component} get no documents")
            time.sleep(0.05)

    def newest(self) -> dict[str, Any]:
        """The component's document, as the first page had it last."""
        found: dict[str, Any] = self._streams[0].newest["status"]
        return found
