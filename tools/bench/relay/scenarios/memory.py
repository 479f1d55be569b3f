"""Resident memory of a relay: at rest with pods, after every kind of load, at its peak, and what
ten open pages add."""

from dataclasses import replace
from pathlib import Path

from tools.bench import pages
from tools.bench.pace import sleep
from tools.bench.process import KIB, MIB, memory
from tools.bench.progress import say
from tools.bench.relay.scenarios.fanout import HUNDRED, measured
from tools.bench.relay.scenarios.reads import CLIENTS, LISTS, Reading
from tools.bench.relay.world import Pods, World, at
from tools.bench.runner import Options
from tools.bench.samples import OURS, Result, Sample
from tools.harness.pods.relay import RelayProcess

MOST = 10_000
COUNTS = (0, 1000, MOST)
# Of the most, in the watch that is among the loads.
UPDATED = 1000
LOADS = (
    *(reading for reading in LISTS if reading.pods == MOST),
    *(Reading("get", MOST, clients, 0) for clients in CLIENTS),
)
# Until what a start or a list needed for a moment is given back.
SETTLE = 5.0


def memories(world: World, options: Options) -> list[Result]:
    results = []
    for count in COUNTS:
        for name, started in (("", world.relay), ("-kubeconfig", world.relay_of_person)):
            result = Result(f"memory-{count}{name}", OURS)
            for _ in range(options.runs):
                with started() as relay:
                    if count:
                        _hold(world, relay, world.pods(count))
                    sleep(SETTLE)
                    result.samples.append(_sample(relay))
            _say(result)
            results.append(result)
    used = Result("memory-used", OURS)
    for _ in range(options.runs):
        used.samples.append(_after_load(world, options))
    _say(used)
    return [*results, used]


def open_pages(world: World, options: Options) -> list[Result]:
    """Of a relay that holds a thousand pods."""
    costs = []
    for _ in range(options.runs):
        with world.relay() as relay:
            _hold(world, relay, world.pods(COUNTS[1]))
            costs.append(pages.cost(relay.pid, relay.status_port, "relay"))
    return [pages.result("a relay", costs)]


def _say(result: Result) -> None:
    for sample in result.samples:
        said = " ".join(f"{key}={value:.1f}" for key, value in sample.items())
        say(f"{result.scenario}: {said}")


def _hold(world: World, relay: RelayProcess, pods: Pods) -> None:
    """The relay follows these pods from here on."""
    flags = [f"--path={pods.any_version}", f"--expect={pods.count}"]
    world.load.run("first", *at(relay), *flags)


def _after_load(world: World, options: Options) -> Sample:
    """What the other scenarios do to one relay, one after the other, with one set of pods."""
    held = world.pods(MOST)
    with world.relay() as relay:
        _hold(world, relay, held)
        for reading in LOADS:
            flags = [*reading.flags(held), f"--seconds={options.seconds}"]
            world.load.run("fetch", *at(relay), *flags)
        updated = replace(held, count=UPDATED)
        measured(world, HUNDRED, relay, pods=updated, seconds=options.seconds)
        sleep(SETTLE)
        return _sample(relay)


def _sample(relay: RelayProcess) -> Sample:
    """MiB."""
    return {"rss": memory(relay.pid).rss / MIB, "peak": peak(relay.pid) / MIB}


def peak(pid: int) -> int:
    """The largest resident size since the start or `reset_peak`, in bytes (proc(5), VmHWM)."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    [line] = [line for line in text.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * KIB


def reset_peak(pid: int) -> None:
    """proc(5), clear_refs."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")
