"""Members come and go: for how long is a shard nobody's, and how many move."""

import threading
import time
from collections.abc import Callable
from typing import Any

from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.sharded import ShardedFleet, owned, release, shards

DEFAULTS: tuple[str, ...] = ()
SETTLE = 5.0
# Seconds from one look at all members to the next, as far as this machine keeps up.
POLL = 0.01
TIMEOUT = 60.0


def unowned_after(act: Callable[[], None], members: list[ElectorPod], count: int) -> float:
    """Seconds from the act until all shards are owned by these members."""
    begun = time.monotonic()
    act()
    while sum(len(owned(pod)) for pod in members) < count:
        if time.monotonic() - begun > TIMEOUT:
            raise AssertionError(f"shards unowned after {TIMEOUT:g} s")
        time.sleep(POLL)
    return time.monotonic() - begun


class ConfirmingMain(threading.Thread):
    """A main that follows the documents, and confirms at once what is handed over, or never."""

    def __init__(self, pod: ElectorPod, *, confirms: bool) -> None:
        super().__init__(daemon=True)
        self._pod = pod
        self._confirms = confirms
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                document = shards(self._pod, promise=True)
            except AssertionError:
                return
            for it in document["handingOver"] if self._confirms else ():
                release(self._pod, it["shard"], it["fencingToken"])
            time.sleep(POLL)

    def end(self) -> None:
        self._ended.set()
        self.join(TIMEOUT)


def scale_up(fleet: ShardedFleet, members: list[ElectorPod], *, confirms: bool) -> dict[str, float]:
    """A member more: for how many seconds a shard that moved had no owner, at most, and how many
    moved. From the last look that found it with its old owner to the first with the new one."""
    before = {shard: pod.name for pod in members for shard in owned(pod)}
    mains = [ConfirmingMain(pod, confirms=confirms) for pod in members]
    for main in mains:
        main.start()
    joined = fleet.join("--shard-settle", f"{SETTLE:g}s", timing=DEFAULTS)
    everybody = [*members, joined]
    last_seen: dict[int, float] = {}
    first_seen: dict[int, float] = {}
    begun, is_even = time.monotonic(), False
    while not is_even:
        if time.monotonic() - begun > TIMEOUT + SETTLE:
            raise AssertionError("the new member did not get its share")
        time.sleep(POLL)
        shares = []
        for pod in everybody:
            asked = time.monotonic()
            mine = owned(pod)
            shares.append(len(mine))
            for shard in mine:
                if pod.name == before[shard]:
                    last_seen[shard] = asked
                else:
                    first_seen.setdefault(shard, time.monotonic())
        is_even = sum(shares) == fleet.shards and max(shares) - min(shares) <= 1
    for main in mains:
        main.end()
    gaps = [first_seen[shard] - last_seen[shard] for shard in first_seen]
    return {"seconds": max(gaps), "moved": float(len(first_seen))}


def requests(pod: ElectorPod) -> float:
    """To the API server, since the process began."""
    answer: Any = pod.ask("/metrics")
    lines = answer.body.decode().splitlines()
    sent = [it for it in lines if it.startswith("elector_api_requests_total") and '"sent"' in it]
    return sum(float(line.rpartition(" ")[2]) for line in sent)
