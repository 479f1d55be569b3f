"""From exec to the first whole list of 10,000 pods, with and without data, with and without link.

Guarantees: a relay that is started again was killed (SIGKILL), as a node that lost its power does.
Where there is a link, both the relay and who lists directly are next to the API server.
"""

import time

from tools.bench.pace import sleep
from tools.bench.progress import say
from tools.bench.relay.load import LoadFailed
from tools.bench.relay.world import Pods, World
from tools.bench.runner import Options
from tools.bench.samples import OURS, REFERENCE, Result, Sample
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.pods.relay import RelayProcess

PODS = 10_000
# Between a list and the kill: whatever is written late is written.
SETTLE = 1.0
TIMEOUT = "60s"
NANO = 1e9
COLD, RESTART, REFUSED, BLACK_HOLE = (
    "start-cold",
    "start-restart",
    "start-refused",
    "start-black-hole",
)


def starts(world: World, options: Options) -> list[Result]:
    direct = Result(COLD, REFERENCE)
    results = {name: Result(name, OURS) for name in (COLD, RESTART, REFUSED, BLACK_HOLE)}
    pods = world.pods(PODS)
    for _ in range(options.runs):
        direct.samples.append(_list_directly(world, pods, seconds=options.seconds))
        with world.stopped_relay() as relay:
            for name in (COLD, RESTART):
                _try(results[name], world, relay, pods)
                _kill(relay)
        with FaultProxy(world.plane.port) as link, world.stopped_relay(link=link) as relay:
            # What it keeps while it is cut off.
            _start(world, relay, pods)
            _kill(relay)
            for name, cut in ((REFUSED, link.refuse), (BLACK_HOLE, link.black_hole)):
                cut()
                _try(results[name], world, relay, pods)
                _kill(relay)
    for result in (direct, *results.values()):
        for sample in result.samples:
            said = " ".join(f"{key}={value:.3f}" for key, value in sample.items())
            say(f"{result.scenario} {result.side}: {said}")
    return [direct, *results.values()]


def _list_directly(world: World, pods: Pods, *, seconds: float) -> Sample:
    flags = [f"--path={pods.any_version}", f"--expect={pods.count}", f"--seconds={seconds}"]
    report = world.load.run("fetch", *world.direct, *flags)
    return {"first_list": report["latency"]["p50"] / 1000}


def _try(result: Result, world: World, relay: RelayProcess, pods: Pods) -> None:
    try:
        result.samples.append(_start(world, relay, pods))
    except LoadFailed as error:
        result.failures.append(str(error))
        say(f"{result.scenario} FAILED: {error}")


def _kill(relay: RelayProcess) -> None:
    sleep(SETTLE)
    relay.kill()


def _start(world: World, relay: RelayProcess, pods: Pods) -> Sample:
    """Two clients that wait for the process: one for any answer, one for the list."""
    alive = world.load.prepared(
        "first", f"--server=http://127.0.0.1:{relay.status_port}", "--path=/readyz"
    )
    listing = world.load.prepared(
        "first",
        f"--server={relay.url}",
        f"--path={pods.any_version}",
        f"--expect={pods.count}",
        f"--timeout={TIMEOUT}",
    )
    with alive, listing:
        alive.go()
        listing.go()
        started_at = time.time()
        world.start(relay, wait=False)
        return {
            "first_list": listing.finish()["answeredAt"] / NANO - started_at,
            "ready": alive.finish()["answeredAt"] / NANO - started_at,
        }
