"""The controller needs all rights that manifests/rbac gives it and no other; without its policies
it does nothing, and says why."""

from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

from pool_sidecar.core.controller.guards import GROUP_PATH, POLICIES
from pool_sidecar.core.controller.node_state import DEAD, DEFAULT_POOL_LABEL
from tests.integration.manifests.confined import unused
from tests.integration.manifests.typist import Typist
from tests.integration.pool.conftest import APPLY
from tests.integration.pool.nodes import Site, members
from tests.integration.pool.test_controller import until
from tests.unit.manifests.built import MANIFESTS, named
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.clients.kustomize import kustomize
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.pods.pools.controller import NAMESPACE, USER, PoolControllerPod

pytestmark = pytest.mark.slow
USER_AGENT = "pool-controller"


@pytest.fixture
def site(pool_plane: ControlPlane) -> Iterator[Site]:
    with (
        Site(pool_plane, ("cloud-3",), pool="", zone="cloud"),
        Site(pool_plane, ("r1", "r2", "r3"), pool="rights") as site,
    ):
        yield site


def test_each_right_is_used_and_nothing_is_refused(
    pool_plane: ControlPlane, site: Site, tmp_path: Path
) -> None:
    objects = kustomize(MANIFESTS / "overlays/pool")
    cluster_rules = named(objects, "ClusterRole", "edge-sidecars:pool-controller")["rules"]
    events = named(objects, "Role", "edge-sidecars-pool-events")["rules"]
    elector = named(objects, "Role", "controller-elector")["rules"]
    with (
        FaultProxy(pool_plane.port) as link,
        PoolControllerPod(pool_plane, tmp_path, server=link.url) as pod,
    ):
        pod.wait_leading()
        until(lambda: {"r1", "r2", "r3"} <= members(pool_plane).keys(), what="members")
        site.never_heard("r1", by=["r2"])
        site.kill("r3")
        until(lambda: DEAD in site.state("r3")[1], what="dead")
        until(lambda: members(pool_plane)["r3"]["spec"].get("judged") == "Dead", what="judged")
        body = {"metadata": {"labels": {DEFAULT_POOL_LABEL: None}}}
        expect(pool_plane.admin.patch("/api/v1/nodes/r3", body))
        until(lambda: DEAD not in site.state("r3")[1], what="dead goes")

        # What it does after its watches broke off.
        link.reset()
        link.heal()

        def used(rules: list[dict[str, list[str]]]) -> bool:
            return not unused(rules, pool_plane.audit(stage=None, user=USER))

        until(lambda: used(cluster_rules), what="each rule is used")
        until(lambda: used(events), what="Events are written")
        # Its Lease is not missing here, so that none is created.
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/controller"
        expect(pool_plane.admin.delete(lease))
        until(lambda: used(elector), what="the elector's are")
        agents = (USER_AGENT, "elector-sidecar")
        refused = {
            f"{it.verb} {it.request_uri}"
            for it in pool_plane.audit(stage=None, user=USER)
            if it.status == HTTPStatus.FORBIDDEN and it.user_agent.startswith(agents)
        }
        assert refused == set()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "fault",
    ["policy", *(pytest.param(it, marks=pytest.mark.long) for it in ("binding", "audit only"))],
)
def test_without_its_policies_it_does_nothing_and_says_so(
    pool_plane: ControlPlane, site: Site, tmp_path: Path, policy: str, fault: str
) -> None:
    typist = Typist(pool_plane, tmp_path)
    binding = f"{GROUP_PATH}/validatingadmissionpolicybindings/{policy}"
    admin = pool_plane.admin
    faults: dict[str, Callable[[], object]] = {
        "policy": lambda: admin.delete(f"{GROUP_PATH}/validatingadmissionpolicies/{policy}"),
        "binding": lambda: admin.delete(binding),
        "audit only": lambda: admin.patch(binding, {"spec": {"validationActions": ["Audit"]}}),
    }
    faults[fault]()
    try:
        with PoolControllerPod(pool_plane, tmp_path) as pod:
            until(lambda: pod.controller.readyz() is not None, what="it answers")
            until(lambda: policy in str(pod.controller.status()["lack"]), what="it says so")
            assert pod.controller.readyz() == HTTPStatus.SERVICE_UNAVAILABLE
            assert not pod.may_act
            assert "pool_controller_ready 0" in pod.controller.metrics()
            assert not {"r1", "r2", "r3"} & members(pool_plane).keys()
            typist.type(APPLY)
            pod.wait_leading()
            until(lambda: {"r1", "r2", "r3"} <= members(pool_plane).keys(), what="it goes on")
    finally:
        typist.type(APPLY)
