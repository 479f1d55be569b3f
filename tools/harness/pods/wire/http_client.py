"""What tests ask an elector beyond one plain request: streams, raw bytes, its footprint."""

import http.client
import json
import re
import socket
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from tools.harness.controlplane.clients.answer import Answer
from tools.harness.pods.elector import ElectorPod


def answered(pod: ElectorPod, path: str, *, method: str = "GET", timeout: float = 5) -> Answer:
    answer = pod.ask(path, method=method, timeout=timeout)
    assert answer is not None, f"{method} {path}: no answer"
    return answer


def ports(pod: ElectorPod) -> list[int]:
    """Of all its listeners, in the order of the log line at start."""
    [line] = [line for line in pod.log_lines() if line["message"] == "contending"]
    addresses = str(line["listen"]).split(",")
    return [int(each.rpartition(":")[2]) for each in addresses if not each.startswith("unix:")]


def raw(port: int, content: bytes, *, timeout: float = 5, half_close: bool = True) -> bytes:
    """All that comes back for these bytes until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout) as connection:
        found = b""
        try:
            connection.sendall(content)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(65536):
                found += chunk
        except (ConnectionResetError, BrokenPipeError):
            return found
        return found


class Stream:
    """The documents of one watch, read in a thread, each with the time of its arrival."""

    def __init__(
        self, pod: ElectorPod, *, path: str = "/leader?watch=true", accept: str = "*/*"
    ) -> None:
        with ExitStack() as stack:
            opened = http.client.HTTPConnection("127.0.0.1", pod.port, timeout=10)
            self._connection = stack.enter_context(closing(opened))
            self._connection.request("GET", path, headers={"Accept": accept})
            self.response = stack.enter_context(self._connection.getresponse())
            self._stack = stack.pop_all()
        self.lines: list[tuple[float, bytes]] = []
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> "Stream":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection.sock is not None:
            self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._stack.close()

    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(line.removeprefix(b"data: ")) for _, line in self.lines if line.strip()]

    def _read(self) -> None:
        try:
            while line := self.response.readline():
                self.lines.append((time.monotonic(), line))
        except (OSError, http.client.HTTPException, ValueError):
            return


def resident(pod: ElectorPod) -> int:
    """KiB."""
    text = Path(f"/proc/{pod.pid}/status").read_text()
    [kib] = re.findall(r"VmRSS:\s+(\d+) kB", text)
    return int(kib)


def descriptors(pod: ElectorPod) -> int:
    return len(list(Path(f"/proc/{pod.pid}/fd").iterdir()))
