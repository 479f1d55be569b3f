"""Members come and go: for how long is a shard nobody's, and how many move."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from tools.bench.shards.followed import Followed, following, gaps
from tools.harness.controlplane.clients.answer import boottime
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.shards.sharded import ShardedFleet

DEFAULTS: tuple[str, ...] = ()
SETTLE = 5.0
# Seconds between two looks at what the streams brought.
POLL = 0.01
TIMEOUT = 60.0


def unowned_after(
    act: Callable[[], None], leaving: ElectorPod, staying: list[ElectorPod], count: int
) -> float:
    """Seconds from the act upon the one until all shards are owned by the others; the main of each
    confirms what it hands over."""
    with following([leaving, *staying], confirms=True) as (_, *members):
        begun = boottime()
        act()
        _wait(lambda: sum(len(it.owned) for it in members) == count, TIMEOUT)
        return max(it.history[-1].since for it in members) - begun


def scale_up(fleet: ShardedFleet, members: list[ElectorPod], *, confirms: bool) -> dict[str, float]:
    """A member more: for how many seconds a shard that moved had no owner, at most, and how many
    moved."""
    with following(members, confirms=confirms) as before:
        joined = fleet.join("--shard-settle", f"{SETTLE:g}s", timing=DEFAULTS)
        with Followed(joined, confirms=confirms) as new:
            everybody = [*before, new]
            _wait(lambda: _is_even(everybody, fleet.shards), TIMEOUT + SETTLE)
    moved = gaps(it.history for it in everybody)
    return {"seconds": max(moved.values()), "moved": float(len(moved))}


def _is_even(members: Sequence[Followed], count: int) -> bool:
    shares = [len(it.owned) for it in members]
    return sum(shares) == count and max(shares) - min(shares) <= 1


def _wait(is_done: Callable[[], bool], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while not is_done():
        if time.monotonic() > deadline:
            raise AssertionError(f"shards are without an owner after {timeout:g} s")
        time.sleep(POLL)


def requests(pod: ElectorPod) -> float:
    """To the API server, since the process began."""
    answer: Any = pod.ask("/metrics")
    lines = answer.body.decode().splitlines()
    sent = [it for it in lines if it.startswith("elector_api_requests_total") and '"sent"' in it]
    return sum(float(line.rpartition(" ")[2]) for line in sent)
