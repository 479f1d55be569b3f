"""A watchdog that tells a process without a processor from one that is wedged."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edge_sidecars.runtime.systemd import Beat, is_wedged

# Seconds that systemd waits.
TIMEOUT = 1.0
# Works on one thing, in its event loop, for so many seconds of a processor; or sleeps there.
_PROGRAM = """
import asyncio, os, sys, time
from edge_sidecars.runtime.systemd import feed_watchdog

def work():
    end = time.thread_time() + float(sys.argv[1])
    while time.thread_time() < end:
        pass
    time.sleep(float(sys.argv[2]))

async def main():
    feeding = asyncio.create_task(feed_watchdog(os.environ))
    await asyncio.sleep(0.5)
    print("begins", flush=True)
    began = time.monotonic()
    work()
    print(time.monotonic() - began, flush=True)
    await asyncio.sleep(0.5)
    feeding.cancel()

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("seconds", "waited", "wedged"),
    [(0.5, 0, False), (6.9, 0, False), (7, 0, True), (60, 55, False), (60, 52, True)],
)
def test_time_without_a_processor_is_not_the_loops_own(
    seconds: float, waited: float, wedged: bool
) -> None:
    assert is_wedged(Beat(100, 3), Beat(100 + seconds, 3 + waited), 7) is wedged


def silence(
    tmp_path: Path, *, work: float, sleep: float, processor: int | None = None
) -> tuple[float, float]:
    """The longest time between two messages, and how long the event loop did one thing; seconds."""
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(address)
        environ = {**os.environ, "NOTIFY_SOCKET": address, "WATCHDOG_USEC": str(int(TIMEOUT * 1e6))}
        environ.pop("WATCHDOG_PID", None)
        pin = [] if processor is None else ["taskset", "-c", str(processor)]
        command = [*pin, sys.executable, "-c", _PROGRAM, str(work), str(sleep)]
        with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as it:
            assert it.stdout is not None
            assert it.stdout.readline() == "begins\n"
            heard.settimeout(0.05)
            longest, last = 0.0, time.monotonic()
            while it.poll() is None:
                try:
                    heard.recv(100)
                except TimeoutError:
                    continue
                longest, last = max(longest, time.monotonic() - last), time.monotonic()
            return max(longest, time.monotonic() - last), float(it.stdout.readline())


@pytest.mark.parametrize(
    ("work", "sleep"),
    [pytest.param(4 * TIMEOUT, 0, marks=pytest.mark.slow), (0, 4 * TIMEOUT)],
)
def test_a_loop_that_spins_or_hangs_falls_silent(tmp_path: Path, work: float, sleep: float) -> None:
    longest, _ = silence(tmp_path, work=work, sleep=sleep)
    assert longest > TIMEOUT


@pytest.mark.long
@pytest.mark.slow
def test_a_loop_that_gets_no_processor_is_not_silent(tmp_path: Path) -> None:
    """Beside programs that keep the same processor busy."""
    processor = min(os.sched_getaffinity(0))
    busy = ["taskset", "-c", str(processor), sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(busy) for _ in range(4)]
    try:
        longest, took = silence(tmp_path, work=TIMEOUT, sleep=0, processor=processor)
        assert took > 3 * TIMEOUT
        # The thread that speaks waits for its turn as well.
        assert longest < took / 2
    finally:
        for each in others:
            each.kill()
            each.wait()
