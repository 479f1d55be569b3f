"""Updates at a steady rate, and how they reach many watchers of one resource.

Guarantees: a watcher that lacks an event, sees one twice or out of order is a failure; what a
relay adds is told event by event, beside a watcher at the API server in the same seconds; the
processor time is that of the relay from the first update to the last event.
"""

from dataclasses import dataclass

from tools.bench.process import cpu_seconds
from tools.bench.progress import say
from tools.bench.relay.load import LoadFailed
from tools.bench.relay.world import Pods, World
from tools.bench.runner import Options
from tools.bench.samples import OURS, REFERENCE, Result, Sample
from tools.harness.pods.relay import RelayProcess

PODS = 1000
# Counted and not timed: buffers, windows and connections get their size.
WARM_UP = 1.0
PER_EVENTS = 100_000


@dataclass(frozen=True)
class Fanout:
    watchers: int
    rate: float

    @property
    def name(self) -> str:
        return f"watch-{self.watchers}-{self.rate:g}"


ONE, TEN, HUNDRED = Fanout(1, 300), Fanout(10, 300), Fanout(100, 300)
# More than most API servers of two cores take.
BUSY = Fanout(10, 600)
FANOUTS = (ONE, TEN, BUSY, HUNDRED, Fanout(500, 60), Fanout(500, 300))
# Whose processor time is judged or told.
COUNTED = (ONE, TEN, BUSY, HUNDRED)


def watches(world: World, options: Options) -> list[Result]:
    return _play(world, options, FANOUTS)


def cpu(world: World, options: Options) -> list[Result]:
    return _play(world, options, COUNTED)


def _play(world: World, options: Options, fanouts: tuple[Fanout, ...]) -> list[Result]:
    results: list[Result] = []
    with world.relay() as relay:
        for fanout in fanouts:
            pair = Result(fanout.name, REFERENCE), Result(fanout.name, OURS)
            for run in range(options.runs):
                for result in pair if run % 2 else reversed(pair):
                    _run(world, options, fanout, relay, result)
            results += pair
    return results


def _run(
    world: World, options: Options, fanout: Fanout, relay: RelayProcess, result: Result
) -> None:
    try:
        watched = relay if result.side == OURS else None
        pods = world.pods(PODS, is_managed=False)
        sample = measured(world, fanout, watched, pods=pods, seconds=options.seconds)
    except (LoadFailed, Disordered) as error:
        result.failures.append(str(error))
        say(f"{fanout.name} {result.side} FAILED: {error}")
        return
    result.samples.append(sample)
    said = " ".join(f"{key}={value:.4g}" for key, value in sample.items())
    say(f"{fanout.name} {result.side}: {said}")


class Disordered(Exception):
    """Not every watcher got every event once and in order."""


def measured(
    world: World, fanout: Fanout, relay: RelayProcess | None, *, pods: Pods, seconds: float
) -> Sample:
    """One run at the relay, or at the API server itself. Raises `LoadFailed`, `Disordered`."""
    watched = world.at_direct() if relay is None else [f"--at-server={relay.url}"]
    watching = world.load.prepared(
        "watch",
        *world.direct,
        *watched,
        f"--namespace={pods.namespace}",
        f"--pods={pods.count}",
        f"--watchers={fanout.watchers}",
        f"--rate={fanout.rate}",
        f"--seconds={seconds}",
        f"--warm-up={WARM_UP}",
        f"--reference={str(relay is not None).lower()}",
    )
    with watching:
        before = cpu_seconds(relay.pid) if relay else 0.0
        report = watching.finish()
        cpu = cpu_seconds(relay.pid) - before if relay else 0.0
    if report["violations"]:
        raise Disordered(f"{report['incomplete']} watchers: {'; '.join(report['violations'][:3])}")
    sample: Sample = {
        "updates_per_second": report["updates"] / report["updateSeconds"],
        "events_per_second": report["delivered"] / report["seconds"],
        "delivered": report["delivered"],
        "late": report["seconds"] - report["updateSeconds"],
    }
    for name, spread in (("delay", report["delay"]), ("added", report["added"])):
        if spread["count"]:
            sample |= {f"{name}_{key}_ms": spread[key] for key in ("p50", "p99", "max")}
    if relay:
        sample["cpu_per_100k"] = cpu / report["delivered"] * PER_EVENTS
        sample["cpu_share"] = cpu / report["seconds"]
        sample["reference_p50_ms"] = report["reference"]["p50"]
    return sample
