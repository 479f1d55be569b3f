"""How long answers take from the moment on in which the link is cut.

Guarantees: requests of every kind go on at a steady pace through the cut, each on a connection of
its own, whatever became of earlier ones; those that were sent before the cut are not counted.
"""

import time

from tools.bench.pace import sleep
from tools.bench.progress import say
from tools.bench.relay.load import Json
from tools.bench.relay.scenarios.recovery import CUTS
from tools.bench.relay.world import Pods, World, at
from tools.bench.runner import Options
from tools.bench.samples import OURS, Result, Sample
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.pods.relay import RelayProcess

PODS = 1000
# Every kind is asked for once in this time.
INTERVAL = "250ms"
BEFORE = 1.0
AFTER = 6.0
ALWAYS = ("list_any_version", "list_not_older_than", "watch_list", "get_any_version")
CONSISTENT = ("list_consistent", "get_consistent")
NANO = 1e9


def answers_while_cut(world: World, options: Options) -> list[Result]:
    results = []
    pods = world.pods(PODS)
    for name in CUTS:
        result = Result(f"offline-{name}", OURS)
        for _ in range(options.runs):
            with FaultProxy(world.plane.port) as link, world.relay(link=link) as relay:
                sample = _run(world, relay, link, pods, name, result)
            result.samples.append(sample)
            said = " ".join(f"{key}={value:.4g}" for key, value in sample.items())
            say(f"{result.scenario}: {said}")
        results.append(result)
    return results


def _paths(pods: Pods, version: str) -> dict[str, str]:
    not_older = f"resourceVersion={version}&resourceVersionMatch=NotOlderThan"
    pod = f"{pods.path}/pod-00000"
    return {
        "list_any_version": f"{pods.path}?resourceVersion=0",
        "list_not_older_than": f"{pods.path}?{not_older}",
        "watch_list": f"{pods.path}?watch=true&sendInitialEvents=true&{not_older}"
        "&allowWatchBookmarks=true&timeoutSeconds=300",
        "get_any_version": f"{pod}?resourceVersion=0",
        "list_consistent": pods.path,
        "get_consistent": pod,
    }


def _run(
    world: World, relay: RelayProcess, link: FaultProxy, pods: Pods, name: str, result: Result
) -> Sample:
    ready = [f"--path={pods.any_version}", f"--expect={pods.count}"]
    world.load.run("first", *at(relay), *ready)
    _, pod = world.plane.admin.get(f"{pods.path}/pod-00000")
    paths = _paths(pods, pod["metadata"]["resourceVersion"])
    asks = [f"--ask={kind}={path}" for kind, path in paths.items()]
    probing = world.load.prepared(
        "probe", *at(relay), *asks, f"--interval={INTERVAL}", f"--seconds={BEFORE + AFTER}"
    )
    with probing:
        probing.go()
        sleep(BEFORE)
        CUTS[name](link)
        cut_at = time.time()
        relay.wait_link(up=False)
        sample = {"noticed": time.time() - cut_at}
        report = probing.finish()
    noticed_at = cut_at + sample["noticed"]
    for kind in paths:
        sent_after = [each for each in report[kind] if each["sentAt"] / NANO > cut_at]
        result.failures += [
            f"{kind}: status {each['status']} after {each['millis']:.0f} ms"
            for each in sent_after
            if each["status"] != 200
        ]
        until, later = _worst(sent_after, noticed_at)
        sample |= {f"{kind}_until_noticed_ms": until, f"{kind}_noticed_ms": later}
    return sample


def _worst(answers: list[Json], noticed_at: float) -> tuple[float, float]:
    """Milliseconds; of those sent until the relay knew of the cut (0: none), and of later ones."""
    until = [each["millis"] for each in answers if each["sentAt"] / NANO <= noticed_at]
    later = [each["millis"] for each in answers if each["sentAt"] / NANO > noticed_at]
    return max(until, default=0.0), max(later)
