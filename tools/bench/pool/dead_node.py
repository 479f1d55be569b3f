"""How long the pods of a node that dies are missed: of one that is in a pool, beside one that
Kubernetes alone looks after, in the same run.

Five nodes in networks of their own, before the real controllers and scheduler with Kubernetes' own
defaults of time; kubelets are stand-ins, which have no image to pull. Guarantee: seconds are from
before the node's last packet until a watch of the API server showed all replicas on other nodes.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from pool_sidecar.core.controller.node_state import DEAD
from tools.bench.pace import sleep, wait_for
from tools.bench.progress import say
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.nemesis.pool.judge.history import Pod, running
from tools.nemesis.pool.node import SITE_ZONE
from tools.nemesis.pool.objects import ZONE
from tools.nemesis.pool.observer import Observer
from tools.nemesis.pool.testbed import NAMES, PoolTestbed

# Deployments: pods that stay until their node is `dead`, and pods as most are, outside of the pool.
KEPT: Final = "kept"
PLAIN: Final = "plain"
REPLICAS: Final = {KEPT: 5, PLAIN: 3}
# In the zone of the testbed's own, outside of the pool.
OUTSIDE, OUTSIDE_ZONE = "cloud-3", "cloud"
# Seconds: of grace and of DefaultTolerationSeconds, and some; until all is well.
UNTIL_PLAIN_LEAVE: Final = 420.0
UNTIL_DEAD: Final = 180.0
UNTIL_WELL: Final = 180.0
# After which the members have told the controller of each other.
SETTLED: Final = 60.0
POLL: Final = 0.1
_UNREACHABLE: Final = {
    "key": "node.kubernetes.io/unreachable",
    "operator": "Exists",
    "effect": "NoExecute",
}


@dataclass(frozen=True)
class Replaced:
    """Seconds; `plain` only where it was waited for."""

    kept: float
    plain: float | None


def replaced(runs: int) -> Iterator[Replaced]:
    """Kubernetes alone is waited for in the first run. Raises `NoNamespaces` where a process may
    make no network."""
    with (
        ControlPlane(has_nodes=True) as plane,
        PoolTestbed(plane, say, flags=(), manifests=()) as testbed,
        Observer(plane, testbed.namespace) as observer,
    ):
        with ExitStack() as outside:
            testbed.start_outside(outside, OUTSIDE)
            _make_pods(testbed)
            say(f"a node dies, run 1 of {runs}")
            yield _once(testbed, observer, outside)
        for number in range(1, runs):
            say(f"a node dies, run {number + 1} of {runs}")
            yield _once(testbed, observer)


def _make_pods(testbed: PoolTestbed) -> None:
    """When all nodes can have some."""
    wait_for(testbed.are_schedulable, timeout=UNTIL_WELL, what="all nodes are Ready", interval=POLL)
    path = f"/apis/apps/v1/namespaces/{testbed.namespace}/deployments"
    for name in REPLICAS:
        expect(testbed.plane.admin.post(path, _deployment(name)))


def _once(testbed: PoolTestbed, observer: Observer, outside: ExitStack | None = None) -> Replaced:
    """`outside`: is closed as another node dies."""
    wait_for(
        lambda: _are_well(testbed, observer), timeout=UNTIL_WELL, what="all is well", interval=POLL
    )
    sleep(SETTLED)
    name = _with_pods(observer, NAMES, KEPT)
    node = testbed.nodes[name]
    begun = time.time()
    node.silence()
    node.power_off()
    kept_after = _seconds_without(observer, name, KEPT, begun, timeout=UNTIL_DEAD)
    node.power_on()
    if outside is None:
        return Replaced(kept_after, None)
    _with_pods(observer, [OUTSIDE], PLAIN)
    begun = time.time()
    outside.close()
    plain = _seconds_without(observer, OUTSIDE, PLAIN, begun, timeout=UNTIL_PLAIN_LEAVE)
    return Replaced(kept_after, plain)


def _seconds_without(
    observer: Observer, node: str, app: str, begun: float, *, timeout: float
) -> float:
    wait_for(
        lambda: running(_pods(observer), app, time.time(), but_on=node) == REPLICAS[app],
        timeout=timeout,
        what=f"the pods of {app} run on other nodes than {node}",
        interval=POLL,
    )
    return time.time() - begun


def _are_well(testbed: PoolTestbed, observer: Observer) -> bool:
    now, pods = time.time(), _pods(observer)
    with observer.lock:
        states = [observer.history.at(name, now) for name in NAMES]
    return (
        testbed.controller.may_act
        and all(it.ready == "True" and not it.is_dead for it in states)
        and all(running(pods, app, now) == wanted for app, wanted in REPLICAS.items())
    )


def _with_pods(observer: Observer, names: Sequence[str], app: str) -> str:
    """The first of the nodes on which a pod of it runs."""
    now, pods = time.time(), _pods(observer).values()
    return next(
        it for it in names if any(p.app == app and p.node == it and p.runs(now) for p in pods)
    )


def _pods(observer: Observer) -> Mapping[str, Pod]:
    with observer.lock:
        return dict(observer.history.pods)


def _deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    dead = {"key": DEAD, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
    pod = {
        "nodeSelector": {ZONE: SITE_ZONE if name == KEPT else OUTSIDE_ZONE},
        "terminationGracePeriodSeconds": 1,
        # Others get 300 s for `unreachable` by the API server's own admission.
        "tolerations": [_UNREACHABLE, dead] if name == KEPT else [],
        # One on each node, while there are so many.
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels},
            }
        ],
        "containers": [{"name": "main", "image": f"example.com/{name}:1"}],
    }
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": REPLICAS[name],
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
