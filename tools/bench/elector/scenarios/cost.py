"""What an election costs while nothing happens: requests, processor time, memory.

Guarantees: nobody asks the pods anything while it is measured; requests are counted from the API
server's audit log; memory is read at the end of the window, more than a minute after the start.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from tools.bench.elector.install import CHECKOUT
from tools.bench.elector.poller import Contender, Poller, boottime
from tools.bench.elector.side import CLIENT_GO_TIMING, Setup, Side, World, realtime
from tools.bench.pace import TookTooLong, sleep
from tools.bench.process import MIB, cpu_seconds, memory
from tools.bench.progress import say
from tools.bench.samples import OURS, REFERENCE, Result, Sample
from tools.harness.peers.candidate import CandidatePod
from tools.harness.pods.fleet import LEASE, kubeconfig

# Steady at last: first collections, caches and connections are done with.
WARM_UP = 60.0
# Until all have heard of the leader.
CROWD_WARM_UP = 20.0
POLL_INTERVAL = 0.1
REPLICAS = 3
CROWD = 50
AGENT = {OURS: "elector-sidecar/", REFERENCE: "client-go-candidate/"}
CHECKOUT_SIDE = f"{OURS} (checkout)"


def steady_state(world: World, *, window: float) -> list[Result]:
    """Three pods each of the wheel, the checkout and client-go, side by side."""
    say(f"cost: 3 x 3 pods at rest for {WARM_UP:g} s, then measured for {window:g} s")
    with ExitStack() as stack:
        poller = Poller(interval=POLL_INTERVAL)
        polled = replace(world, poller=poller)
        sides = {
            OURS: Side(polled, Setup(OURS, replicas=REPLICAS)),
            CHECKOUT_SIDE: Side(polled, Setup(OURS, replicas=REPLICAS), sidecar=CHECKOUT),
            REFERENCE: Side(polled, Setup(REFERENCE, replicas=REPLICAS)),
        }
        with poller:
            for side in sides.values():
                stack.enter_context(side)
            leaders = {name: side.steady() for name, side in sides.items()}
        sleep(WARM_UP)
        started_at = boottime()
        before = {name: [cpu_seconds(pod.pid) for pod in side.pods] for name, side in sides.items()}
        sleep(window)
        return [
            _measured(side, name, leaders[name], since=started_at, cpu_before=before[name])
            for name, side in sides.items()
        ]


def _measured(
    side: Side, name: str, leader: Contender, *, since: float, cpu_before: Sequence[float]
) -> Result:
    """One sample: figures of the leader, and the mean of the standbys."""
    minutes = (boottime() - since) / 60.0
    cpu = [
        (cpu_seconds(pod.pid) - before) / minutes
        for pod, before in zip(side.pods, cpu_before, strict=True)
    ]
    requests = [_requests(side, since=since, identity=pod.identity) / minutes for pod in side.pods]
    memories = [memory(pod.pid) for pod in side.pods]
    at = side.pods.index(leader)
    standbys = [index for index in range(len(side.pods)) if index != at]
    sample: Sample = {
        "requests_leader": requests[at],
        "requests_standby": _mean([requests[index] for index in standbys]),
        "cpu_leader": cpu[at],
        "cpu_standby": _mean([cpu[index] for index in standbys]),
        "rss_leader": memories[at].rss / MIB,
        "rss_standby": _mean([memories[index].rss / MIB for index in standbys]),
        "rss_max": max(each.rss for each in memories) / MIB,
        "pss_kernel_max": max(each.pss for each in memories) / MIB,
        "pss_of_three_max": max(each.share_of(REPLICAS) for each in memories) / MIB,
    }
    say(f"cost {name}: " + " ".join(f"{key}={value:.3g}" for key, value in sample.items()))
    return Result(
        "cost",
        name,
        facts={"beside": f"cost: {OURS}, {CHECKOUT_SIDE}, {REFERENCE}"},
        samples=[sample],
    )


def crowd(world: World, *, window: float) -> list[Result]:
    """Fifty candidates on one Lease: of ours fifty processes, of client-go one with fifty."""
    say(f"cost: {CROWD} candidates each, started one after the other")
    with ExitStack() as stack:
        theirs = stack.enter_context(Side(world, Setup(REFERENCE, replicas=0)))
        flags = ["--kubeconfig", str(kubeconfig(world.plane, theirs.namespace)), "--lease", LEASE]
        flags += ["--namespace", theirs.namespace, "--candidates", str(CROWD), *CLIENT_GO_TIMING]
        process = CandidatePod(world.candidate, "crowd", flags)
        stack.callback(process.stop)
        process.start(wait=False)
        world.guard(process.pid)
        ours = stack.enter_context(Side(world, Setup(OURS, replicas=CROWD)))
        sleep(CROWD_WARM_UP)
        started_at = boottime()
        sleep(window)
        return [_counted(side, since=started_at) for side in (ours, theirs)]


def _counted(side: Side, *, since: float) -> Result:
    if not side.lease.spec().get("holderIdentity"):
        raise TookTooLong(f"{side.kind}: nobody leads among {CROWD} candidates")
    minutes = (boottime() - since) / 60.0
    sample: Sample = {"requests": _requests(side, since=since) / minutes}
    say(f"crowd {side.kind}: {sample['requests']:.0f} requests a minute")
    return Result(
        "crowd", side.kind, facts={"beside": f"crowd: {CROWD} candidates each"}, samples=[sample]
    )


def _requests(side: Side, *, since: float, identity: str = "") -> int:
    """Received in the window, of one candidate or of all; watches that run on are not."""
    with side.world.lock:
        events = side.world.plane.audit(
            stage=None,
            namespace=side.namespace,
            user_agent=AGENT[side.kind],
            since=realtime(since),
        )
    return len({event.audit_id for event in events if identity in event.user_agent})


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
