"""The aggregation worker of a FederatedLearningJob: averages weights, weighed by samples.

`POST /rounds/N` is answered when all PARTICIPANTS_COUNT workers have sent theirs for round N; a
worker that repeats itself, as after a lost answer, gets the same average again. It ends when every
worker has got the last round's.
"""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
import logistic

ROUNDS = int(os.environ.get("ROUNDS", "5"))
PARTICIPANTS = int(os.environ["PARTICIPANTS_COUNT"])
# Seconds that a worker waits for the others.
ROUND_TIMEOUT = 110.0


class Rounds:
    """What each worker sent, per round."""

    def __init__(self) -> None:
        self._sent: dict[int, dict[str, tuple[logistic.Weights, int]]] = {}
        self._served: set[str] = set()
        self._changed = threading.Condition()

    def average(
        self, number: int, worker: str, weights: logistic.Weights, count: int
    ) -> logistic.Weights | None:
        """None where the others did not come in time."""
        with self._changed:
            sent = self._sent.setdefault(number, {})
            sent.setdefault(worker, (weights, count))
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: len(sent) >= PARTICIPANTS, ROUND_TIMEOUT):
                return None
            total = sum(count for _, count in sent.values()) or 1
            return [
                sum(each[index] * count for each, count in sent.values()) / total
                for index in range(len(weights))
            ]

    def served(self, number: int, worker: str) -> bool:
        """Whether that was the last answer of all: true once."""
        with self._changed:
            if number != ROUNDS or worker in self._served:
                return False
            self._served.add(worker)
            return len(self._served) == PARTICIPANTS


class Handler(BaseHTTPRequestHandler):
    rounds = Rounds()

    def do_POST(self) -> None:
        try:
            number = int(self.path.removeprefix("/rounds/"))
            said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            worker, weights, count = said["worker"], said["weights"], said["samples"]
        except (KeyError, TypeError, ValueError):
            self.send_error(400)
            return
        averaged = self.rounds.average(number, worker, weights, count)
        if averaged is None:
            self.send_error(503, "the others did not come in time")
            return
        body = json.dumps({"weights": averaged}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        if self.rounds.served(number, worker):
            if os.environ.get("MODEL_URL"):
                logistic.write_model(Path(os.environ["MODEL_URL"]), averaged)
            threading.Thread(target=self.server.shutdown).start()

    def log_message(self, format: str, *args: object) -> None:
        print(format % args, flush=True)


def main() -> None:
    address = (os.environ.get("AGG_BIND_IP", "0.0.0.0"), int(os.environ["AGG_BIND_PORT"]))
    with ThreadingHTTPServer(address, Handler) as server:
        print(f"waiting for {PARTICIPANTS} workers on {address[0]}:{address[1]}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
