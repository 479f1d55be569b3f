"""Plays fault scenarios many times, several of them and both sides beside each other.

Guarantees: each run starts from a steady leader and a whole network; a run whose condition did
not come true in time is kept as a failure with its reason; two holders at once are looked for in
every run.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace

from tools.bench.elector.poller import Contender, Poller
from tools.bench.elector.side import Setup, Side, World
from tools.bench.elector.timeline import overlap
from tools.bench.pace import TookTooLong, stop
from tools.bench.progress import say
from tools.bench.samples import Result, Sample

Play = Callable[[Side, Contender], Sample]

# Replies at 20 ms where few pods are asked; else the poller itself would be in the way.
FINE_INTERVAL = 0.02
COARSE_INTERVAL = 0.05
FEW_PODS = 12


@dataclass(frozen=True)
class Scenario:
    """`play` gets a side and its steady leader."""

    name: str
    play: Play
    setups: tuple[Setup, ...]


def play_beside(world: World, scenarios: Sequence[Scenario], *, runs: int) -> list[Result]:
    """All at the same time, each side at its own pace."""
    pods = sum(setup.replicas for scenario in scenarios for setup in scenario.setups)
    interval = FINE_INTERVAL if pods <= FEW_PODS else COARSE_INTERVAL
    beside = ", ".join(scenario.name for scenario in scenarios)
    facts = {"beside": f"{beside} (polled every {interval * 1000:g} ms)"}
    jobs = [(scenario, setup) for scenario in scenarios for setup in scenario.setups]
    say(f"{beside}: {len(jobs)} Leases, {pods} pods, polled every {interval * 1000:g} ms")
    with Poller(interval=interval) as poller, ThreadPoolExecutor(len(jobs)) as threads:
        polled = replace(world, poller=poller)
        results = [Result(scenario.name, setup.kind, facts=facts) for scenario, setup in jobs]
        futures = [
            threads.submit(_play_side, polled, scenario, setup, result, runs)
            for (scenario, setup), result in zip(jobs, results, strict=True)
        ]
        with ExitStack() as stack:
            # The other threads are not waited for where one has failed.
            stack.callback(stop)
            for future in futures:
                future.result()
            stack.pop_all()
    return results


def _play_side(world: World, scenario: Scenario, setup: Setup, result: Result, runs: int) -> None:
    with Side(world, setup) as side:
        for run in range(1, runs + 1):
            try:
                sample = _play_once(side, scenario.play)
            except TookTooLong as error:
                result.failures.append(f"run {run}: {error}")
                say(f"{scenario.name} {side.kind} run {run} FAILED: {error}")
                continue
            result.samples.append(sample)
            told = " ".join(f"{key}={value:.3g}" for key, value in sample.items())
            say(f"{scenario.name} {side.kind} run {run}/{runs}: {told}")


def _play_once(side: Side, play: Play) -> Sample:
    side.forget()
    leader = side.steady()
    sample = play(side, leader)
    # From before the fault on: the term of who is frozen at once began there.
    seen = overlap(side.replies(since=0.0))
    return {**sample, "overlap": seen.seconds, "stale": float(seen.count)}
