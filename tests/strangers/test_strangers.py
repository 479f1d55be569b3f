"""L1: who has shown no credentials costs a component nothing that lasts (limits.md, section 5)."""

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.strangers.floods import FLOODS, Flood
from tests.strangers.targets import TARGETS, Running, Target, running
from tools.harness.controlplane.reservation import LOOPBACK

# MiB that may stay after five floods (L1).
LASTING = 4.0
# MiB, the limit of the smallest manifest, the elector's.
MANIFEST = 96.0
ROUNDS = 5
# Seconds in which what is left of a flood is gone: heads have ten.
SOON = 20.0
# Seconds of a test: of 5,000 connections most wait for a second each until their SYN is repeated.
LONGEST = 900
# One for each listener in `make test-long`.
QUICK = "head of a megabyte"
# Seconds of the main's own requests at p99, and times what they take on this machine without.
SLOWEST, TIMES = 0.05, 5.0


@contextmanager
def peak_of(it: Running) -> Iterator[list[float]]:
    """The most that it had in the block, first of the list."""
    found, is_over = [it.resident], threading.Event()

    def look() -> None:
        while not is_over.wait(0.02):
            found[0] = max(found[0], it.resident)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        is_over.set()
        thread.join()


def p99_of_main(it: Running, until: threading.Event) -> float:
    """Of requests over one kept connection, as the main's are."""
    connection = http.client.HTTPConnection(LOOPBACK, it.main, timeout=30)
    took: list[float] = []
    while not until.is_set() or len(took) < 100:
        began = time.monotonic()
        connection.request("GET", "/livez")
        with connection.getresponse() as answer:
            answer.read()
            assert answer.status == 200
        took.append(time.monotonic() - began)
        time.sleep(0.005)
    connection.close()
    return sorted(took)[int(len(took) * 0.99)]


def played(it: Running, flood: Flood, rounds: int) -> None:
    # What the first requests of all need stays: it is no flood's.
    flood(it.flooded)
    time.sleep(1.0)
    before, descriptors = it.resident, it.descriptors
    with peak_of(it) as peak:
        for _ in range(rounds):
            flood(it.flooded)
    deadline = time.monotonic() + SOON
    while it.resident > before + LASTING or it.descriptors > descriptors + 2:
        assert time.monotonic() < deadline, (before, it.resident, descriptors, it.descriptors)
        time.sleep(0.2)
    assert it.is_live()
    assert peak[0] < before + MANIFEST
    said = it.log.read_text(encoding="utf-8")
    assert "Traceback" not in said
    assert said.count("what came is no request") <= 3


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_l1_a_flood_of_long_heads_leaves_no_trace(target: Target) -> None:
    with running(target) as it:
        played(it, FLOODS[QUICK], ROUNDS)
        # Over TLS and gRPC what comes is no handshake.
        is_http = target not in (TARGETS["relay, API over TLS"], TARGETS["gm, gRPC"])
        if target.figures and is_http:
            assert (it.refused() or 0) > 0


@pytest.mark.slow
@pytest.mark.manual
@pytest.mark.timeout(LONGEST)
@pytest.mark.parametrize("flood", [it for it in FLOODS if it != QUICK])
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_l1_no_flood_leaves_a_trace(target: Target, flood: str) -> None:
    with running(target) as it:
        played(it, FLOODS[flood], 2)


@pytest.mark.slow
@pytest.mark.manual
@pytest.mark.timeout(LONGEST)
@pytest.mark.parametrize("flood", FLOODS)
def test_l1_the_main_does_not_wait_for_strangers_at_another_listener(flood: str) -> None:
    with running(TARGETS["elector, probes"]) as it:
        done = threading.Event()
        done.set()
        quiet = p99_of_main(it, done)
        done.clear()
        found: list[float] = []
        asking = threading.Thread(target=lambda: found.append(p99_of_main(it, done)))
        asking.start()
        FLOODS[flood](it.flooded)
        done.set()
        asking.join()
        assert found[0] <= max(SLOWEST, TIMES * quiet)
