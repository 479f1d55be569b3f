"""The federated example's aggregator ends, with the model on disk, however its workers come."""

import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.harness.controlplane.reservation import LOOPBACK, Reservation

ROOT = Path(__file__).parents[3]
# Enough for their last answers to meet.
WORKERS = 8
# Seconds, on a busy machine.
PATIENCE = 30.0


def _exchange(port: int, worker: int) -> None:
    """Its weights are its number; again until the aggregator listens."""
    body = json.dumps({"worker": f"w{worker}", "weights": [worker], "samples": 1}).encode()
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            url = f"http://{LOOPBACK}:{port}/rounds/1"
            with urllib.request.urlopen(url, body, timeout=PATIENCE) as answer:
                assert json.load(answer)["weights"] == [(WORKERS - 1) / 2]
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


@pytest.fixture
def port() -> Iterator[int]:
    """Nobody else is given it."""
    held = Reservation()
    yield held.port
    held.release()


def test_the_aggregator_ends_when_all_workers_get_their_last_answer_at_once(
    tmp_path: Path, port: int
) -> None:
    model = tmp_path / "model.json"
    process = subprocess.Popen(
        [sys.executable, "federated/aggregator.py"],
        cwd=ROOT / "examples",
        env={
            "PATH": "/usr/bin:/bin",
            "ROUNDS": "1",
            "PARTICIPANTS_COUNT": str(WORKERS),
            "AGG_BIND_IP": LOOPBACK,
            "AGG_BIND_PORT": str(port),
            "MODEL_URL": str(model),
        },
        stdout=subprocess.DEVNULL,
    )
    try:
        threads = [threading.Thread(target=_exchange, args=(port, it)) for it in range(WORKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert process.wait(PATIENCE) == 0
        assert json.loads(model.read_text(encoding="utf-8"))["weights"] == [(WORKERS - 1) / 2]
    finally:
        process.kill()
        process.wait()
