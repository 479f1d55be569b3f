"""N3 before a real API server with the controllers that evict: who stays, who goes, who is told.

Nodes are `nodes.Site`: kubelets that speak by their own certificates and members that report.
"""

import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

from pool_sidecar.core.controller.node_state import CUT, DEAD, DEFAULT_POOL_LABEL, KEEP_PODS
from pool_sidecar.core.pool_member import POOL_LABEL
from tests.integration.pool.nodes import Site, members
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.clients.admin import Json
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.pools.controller import PoolControllerPod

UNREACHABLE = "node.kubernetes.io/unreachable"
FOUR = ("n1", "n2", "n3", "n4")
EVENTS = "/api/v1/namespaces/default/events"
# Seconds: the grace period, the votes' own time and a busy machine.
TIMEOUT = 90.0
# Seconds in which a whole site stays, three grace periods and the control workload's seconds.
CALM = 25.0
# Seconds, in which one that is lost would be dead and told of (`CANNOT_TELL_AFTER`).
KEPT_FOR = 70.0

pytestmark = pytest.mark.slow

# A pod on a node, and whether it is still to stay there.
MakePod = Callable[..., Callable[[], bool]]


def until(condition: Callable[[], bool], *, what: str, timeout: float = TIMEOUT) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"not in {timeout:g}s: {what}"
        time.sleep(0.1)


@pytest.fixture
def outside(pool_plane: ControlPlane) -> Iterator[Site]:
    """Two Ready nodes of no pool in another zone: with all nodes lost nobody would be evicted."""
    with Site(pool_plane, ("cloud-1", "cloud-2"), pool="", zone="cloud") as site:
        yield site
        assert site.failures == []


@pytest.fixture
def site(pool_plane: ControlPlane, outside: Site) -> Iterator[Site]:
    with Site(pool_plane, FOUR, pool="factory") as site:
        yield site
        assert site.failures == []


@pytest.fixture
def pod(pool_plane: ControlPlane, site: Site, tmp_path: Path) -> Iterator[PoolControllerPod]:
    with PoolControllerPod(pool_plane, tmp_path) as pod:
        pod.wait_leading()
        until(lambda: set(FOUR) <= members(pool_plane).keys(), what="members")
        yield pod
        assert "Traceback" not in pod.controller.log_text()


@pytest.fixture
def workload(pool_plane: ControlPlane) -> Iterator[MakePod]:
    """Makes pods that run on a node; they are gone afterwards."""
    made: list[str] = []
    namespace = pool_plane.create_namespace("shop")
    pods = f"/api/v1/namespaces/{namespace}/pods"

    def make(name: str, node: str, *tolerations: Json) -> Callable[[], bool]:
        spec: Json = {
            "nodeName": node,
            "containers": [{"name": "main", "image": "example.com/shop:1"}],
            "tolerations": list(tolerations),
            "terminationGracePeriodSeconds": 1,
        }
        expect(pool_plane.admin.post(pods, {"metadata": {"name": name}, "spec": spec}))
        made.append(name)

        def stays() -> bool:
            status, found = pool_plane.admin.get(f"{pods}/{name}")
            return status == HTTPStatus.OK and "deletionTimestamp" not in found["metadata"]

        return stays

    yield make
    for name in made:
        pool_plane.admin.delete(f"{pods}/{name}", {"gracePeriodSeconds": 0})


def keep(*, dead: int) -> tuple[Json, Json]:
    """As components/keep-while-cut, with other seconds."""
    exists = {"operator": "Exists", "effect": "NoExecute"}
    return {"key": UNREACHABLE, **exists}, {"key": DEAD, **exists, "tolerationSeconds": dead}


def after(seconds: int) -> Json:
    """As a workload that knows nothing of pools, but is less patient."""
    exists = {"operator": "Exists", "effect": "NoExecute"}
    return {"key": UNREACHABLE, **exists, "tolerationSeconds": seconds}


def _annotate(plane: ControlPlane, node: str, keeps: str | None) -> None:
    body = {"metadata": {"annotations": {KEEP_PODS: keeps}}}
    expect(plane.admin.patch(f"/api/v1/nodes/{node}", body))


def _reasons(plane: ControlPlane, node: str) -> set[str]:
    """Of the Events on this very Node: one of its name was in a test before."""
    uid = expect(plane.admin.get(f"/api/v1/nodes/{node}"))["metadata"]["uid"]
    found = expect(plane.admin.get(EVENTS))["items"]
    return {it["reason"] for it in found if it["involvedObject"].get("uid") == uid}


def test_the_pods_of_a_dead_node_go_by_the_witness_of_its_pool(
    pool_plane: ControlPlane, site: Site, pod: PoolControllerPod, workload: MakePod
) -> None:
    kept, alive = workload("kept", "n4", *keep(dead=2)), workload("alive", "n1", *keep(dead=2))
    site.kill("n4")
    until(lambda: DEAD in site.state("n4")[1], what="dead")
    assert site.state("n4")[0] == "Unknown"
    until(lambda: not kept(), what="its pods go")
    assert alive()
    until(lambda: members(pool_plane)["n4"]["spec"].get("judged") == "Dead", what="judged")
    until(lambda: "Dead" in _reasons(pool_plane, "n4"), what="an Event")
    site.revive("n4")
    until(lambda: DEAD not in site.state("n4")[1], what="dead goes")
    until(lambda: "judged" not in members(pool_plane)["n4"]["spec"], what="judged goes")


@pytest.mark.long
def test_a_dead_node_whose_annotation_keeps_its_pods_keeps_them_until_it_is_taken_off(
    pool_plane: ControlPlane, site: Site, pod: PoolControllerPod, workload: MakePod
) -> None:
    kept = workload("kept", "n4", *keep(dead=2))
    _annotate(pool_plane, "n4", "true")
    site.kill("n4")
    until(lambda: site.state("n4")[0] == "Unknown", what="lost")
    deadline = time.monotonic() + KEPT_FOR
    while time.monotonic() < deadline:
        assert kept()
        assert not {DEAD, CUT} & site.state("n4")[1]
        time.sleep(0.5)
    assert "Kept" in _reasons(pool_plane, "n4")
    assert "Dead" not in _reasons(pool_plane, "n4")
    (pool,) = pod.controller.status()["pools"]
    assert (pool["keepPods"], pool["cannotTell"]) == (["n4"], [])
    _annotate(pool_plane, "n4", None)
    until(lambda: not kept(), what="its pods go")


@pytest.mark.long
def test_a_site_that_is_cut_as_a_whole_keeps_its_pods(
    pool_plane: ControlPlane, site: Site, pod: PoolControllerPod, workload: MakePod
) -> None:
    kept = [workload(f"kept-{it}", it, *keep(dead=1)) for it in FOUR]
    control = workload("control", "n1", after(3))
    site.cut(*FOUR)
    until(lambda: not control(), what="a workload without the toleration is evicted")
    until(lambda: {site.state(it)[0] for it in FOUR} == {"Unknown"}, what="all are lost")
    end = time.monotonic() + CALM
    while time.monotonic() < end:
        assert all(it() for it in kept)
        assert not any(DEAD in site.state(it)[1] for it in FOUR)
        time.sleep(0.5)
    (pool,) = pod.controller.status()["pools"]
    assert (pool["members"], pool["ready"], pool["dead"]) == (4, 0, 0)
    site.heal(*FOUR)
    until(lambda: {site.state(it)[0] for it in FOUR} == {"True"}, what="all are back")
    assert all(it() for it in kept)


def test_a_pool_of_65_has_64_members(
    pool_plane: ControlPlane, site: Site, pod: PoolControllerPod
) -> None:
    names = [f"big-{number:02}" for number in range(65)]
    for name in names:
        metadata = {"name": name, "labels": {DEFAULT_POOL_LABEL: "big"}}
        expect(pool_plane.admin.post("/api/v1/nodes", {"metadata": metadata}))

    def inside() -> set[str]:
        found = members(pool_plane).values()
        labels = {it["metadata"]["name"]: it["metadata"].get("labels", {}) for it in found}
        return {name for name, it in labels.items() if it.get(POOL_LABEL) == "big"}

    until(lambda: set(names) <= members(pool_plane).keys(), what="65 PoolMembers")
    assert len(inside()) == 64
    (refused,) = set(names) - inside()

    def told() -> list[tuple[str, str, str]]:
        conditions = members(pool_plane)[refused].get("status", {}).get("conditions", ())
        return [(it["type"], it["status"], it["reason"]) for it in conditions]

    until(lambda: told() == [("Admitted", "False", "PoolFull")], what="the condition")
    until(lambda: "PoolFull" in _reasons(pool_plane, refused), what="an Event")
    expect(pool_plane.admin.delete(f"/api/v1/nodes/{names[0]}"))
    until(lambda: refused in inside(), what="the place is taken")
    until(lambda: told() == [], what="the condition goes")
    for name in names[1:]:
        pool_plane.admin.delete(f"/api/v1/nodes/{name}")
    until(lambda: not inside(), what="they go with their Nodes")
