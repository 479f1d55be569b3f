"""The candidate of a node, as overlays/pool has it, contends for the Lease of the pool in which its
node is: by the file that the member beside it writes, with its own account's rights alone."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import pytest

from pool_sidecar.core.controller.node_state import DEFAULT_POOL_LABEL, MAY_LEAD_NODE_LABEL
from tests.integration.manifests.confined import unused
from tests.integration.pool.hall import until
from tests.unit.manifests.built import containers, named, overlay
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.access.kubeconfig import write_kubeconfig
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.reservation import LOOPBACK, Reservation
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.pools.accounts import token_of_pod
from tools.harness.pods.pools.controller import PoolControllerPod
from tools.harness.pods.pools.member import PoolNode

pytestmark = [pytest.mark.long, pytest.mark.slow]

NAME, NAMESPACE, ACCOUNT = "e1", "edge-pool", "pool-candidate"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
# Seconds: a link that has just come, a Lease that is missing, a term of another pool that ends.
TIMEOUT = 90.0


@dataclass(frozen=True)
class Site:
    """One node that may lead, in the pool "stage"."""

    plane: ControlPlane
    node: PoolNode
    candidate: ElectorPod
    lease_file: Path

    @property
    def role(self) -> str:
        return str(self.node.member.status()["role"])

    def holder(self, pool: str) -> str:
        """ "" also where there is no Lease."""
        spec = self.plane.admin.get(f"{LEASES}/pool-{pool}")[1].get("spec", {})
        return str(spec.get("holderIdentity", ""))

    def move(self, pool: str | None) -> None:
        body = {"metadata": {"labels": {DEFAULT_POOL_LABEL: pool}}}
        expect(self.plane.admin.patch(f"/api/v1/nodes/{NAME}", body))

    def leads(self, pool: str) -> bool:
        told = self.candidate.ask("/leader")
        if self.role != "Leader" or told is None or told.status != HTTPStatus.OK:
            return False
        return self.holder(pool) == str(told.json()["holder"])


@pytest.fixture
def site(pool_plane: ControlPlane, tmp_path: Path) -> Iterator[Site]:
    elector, lan = Reservation(), Reservation()
    lease_file = tmp_path / "lease"
    with ExitStack() as stack:
        stack.callback(elector.release)
        stack.callback(lan.release)
        stack.enter_context(PoolControllerPod(pool_plane, tmp_path)).wait_leading()
        node = stack.enter_context(
            PoolNode(
                pool_plane,
                NAME,
                address="127.0.77.9",
                lan_port=lan.port,
                folder=tmp_path,
                labels={DEFAULT_POOL_LABEL: "stage", MAY_LEAD_NODE_LABEL: "true"},
                flags=[
                    f"--lease-file={lease_file}",
                    f"--elector=http://{LOOPBACK}:{elector.port}",
                ],
            )
        )
        kubeconfig = write_kubeconfig(
            tmp_path / "candidate.kubeconfig",
            server=pool_plane.server,
            ca=pool_plane.ca_bundle.read_bytes(),
            credentials=token_of_pod(pool_plane, ACCOUNT, NAME),
        )
        (container,) = containers(named(overlay("pool"), "DaemonSet", ACCOUNT))
        told = {it["name"]: it["value"] for it in container["env"] if "value" in it}
        member = f"http://{LOOPBACK}:{node.member.port}"
        candidate = ElectorPod(
            NAME,
            "",
            [
                *("--lease-file", str(lease_file), "--listen", f"{LOOPBACK}:{elector.port}"),
                *("--health-url", f"{member}/eligible", "--drain-url", f"{member}/drain"),
                *("--kubeconfig", str(kubeconfig)),
            ],
            environ={**told, "POD_NAME": f"{ACCOUNT}-{NAME}", "POD_NAMESPACE": NAMESPACE},
            guardian=pool_plane.guardian,
        )
        stack.enter_context(candidate).start(wait=False).port = elector.port
        yield Site(pool_plane, node, candidate, lease_file)


def test_a_candidate_leads_the_pool_in_which_its_node_is_and_leaves_it_in_order(
    site: Site,
) -> None:
    until(lambda: site.leads("stage"), what="it leads its pool", timeout=TIMEOUT)
    assert site.holder("stage").startswith(f"{NAME}_")
    assert site.lease_file.read_text() == "pool-stage\n"

    site.move("yard")
    until(lambda: site.leads("yard"), what="it leads the other pool", timeout=TIMEOUT)
    assert site.holder("stage") == ""

    site.move(None)
    until(lambda: site.holder("yard") == "", what="it leaves that one, too", timeout=TIMEOUT)
    until(lambda: site.role == "Follower", what="it leads nothing", timeout=TIMEOUT)
    until(lambda: not site.lease_file.exists(), what="no Lease is named")
    unready = HTTPStatus.SERVICE_UNAVAILABLE
    until(lambda: site.candidate.readyz() == unready, what="it waits for a name")

    events = site.plane.audit(stage=None, user=f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}")
    own = [it for it in events if it.user_agent.startswith("elector-sidecar")]
    assert unused(named(overlay("pool"), "Role", ACCOUNT)["rules"], own) == []
    assert [it for it in own if it.status == HTTPStatus.FORBIDDEN] == []
