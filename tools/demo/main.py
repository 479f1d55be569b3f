"""A complete main container: works only while its elector says that this pod leads.

It knows nothing of Kubernetes, Leases or other pods, only localhost: it follows `/leader` of its
elector, answers `/healthz`, and stops at once when its elector POSTs `/drain`.
Guarantee: a unit of work is begun only before `validUntil` of the last document, by this
machine's CLOCK_BOOTTIME, and never in a term that was drained.
It uses no library, so that it can be copied; `edge_sidecars.leader_client` is the same for programs
in Python. Runs as `python -m tools.demo.main --elector URL --listen HOST:PORT --ledger FILE`.
"""

import argparse
import http.client
import json
import os
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType

# Seconds that one unit of work takes; short, so that an overlap of two mains would show.
WORK_INTERVAL = 0.05
# The elector may start after the main, and may be replaced.
RECONNECT_DELAY = 0.2
# The document comes each second: silence for so long is a frozen elector.
SILENCE_LIMIT = 3.0


def boottime() -> float:
    """The clock of `validUntil`."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Permission:
    """What the elector has allowed, and whether the work of that term was stopped for good."""

    def __init__(self, ledger: Path) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._valid_until = 0.0
        self._token: int | None = None
        self._drained: int | None = None
        self.units = 0

    def is_working(self) -> bool:
        with self._lock:
            return self._may_work()

    def _may_work(self) -> bool:
        is_allowed = self._token is not None and self._token != self._drained
        return is_allowed and boottime() < self._valid_until

    def told(self, document: dict[str, object]) -> None:
        """Takes the newest document of `/leader`."""
        token, valid_until = document["fencingToken"], document["validUntil"]
        with self._lock:
            leads = bool(document["isLeader"]) and isinstance(token, int)
            self._token = token if leads and isinstance(token, int) else None
            self._valid_until = valid_until if isinstance(valid_until, float) else 0.0

    def drain(self) -> None:
        """When this returns, nothing of this term is being done any more."""
        with self._lock:
            self._drained = self._token

    def work(self) -> None:
        """One unit, if allowed: a line in the ledger, with the fencing token of its term."""
        with self._lock:
            if self._may_work():
                with self._ledger.open("a", encoding="ascii") as ledger:
                    ledger.write(f"{self._token}\n")
                self.units += 1


def follow(url: str, permission: Permission) -> None:
    """Reads the elector's documents for ever, over as many connections as it takes."""
    address = url.removeprefix("http://").rstrip("/")
    while True:
        connection = http.client.HTTPConnection(address, timeout=SILENCE_LIMIT)
        try:
            connection.request("GET", "/leader?watch=true")
            for line in connection.getresponse():
                permission.told(json.loads(line))
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            pass  # what was allowed last ends by itself, at validUntil
        finally:
            connection.close()
        time.sleep(RECONNECT_DELAY)


class Answers(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, host: str, port: int, permission: Permission) -> None:
        super().__init__((host, port), Handler)
        self.permission = permission


class Handler(BaseHTTPRequestHandler):
    server: Answers

    def do_GET(self) -> None:
        permission = self.server.permission
        if self.path == "/healthz":
            self._answer(200, {"working": permission.is_working(), "units": permission.units})
        else:
            self._answer(404, {})

    def do_POST(self) -> None:
        if self.path == "/drain":
            self.server.permission.drain()
            self._answer(200, {})
        else:
            self._answer(404, {})

    def _answer(self, status: int, document: dict[str, object]) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Silence: the log is for what goes wrong."""


def end(number: int, frame: FrameType | None) -> None:
    """At once: as soon as the process is gone, so is its work. Not left to the signal's default,
    which the first process of a container does not have."""
    os._exit(0)


def main() -> None:
    signal.signal(signal.SIGTERM, end)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--elector", required=True, metavar="URL", help="http://127.0.0.1:4040")
    parser.add_argument("--listen", required=True, metavar="HOST:PORT")
    parser.add_argument("--ledger", required=True, type=Path, metavar="FILE")
    given = parser.parse_args()
    permission = Permission(given.ledger)
    host, _, port = given.listen.rpartition(":")
    answers = Answers(host, int(port), permission)
    threading.Thread(target=answers.serve_forever, daemon=True).start()
    threading.Thread(target=follow, args=(given.elector, permission), daemon=True).start()
    while True:
        permission.work()
        time.sleep(WORK_INTERVAL)


if __name__ == "__main__":
    main()
