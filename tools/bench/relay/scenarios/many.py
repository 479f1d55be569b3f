"""256 streams behind a link that is cut, and how soon all of them are live again.

Guarantee: each stream has a watcher of its own, which stays open over the cut.
"""

import time
from contextlib import ExitStack

from tools.bench.pace import TookTooLong, sleep, wait_for
from tools.bench.process import cpu_seconds
from tools.bench.progress import say
from tools.bench.relay.world import World
from tools.bench.runner import Options
from tools.bench.samples import OURS, Result
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.pods.relay import RelayProcess
from tools.harness.pods.wire.caller import Caller

# As many as --max-streams lets follow upstream.
STREAMS = 256
# Seconds.
SHORT_CUT = 4.0
TIMEOUT = 60.0
# Each look at the status costs the relay some 20 ms of a processor.
POLL_INTERVAL = 0.5


def many_streams(world: World, options: Options) -> list[Result]:
    cuts = {"many-short": SHORT_CUT, "many-long": options.cut}
    results = {name: Result(name, OURS) for name in cuts}
    namespace = world.plane.create_namespace("many")
    for _ in range(options.runs):
        with (
            FaultProxy(world.plane.port) as link,
            world.relay(link=link) as relay,
            ExitStack() as watches,
        ):
            caller = Caller(relay.url)
            for number in range(STREAMS):
                query = {"labelSelector": f"job=j{number}", "resourceVersion": "0"}
                path = f"/api/v1/namespaces/{namespace}/configmaps"
                watches.enter_context(caller.watch(path, query))
            _wait_live(relay)
            for name, seconds in cuts.items():
                _cut(link, relay, results[name], seconds)
    return list(results.values())


def _cut(link: FaultProxy, relay: RelayProcess, result: Result, seconds: float) -> None:
    link.refuse()
    sleep(seconds)
    cpu, connections = cpu_seconds(relay.pid), link.traffic().connections
    began = time.monotonic()
    link.heal()
    try:
        _wait_live(relay)
    except TookTooLong as error:
        result.failures.append(str(error))
        return
    sample = {
        "live": time.monotonic() - began,
        "cpu": cpu_seconds(relay.pid) - cpu,
        "connections": float(link.traffic().connections - connections),
    }
    result.samples.append(sample)
    say(f"{result.scenario}: " + " ".join(f"{key}={value:.4g}" for key, value in sample.items()))


def _wait_live(relay: RelayProcess) -> None:
    def all_live() -> bool:
        states = [it["state"] for it in relay.status()["streams"]]
        return states.count("live") == STREAMS

    wait_for(all_live, timeout=TIMEOUT, what="all streams live", interval=POLL_INTERVAL)
