"""A thousand datasets on one node: their burst, their restart, their statuses, and their rest.

Guarantee: each dataset is a file of a thousand lines, which LC counts as it would in the field, and
every status that is expected was seen in the API.
"""

import time
from collections.abc import Iterable, Sequence

from edge_sidecars.kubeapi import ApiClient
from edge_sidecars.sedna_api.core.kinds import DATASET
from tools.bench import pages
from tools.bench.gm.manifests import dataset, path_of
from tools.bench.gm.world import PATIENCE, REQUEST_TIMEOUT, Fleet, World, is_connected, known
from tools.bench.pace import TookTooLong, sleep, wait_for
from tools.bench.process import MIB
from tools.bench.progress import say
from tools.bench.runner import Options
from tools.bench.samples import Result, Sample
from tools.harness.pods.edge_node import RELAY, EdgeNode

COUNT = 1000
LINES = 1000
# Of them, deleted while there is no GM.
DELETED = 100
NAMES = [f"d-{number:04}" for number in range(COUNT)]
# Seconds until what a start or a burst needed for a moment is given back.
SETTLE = 5.0
BURST, DELETIONS, MEMORY, STATUSES = "burst", "deleted", "lc-memory", "statuses"
RESTARTS = {"online": "restart-online", "offline": "restart-offline"}
IDLE = {"active-standby": "idle-stream", RELAY: "idle-relay"}


def burst(world: World, options: Options) -> list[Result]:
    """From the first create to the last dataset in LC; what did not come in time is lost."""
    result = Result(BURST)
    for _ in range(options.runs):
        with Fleet(world) as fleet:
            [edge] = fleet.edges
            _write(edge, LINES)
            began = time.monotonic()
            fleet.make(dataset(name, edge.name) for name in NAMES)
            created = time.monotonic() - began
            lost = _missing(edge, NAMES)
            seconds = time.monotonic() - began
        result.samples.append({"lost": lost, "created": created, "seconds": seconds})
        _told(result)
    return [result]


def deletions(world: World, options: Options) -> list[Result]:
    """Datasets that were deleted while there was no GM: how long LC has them once it is connected
    again, and how many it keeps."""
    result = Result(DELETIONS)
    for _ in range(options.runs):
        with Fleet(world) as fleet:
            result.samples.append(_deletion(fleet))
        _told(result)
    return [result]


def _deletion(fleet: Fleet) -> Sample:
    [edge], [pod] = fleet.edges, fleet.pods
    names = NAMES[: 2 * DELETED]
    fleet.make(dataset(name, edge.name) for name in names)
    assert not _missing(edge, names)
    pod.kill()
    gone = set(names[:DELETED])
    _delete(fleet.world, fleet.namespace, sorted(gone))
    wait_for(lambda: not is_connected(edge), timeout=PATIENCE, what="the link's end")
    began = time.monotonic()
    pod.restart()
    fleet.wait_connected(edge)
    connected_at = time.monotonic()
    left = _left(edge, gone)
    ended_at = time.monotonic()
    return {
        "left": left,
        "after_connect": ended_at - connected_at,
        "after_start": ended_at - began,
    }


def restarts(world: World, options: Options) -> list[Result]:
    """From exec to all datasets on LC's own endpoint, after SIGKILL: with GM, and cut off."""
    fleet = _stocked(world)
    [edge] = fleet.edges
    results = []
    for way, name in RESTARTS.items():
        result = Result(name)
        for _ in range(options.runs):
            if way == "offline":
                edge.cut()
            edge.lc.kill()
            began = time.monotonic()
            edge.lc.start(wait=False)
            missing = _missing(edge, NAMES)
            result.samples.append({"full": time.monotonic() - began, "missing": missing})
            edge.heal()
            fleet.wait_connected(edge)
            _told(result)
        results.append(result)
    return results


def statuses(world: World, options: Options) -> list[Result]:
    """Counts that gathered while the node was cut off, from the first status that is written to
    the last."""
    fleet = _stocked(world)
    [edge] = fleet.edges
    result = Result(STATUSES)
    for run in range(options.runs):
        edge.cut()
        wait_for(lambda: not is_connected(edge), timeout=PATIENCE, what="the cut")
        lines = LINES + _lines_of(world, fleet) + run + 1
        _write(edge, lines)
        wait_for(
            lambda: edge.lc.status()["reports"]["waiting"] == COUNT,
            timeout=PATIENCE,
            what="reports",
            interval=0.2,
        )
        since = time.time()
        edge.heal()
        _wait_counted(world, fleet, lines)
        written = [
            it
            for it in world.plane.audit(namespace=fleet.namespace, resource="datasets", since=since)
            if it.subresource == "status" and it.status == 200 and it.user_agent.startswith("gm/")
        ]
        seconds = max(it.stage_at for it in written) - min(it.received_at for it in written)
        sample = {"per_second": COUNT / seconds, "writes": len(written), "seconds": seconds}
        result.samples.append(sample)
        _told(result)
    return [result]


def idle(world: World, options: Options) -> list[Result]:
    """Bytes on the node's link while nothing happens, both directions."""
    results = []
    for mode, name in IDLE.items():
        result = Result(name)
        if mode == RELAY:
            with Fleet(world, mode=mode) as fleet:
                _fill(fleet)
                _rest(fleet, result, options)
        else:
            _rest(_stocked(world), result, options)
        results.append(result)
    return results


def memory(world: World, options: Options) -> list[Result]:
    """Of an LC that has counted all lines, and of one that was started again with its data."""
    [edge] = _stocked(world).edges
    result = Result(MEMORY)
    sleep(SETTLE)
    for _ in range(options.runs):
        failures = edge.lc.status()["store"]["failures"]
        result.samples.append({"rss": edge.lc.memory() / MIB, "failures": failures})
        _told(result)
    return [result]


def open_pages(world: World, options: Options) -> list[Result]:
    """Of the GM and the LC of a node with a thousand datasets: new processes each time."""
    costs: dict[str, list[float]] = {"GM": [], "LC": []}
    for _ in range(options.runs):
        with Fleet(world) as fleet:
            _fill(fleet)
            [pod], [edge] = fleet.pods, fleet.edges
            costs["GM"].append(pages.cost(pod.gm.pid, pod.gm.port, "gm"))
            costs["LC"].append(pages.cost(edge.lc.pid, edge.lc.port, "lc"))
    return [pages.result(name, found) for name, found in costs.items()]


# ── inside ──


def _stocked(world: World) -> Fleet:
    return world.kept("stocked", lambda: Fleet(world), fill=_fill)


def _fill(fleet: Fleet) -> None:
    [edge] = fleet.edges
    _write(edge, LINES)
    fleet.make(dataset(name, edge.name) for name in NAMES)
    _wait_counted(fleet.world, fleet, LINES)


def _write(edge: EdgeNode, lines: int) -> None:
    """Files of all datasets; each is new, and counted anew."""
    text = "".join(f"{number},1\n" for number in range(lines))
    for name in NAMES:
        edge.lc.write(path_of(name), text)


def _missing(edge: EdgeNode, names: Sequence[str]) -> int:
    """How many do not come in time."""
    wanted = set(names)
    try:
        wait_for(lambda: wanted <= known(edge), timeout=PATIENCE / 2, what="datasets")
    except TookTooLong:
        return len(wanted - known(edge))
    return 0


def _left(edge: EdgeNode, gone: set[str]) -> int:
    """How many do not go in time."""
    try:
        wait_for(lambda: not gone & known(edge), timeout=PATIENCE / 4, what="deletions")
    except TookTooLong:
        return len(gone & known(edge))
    return 0


def _delete(world: World, namespace: str, names: Iterable[str]) -> None:
    async def delete(api: ApiClient) -> None:
        for name in names:
            path = DATASET.path(namespace, name)
            await api.request("DELETE", path, timeout=REQUEST_TIMEOUT, pooled=True)

    world.play(delete)


def _counts(world: World, fleet: Fleet) -> list[int]:
    """As the API has them."""

    async def read(api: ApiClient) -> list[int]:
        path = DATASET.collection(fleet.namespace)
        found = await api.request("GET", path, timeout=REQUEST_TIMEOUT)
        return [it.get("status", {}).get("numberOfSamples", -1) for it in found["items"]]

    return world.play(read)


def _wait_counted(world: World, fleet: Fleet, lines: int) -> None:
    """Until every status says so."""
    wait_for(
        lambda: _counts(world, fleet) == [lines] * COUNT,
        timeout=PATIENCE,
        what=f"{COUNT} statuses of {lines}",
        interval=0.5,
    )


def _lines_of(world: World, fleet: Fleet) -> int:
    """More than a thousand."""
    return max(_counts(world, fleet)) - LINES


def _rest(fleet: Fleet, result: Result, options: Options) -> None:
    [edge] = fleet.edges
    for _ in range(options.runs):
        wait_for(lambda: _is_at_rest(fleet), timeout=PATIENCE, what="rest", interval=0.5)
        sleep(SETTLE)
        before = edge_bytes(edge)
        sleep(options.seconds)
        rate = (edge_bytes(edge) - before) / options.seconds
        result.samples.append({"bytes_per_second": rate})
        _told(result)


def _is_at_rest(fleet: Fleet) -> bool:
    """What was counted stands in statuses, and has left the NodeReport, which travels too."""
    backlog = fleet.pods[0].gm.status()["backlog"]
    waiting = fleet.edges[0].lc.status()["reports"]["waiting"]
    return not waiting and not any(backlog.values())


def edge_bytes(edge: EdgeNode) -> int:
    """What went over the node's links up to now, both directions."""
    found = [link.traffic() for link in edge.links]
    return sum(it.request_bytes + it.response_bytes for it in found)


def _told(result: Result) -> None:
    said = " ".join(f"{key}={value:.3g}" for key, value in result.samples[-1].items())
    say(f"{result.scenario}: {said}")
