"""What is measured on a cluster of real nodes: two behind relays, one that asks the API server
itself and is the reference."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from tools.bench.progress import say
from tools.bench.runner import Options
from tools.bench.samples import Result
from tools.harness.nodes import storage
from tools.harness.nodes.busy import spend_half_a_day
from tools.harness.nodes.cluster import NodeCluster
from tools.harness.nodes.node import Node
from tools.harness.nodes.workloads import PLAIN, RELAYED

# Seconds for which a node is away: for the first the control plane takes it for Ready throughout,
# for the second it does not, and its pods are not evicted yet (after 351).
SHORT_CUT, LONG_CUT = 30.0, 300.0
# Until the pods of a node that is Ready again are, too: kubelet tells the API each 10 s.
TOLD = 12.0
# Pods of the workloads for each node, with which it has ten.
DESKS = 6
# Seconds after which a cluster that nobody touches is at rest: first lists, events, statuses.
SETTLING = 45.0
# Seconds of a relay's life until its wide streams serve what narrow ones did, and streams of pods
# from before it are closed: --idle-timeout, and the minutes in which these pods end.
SHARED = 780.0
# Seconds between two looks, where moments count.
QUICKLY = 0.05
HOUR = 3600.0
_KILOBYTE = 1024.0


def reboots(cluster: NodeCluster, options: Options) -> list[Result]:
    """Both nodes lose power while cut; then the link is back. Before each of these, half a day of
    Events, and of what others read by name, goes through each relay. Among the pods are some with
    claims on a CSI driver."""
    result = Result("reboot")
    with cluster.more(storage.objects(RELAYED), pods=map(storage.pod_name, RELAYED)):
        for number in range(options.runs):
            spend_half_a_day(cluster)
            result.samples.append(_reboot(cluster))
            say(f"reboot {number + 1}: {result.samples[-1]}")
    return [result]


def _reboot(cluster: NodeCluster) -> dict[str, float]:
    wanted = cluster.pods()
    theirs = [it for it in wanted.values() if it.node in RELAYED]
    for name in RELAYED:
        cluster.until_doctor_finds_nothing(name)
    with cluster.cut(*RELAYED):
        back = cluster.reboot(*RELAYED, until=lambda: cluster.are_back(theirs))
        containers = cluster.containers()
    cluster.until(cluster.is_up_to_date, what="the control plane knows what runs")
    cluster.until(lambda: not cluster.faults(wanted.values()), what="all answer after the heal")
    restarted = sum(len(ids - containers[name]) for name, ids in cluster.containers().items())
    return {"back": back, "restarted": float(restarted)}


def heals(cluster: NodeCluster, options: Options) -> list[Result]:
    """One node behind a relay and the one without are cut off, then the link of the one without is
    back, and then the other's: after a short cut, and after a long one."""
    result = Result("heal")
    for number in range(options.runs):
        name = RELAYED[number % len(RELAYED)]
        result.samples.append(_short_cut(cluster, name) | _long_cut(cluster, name))
        say(f"heal {number + 1}: {result.samples[-1]}")
    return [result]


def _short_cut(cluster: NodeCluster, name: str) -> dict[str, float]:
    """Until each node renews its Lease."""
    with _cut(cluster.nodes[name]):
        with _cut(cluster.nodes[PLAIN]):
            time.sleep(SHORT_CUT)
            old = {it: cluster.renewed(it) for it in (name, PLAIN)}
        plain = _seconds_until(cluster, lambda: cluster.renewed(PLAIN) != old[PLAIN])
    ours = _seconds_until(cluster, lambda: cluster.renewed(name) != old[name])
    return {"renewed": ours, "renewed_plain": plain}


def _long_cut(cluster: NodeCluster, name: str) -> dict[str, float]:
    """The node without a relay is back first. All is good once the other is Ready, the pods are
    those of before and ready, and all answer from everywhere."""
    wanted, containers = cluster.pods(), cluster.containers()
    with _cut(cluster.nodes[name]):
        with _cut(cluster.nodes[PLAIN]):
            time.sleep(LONG_CUT)
            assert not {name, PLAIN} & cluster.ready()
        plain = _seconds_until(cluster, lambda: PLAIN in cluster.ready())
        time.sleep(TOLD)
    started = time.monotonic()
    ready = _seconds_until(cluster, lambda: name in cluster.ready())
    cluster.until(lambda: cluster.are_ready(wanted), what="all pods are ready", every=QUICKLY)
    cluster.until(lambda: not cluster.faults(wanted.values()), what="all answer", every=QUICKLY)
    good = time.monotonic() - started
    # What restarted, and what was evicted.
    restarted = sum(len(ids - cluster.nodes[it].containers()) for it, ids in containers.items())
    return {
        "ready": ready,
        "ready_plain": plain,
        "good": good,
        "restarted": float(restarted),
    }


@contextmanager
def _cut(node: Node) -> Iterator[None]:
    node.cut()
    try:
        yield
    finally:
        node.heal()


def _seconds_until(cluster: NodeCluster, is_so: Callable[[], bool]) -> float:
    """From now."""
    started = time.monotonic()
    cluster.until(is_so, what="the node is heard again", every=QUICKLY)
    return time.monotonic() - started


def rest(cluster: NodeCluster, options: Options) -> list[Result]:
    """Nothing happens, with ten pods on each node: what the relay takes, and what passes between
    each node and the API server, an hour. Before, with five or six: streams to the API server.
    After: memory of a relay that keeps no Secrets."""
    result = Result("rest")
    for node in cluster.relayed:
        cluster.until(
            partial(_is_older, node, SHARED),
            what="wide streams serve for narrow ones",
            timeout=2 * SHARED,
        )
    few = {name: _streams(cluster.nodes[name]) for name in RELAYED}
    cluster.scale("desk", DESKS * len(cluster.nodes))
    cluster.start_plain_dns()
    for node in cluster.nodes.values():
        node.count_bytes(cluster.plane.host)
    time.sleep(SETTLING)
    before = {name: _Counts.of(node) for name, node in cluster.nodes.items()}
    time.sleep(options.seconds)
    after = {name: _Counts.of(node) for name, node in cluster.nodes.items()}
    plain = _hourly(before[PLAIN].bytes, after[PLAIN].bytes, options.seconds)
    for name in RELAYED:
        node, used = cluster.nodes[name], after[name].processor - before[name].processor
        sample = {
            "rss": after[name].rss,
            "processor": 100.0 * used / options.seconds,
            "streams_few": few[name],
            "streams": _streams(node),
            "bytes": _hourly(before[name].bytes, after[name].bytes, options.seconds),
            "bytes_plain": plain,
        }
        result.samples.append(sample)
    for name, rss in _without_secrets(cluster).items():
        result.samples.append({"rss_without": rss})
        say(f"rest, {name}: {result.samples}")
    return [result]


def _without_secrets(cluster: NodeCluster) -> dict[str, float]:
    """MiB of the relays when they run without --keep-secrets."""
    for node in cluster.relayed:
        cluster.install(node, keeps_secrets=False)
    cluster.until(lambda: not cluster.faults(), what="all answer")
    time.sleep(SETTLING)
    found = {node.name: node.relay_costs()[0] / _KILOBYTE for node in cluster.relayed}
    for node in cluster.relayed:
        cluster.install(node)
    return found


def _is_older(node: Node, seconds: float) -> bool:
    uptime: float = node.status()["uptimeSeconds"]
    return uptime > seconds


def _streams(node: Node) -> float:
    """To the API server."""
    return float(sum(it["state"] == "live" for it in node.status()["streams"]))


def _hourly(before: float, after: float, seconds: float) -> float:
    return (after - before) * HOUR / seconds


@dataclass(frozen=True)
class _Counts:
    """`rss` in MiB and `processor` in seconds, of the relay; `bytes` to and from the API server."""

    rss: float
    processor: float
    bytes: float

    @classmethod
    def of(cls, node: Node) -> "_Counts":
        rss, processor = (0.0, 0.0) if node.name == PLAIN else node.relay_costs()
        return cls(rss / _KILOBYTE, processor, float(node.counted_bytes()))
