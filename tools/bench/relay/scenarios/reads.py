"""LIST and GET at full speed, while the listed set changes.

Guarantees: both sides are asked for the same, one after the other, in turn who is first; whoever
answers has answered before; answers that go back in time are failures. Processor time is that of
who answers, for the API server with what 10 updates a second cost it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tools.bench.process import cpu_seconds
from tools.bench.progress import say
from tools.bench.relay.load import LoadFailed
from tools.bench.relay.world import Pods, World, at
from tools.bench.runner import Options
from tools.bench.samples import OURS, REFERENCE, Result, Sample

CLIENTS = (1, 16)
SIZES = (1000, 10_000)
# Updates a second in the listed set.
UPDATE_RATE = 10.0
# Long enough for any measurement; the updater is stopped when that is over.
UPDATE_SECONDS = 3600.0
PROTOBUF = "application/vnd.kubernetes.protobuf"


@dataclass(frozen=True)
class Reading:
    """What is asked by how many clients; `items`: of the list, 0 for a single pod."""

    name: str
    pods: int
    clients: int
    items: int
    is_gzipped: bool = False
    sides: tuple[str, ...] = (REFERENCE, OURS)
    accept: str = "application/json"
    # Whether somebody lists the pods at the relay, which follows them from then on.
    is_listed: bool = True
    # "" is a consistent read: what kubectl and the Python client ask for.
    version: str = "0"
    query: str = ""

    def flags(self, pods: Pods) -> list[str]:
        path = f"{pods.path}/pod-00000" if not self.items else pods.path
        return [
            f"--path={path}?resourceVersion={self.version}{self.query}",
            f"--accept={self.accept}",
            f"--clients={self.clients}",
            f"--gzip={str(self.is_gzipped).lower()}",
            f"--expect={self.items}",
        ]


LISTS = tuple(
    Reading(f"list-{size}-{clients}{'-gzip' if gzip else ''}", size, clients, size, is_gzipped=gzip)
    for size in SIZES
    for gzip in (False, True)
    for clients in CLIENTS
)
# What client-go's typed clients ask kube-apiserver for; a relay answers them in JSON.
LISTS_IN_PROTOBUF = tuple(
    Reading(
        f"list-{size}-{clients}-protobuf", size, clients, size, sides=(REFERENCE,), accept=PROTOBUF
    )
    for size in SIZES
    for clients in CLIENTS
)
GETS = tuple(Reading(f"get-{clients}", SIZES[0], clients, 0) for clients in CLIENTS)
# Nothing but these GETs is asked for: a relay passes them on.
GETS_UNLISTED = tuple(
    Reading(f"get-{clients}-unlisted", 10, clients, 0, is_listed=False) for clients in CLIENTS
)
GETS_OF_CALLERS = tuple(
    Reading(f"get-{clients}-caller", SIZES[0], clients, 0) for clients in CLIENTS
)
# Consistent reads, which a relay asks upstream for.
NEWEST = tuple(
    Reading(f"{kind}-{clients}-newest", SIZES[0], clients, items, version="")
    for kind, items in (("list-1000", SIZES[0]), ("get", 0))
    for clients in CLIENTS
)


def lists(world: World, options: Options) -> list[Result]:
    return read(world, options, [*LISTS, *LISTS_IN_PROTOBUF])


def gets(world: World, options: Options) -> list[Result]:
    return read(world, options, [*GETS, *GETS_UNLISTED])


def newest(world: World, options: Options) -> list[Result]:
    return read(world, options, NEWEST)


def of_callers(world: World, options: Options) -> list[Result]:
    """The relay asks upstream who each caller is, and what it may."""
    return read(world, options, GETS_OF_CALLERS, is_for_callers=True)


@dataclass(frozen=True)
class _Target:
    """Whom to ask: flags of the load program; whose processor time it costs."""

    flags: list[str]
    pid: int


def read(
    world: World,
    options: Options,
    readings: Sequence[Reading],
    *,
    is_for_callers: bool = False,
) -> list[Result]:
    results = {
        (reading.name, side): Result(reading.name, side)
        for reading in readings
        for side in reading.sides
    }
    with world.relay(flags=["--access=caller"] if is_for_callers else []) as relay:
        caller = world.as_caller() if is_for_callers else []
        targets = {
            REFERENCE: _Target(world.direct, world.plane.apiserver_pid),
            OURS: _Target([*at(relay), *caller], relay.pid),
        }
        for run in range(options.runs):
            for reading in readings:
                for side in reading.sides if run % 2 else reversed(reading.sides):
                    result = results[reading.name, side]
                    _measure(world, options, reading, targets[side], result)
    return list(results.values())


def _measure(
    world: World, options: Options, reading: Reading, target: _Target, result: Result
) -> None:
    pods = world.pods(reading.pods)
    if reading.is_listed:
        first = [f"--path={pods.any_version}", f"--expect={pods.count}"]
        world.load.run("first", *target.flags, *first)
    updating = world.load.prepared(
        "update",
        *world.direct,
        f"--namespace={pods.namespace}",
        f"--pods={pods.count}",
        f"--rate={UPDATE_RATE}",
        f"--seconds={UPDATE_SECONDS}",
    )
    with updating:
        updating.go()
        try:
            flags = [*reading.flags(pods), f"--seconds={options.seconds}"]
            with world.load.prepared("fetch", *target.flags, *flags) as fetching:
                before = cpu_seconds(target.pid)
                report = fetching.finish()
                cpu = cpu_seconds(target.pid) - before
        except LoadFailed as error:
            result.failures.append(str(error))
            say(f"{reading.name} {result.side} FAILED: {error}")
            return
        finally:
            updating.stop()
    sample: Sample = {
        "per_second": report["requests"] / report["seconds"],
        "p50_ms": report["latency"]["p50"],
        "p99_ms": report["latency"]["p99"],
        "bytes": report["bytes"],
        "cpu_ms": cpu / report["requests"] * 1000,
    }
    if report["backwards"]:
        result.failures.append(f"{report['backwards']} answers went back in time")
    result.samples.append(sample)
    said = " ".join(f"{key}={value:.4g}" for key, value in sample.items())
    say(f"{reading.name} {result.side}: {said}")
