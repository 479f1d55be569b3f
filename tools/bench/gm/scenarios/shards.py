"""A thousand jobs through three GMs that all decide, and through three of which one leads.

Guarantee: both sides do the same, one right after the other; processor time is counted by the
kernel, from before the first job to when nothing is left to be decided or told.
"""

import time

from tools.bench.gm.scenarios.jobs import FL, IL, MANY, PATIENCE, observer, unmade
from tools.bench.gm.world import Fleet, World
from tools.bench.pace import TookTooLong, wait_for
from tools.bench.process import cpu_seconds
from tools.bench.progress import say
from tools.bench.runner import Options
from tools.bench.samples import OURS, REFERENCE, Result, Sample
from tools.harness.pods.gm import SHARDS, GmPod

SHARES = "shards"
GMS = 3


def shares(world: World, options: Options) -> list[Result]:
    """The sides take turns at being first: a machine may become slower with time."""
    results = {side: Result(SHARES, side) for side in (OURS, REFERENCE)}
    for run in range(options.runs):
        sides = [OURS, REFERENCE] if run % 2 else [REFERENCE, OURS]
        samples: dict[str, Sample] = {}
        try:
            for side in sides:
                samples[side] = _sample(world, has_shards=side == OURS)
                said = " ".join(f"{key}={value:.3g}" for key, value in samples[side].items())
                say(f"{SHARES} {side}: {said}")
        except TookTooLong as error:
            results[OURS].failures.append(str(error))
            say(f"{SHARES} FAILED: {error}")
            continue
        for side, sample in samples.items():
            results[side].samples.append(sample)
    return list(results.values())


def _sample(world: World, *, has_shards: bool) -> Sample:
    with (
        Fleet(world, gms=GMS, edges=0, is_linked=False, has_shards=has_shards) as fleet,
        observer(fleet) as api_observer,
    ):
        fleet.stock()
        if has_shards:
            wait_for(lambda: _is_even(fleet), timeout=PATIENCE, what="even shares")
        half = MANY // 2
        before = [_spent(pod) for pod in fleet.pods]
        began = time.monotonic()
        fleet.make([*FL.jobs(half, fleet.nodes[0]), *IL.jobs(half, fleet.nodes[0])])
        lost = unmade(api_observer, {FL: half, IL: half})
        seconds = time.monotonic() - began
        wait_for(lambda: _is_at_rest(fleet), timeout=PATIENCE, what="rest", interval=0.5)
        spent = [
            (after[0] - was[0], after[1] - was[1])
            for was, after in zip(before, map(_spent, fleet.pods), strict=True)
        ]
        return {
            "busiest": max(gm for gm, _ in spent),
            "all": sum(gm for gm, _ in spent),
            "pod": max(gm + sidecars for gm, sidecars in spent),
            "seconds": seconds,
            "lost": lost,
            "doubled": len(api_observer.doubled),
        }


def _spent(pod: GmPod) -> tuple[float, float]:
    """Seconds of gm, and of its sidecars."""
    return cpu_seconds(pod.gm.pid), cpu_seconds(pod.elector.pid) + cpu_seconds(pod.relay.pid)


def _is_even(fleet: Fleet) -> bool:
    found = [pod.gm.status()["shards"] for pod in fleet.pods]
    owned = [0 if it is None else len(it["owned"]) for it in found]
    return sum(owned) == SHARDS and max(owned) - min(owned) <= 1


def _is_at_rest(fleet: Fleet) -> bool:
    """Nothing is to be decided or told by anybody."""
    backlogs = [pod.gm.status()["backlog"] for pod in fleet.pods]
    return not any(it["objects"] or it["events"] for it in backlogs)
