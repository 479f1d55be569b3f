"""What each account of a pool may write, before a real API server with overlays/pool applied."""

from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from pool_sidecar.core.controller.node_state import (
    CUT,
    CUT_TAINT,
    DEAD,
    DEAD_TAINT,
    DEFAULT_POOL_LABEL,
)
from pool_sidecar.core.pool_member import API_VERSION, KIND, PATH, POOL_LABEL
from tests.integration.manifests.gm_and_lc import until
from tests.integration.manifests.typist import Typist
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.clients.admin import AdminClient, Json, Told
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.pools.accounts import node_client, token_of_pod

NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/edge-pool/leases"
FORBIDDEN = HTTPStatus.FORBIDDEN
PAIR = ("left", "right")
TWICE = {"node": "x", "verdict": "Silent"}


class Cluster:
    """Two nodes with a PoolMember each; one is lost to the control plane."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.nodes = {it: node_client(plane, it) for it in PAIR}
        self.controller = plane.client(plane.new_token("edge-pool", "controller"))

    def make(self) -> None:
        for name in PAIR:
            labels = {DEFAULT_POOL_LABEL: "pair"}
            node = {"metadata": {"name": name, "labels": labels}}
            uid = expect(self.plane.admin.post(NODES, node))["metadata"]["uid"]
            owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
            metadata = {"name": name, "labels": {POOL_LABEL: "pair"}, "ownerReferences": [owner]}
            body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": {}}
            expect(self.controller.post(PATH, body))

    def remove(self) -> None:
        for name in PAIR:
            self.plane.admin.delete(f"{NODES}/{name}")
            self.plane.admin.delete(f"{PATH}/{name}")

    def set_ready(self, name: str, status: str) -> None:
        body = {"status": {"conditions": [{"type": "Ready", "status": status}]}}
        expect(self.plane.admin.patch(f"{NODES}/{name}/status", body))


@pytest.fixture(scope="module")
def cluster(pool_plane: ControlPlane) -> Iterator[Cluster]:
    it = Cluster(pool_plane)
    it.make()
    # The policies are known some time after they were written.
    until(lambda: _report(it.nodes["left"], "right")[0] == FORBIDDEN, what="policies in force")
    yield it
    it.remove()


def _report(client: AdminClient, node: str, **status: Any) -> Told:
    status = status or {"link": "Own"}
    return client.patch(f"{PATH}/{node}/status", {"status": status})


def _said(answer: Told) -> tuple[int, str]:
    status, body = answer
    return status, str(body.get("message", "")).partition("denied request: ")[2]


# ── nodes ──


def test_a_node_writes_the_status_of_its_own_member_and_no_others(cluster: Cluster) -> None:
    report = {"sequence": 1, "every": 10, "verdicts": [{"node": "right", "verdict": "Silent"}]}
    assert _report(cluster.nodes["left"], "left", link="Own", report=report)[0] == HTTPStatus.OK
    said = "system:node:left does not write the status of the PoolMember right: only that node does"
    assert _said(_report(cluster.nodes["left"], "right", report=report)) == (FORBIDDEN, said)


def test_a_node_changes_neither_spec_nor_labels_nor_conditions_of_its_member(
    cluster: Cluster,
) -> None:
    left = cluster.nodes["left"]
    for body in ({"spec": {"judged": "Dead"}}, {"metadata": {"labels": {POOL_LABEL: "other"}}}):
        assert left.patch(f"{PATH}/left", body)[0] == FORBIDDEN
    for method in (left.delete, lambda it: left.put(it, {})):
        assert method(f"{PATH}/left")[0] in (FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY)
    assert left.get(f"{PATH}/left")[0] == HTTPStatus.OK
    said = "conditions of a PoolMember are the controller's"
    assert _said(_report(left, "left", conditions=[_condition()])) == (FORBIDDEN, said)
    # By the status it cannot smuggle anything else in.
    body = {"status": {"link": "Own"}, "spec": {"judged": "Dead"}}
    assert left.patch(f"{PATH}/left/status", body)[0] == HTTPStatus.OK
    assert "judged" not in expect(left.get(f"{PATH}/left"))["spec"]


def test_a_node_reads_the_directory(cluster: Cluster) -> None:
    left = cluster.nodes["left"]
    found = expect(left.get(f"{PATH}?labelSelector={POOL_LABEL}%3Dpair"))["items"]
    assert {it["metadata"]["name"] for it in found} == set(PAIR)


def test_a_nodes_taints_and_its_pool_are_not_its_own_to_change(cluster: Cluster) -> None:
    left = cluster.nodes["left"]
    for body in (
        {"spec": {"taints": [DEAD_TAINT]}},
        {"metadata": {"labels": {DEFAULT_POOL_LABEL: "other"}}},
    ):
        assert left.patch(f"{NODES}/left", body)[0] == FORBIDDEN


def test_a_member_without_a_certificate_writes_by_the_node_of_its_token(cluster: Cluster) -> None:
    plane = cluster.plane
    rules = [{"apiGroups": ["pool.edge-sidecars.io"], "resources": ["poolmembers/status"]}]
    rules = [{**it, "verbs": ["patch"]} for it in rules]
    plane.kubeconfig_for("edge-pool", "pool-member", [], cluster_rules=rules)
    member = plane.client(token_of_pod(plane, "pool-member", "left"))
    assert _report(member, "left")[0] == HTTPStatus.OK
    assert _report(member, "right")[0] == FORBIDDEN
    elsewhere = plane.client(plane.new_token("edge-pool", "pool-member"))
    assert _report(elsewhere, "left")[0] == FORBIDDEN


@pytest.mark.parametrize(
    "status",
    [
        {"link": "Borrowed"},
        {"addresses": ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"]},
        {"addresses": ["factory.example"]},
        {"certificates": ["no certificate"]},
        {"certificates": ["-----BEGIN CERTIFICATE-----\n" + "A" * 2048]},
        {"via": "x" * 254},
        {"report": {"every": 10}},
        {"report": {"sequence": 1, "every": 3600}},
        {"report": {"sequence": -1, "every": 10}},
        {"report": {"sequence": 1, "every": 10, "verdicts": [{"node": "x", "verdict": "Alive"}]}},
        {"report": {"sequence": 1, "every": 10, "verdicts": [TWICE, TWICE]}},
        {
            "report": {
                "sequence": 1,
                "every": 10,
                "verdicts": [{"node": f"n{it}", "verdict": "Silent"} for it in range(64)],
            }
        },
    ],
    ids=lambda it: str(it)[:40],
)  # fmt: skip
def test_a_status_beyond_its_bounds_is_refused(cluster: Cluster, status: Json) -> None:
    left = cluster.nodes["left"]
    # Patches are merged into what is there.
    expect(_report(left, "left", report=None))
    answer = _report(left, "left", **status)
    assert answer[0] == HTTPStatus.UNPROCESSABLE_ENTITY, answer


def test_kubectl_shows_pool_link_via_and_what_is_judged(cluster: Cluster, tmp_path: Path) -> None:
    expect(_report(cluster.nodes["left"], "left", link="Lent", via="right"))
    shown = Typist(cluster.plane, tmp_path).type("kubectl get poolmembers left").splitlines()
    assert shown[0].split() == ["NAME", "POOL", "LINK", "VIA", "JUDGED", "AGE"]
    assert shown[1].split()[:4] == ["left", "pair", "Lent", "right"]


# ── the controller ──


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"annotations": {"a": "b"}}},
        {"metadata": {"finalizers": ["example.com/x"]}},
        {"spec": {"unschedulable": True}},
        {"spec": {"podCIDR": "10.1.0.0/24"}},
        {"spec": {"providerID": "x://y"}},
        {"spec": {"taints": [{"key": "example.com/x", "effect": "NoSchedule"}]}},
        {"spec": {"taints": [{**DEAD_TAINT, "effect": "NoSchedule"}]}},
        {"spec": {"taints": [{**CUT_TAINT, "effect": "NoExecute"}]}},
        {"spec": {"taints": [CUT_TAINT, {"key": "example.com/x", "effect": "NoSchedule"}]}},
    ],
    ids=str,
)
def test_the_controller_changes_nothing_of_a_node_but_its_two_taints(
    cluster: Cluster, body: Json
) -> None:
    assert cluster.controller.patch(f"{NODES}/left", body)[0] == FORBIDDEN


def test_the_controller_takes_no_foreign_taint_off(cluster: Cluster) -> None:
    foreign = {"key": "example.com/kept", "effect": "NoSchedule"}
    expect(_taint(cluster, cluster.plane.admin, "left", foreign))
    assert _taint(cluster, cluster.controller, "left", off=foreign["key"])[0] == FORBIDDEN
    assert _taint(cluster, cluster.controller, "left", CUT_TAINT)[0] == HTTPStatus.OK
    assert _taint(cluster, cluster.controller, "left", off=CUT)[0] == HTTPStatus.OK
    expect(_taint(cluster, cluster.plane.admin, "left", off=foreign["key"]))


def test_dead_comes_only_to_a_node_that_the_control_plane_does_not_hear(cluster: Cluster) -> None:
    said = "the control plane hears this node, so that it is not dead"
    controller = cluster.controller
    for ready in ("True", "False"):
        cluster.set_ready("right", ready)
        assert _said(_taint(cluster, controller, "right", DEAD_TAINT)) == (FORBIDDEN, said)
    cluster.set_ready("right", "Unknown")
    assert _taint(cluster, controller, "right", DEAD_TAINT)[0] == HTTPStatus.OK
    # What is there may stay for a moment longer, and goes.
    cluster.set_ready("right", "True")
    assert _taint(cluster, controller, "right", CUT_TAINT)[0] == HTTPStatus.OK
    assert _taint(cluster, controller, "right", off=DEAD)[0] == HTTPStatus.OK
    assert _taint(cluster, controller, "right", off=CUT)[0] == HTTPStatus.OK


def _taint(
    cluster: Cluster, client: AdminClient, node: str, taint: Json | None = None, *, off: str = ""
) -> Told:
    """Beside those that the control plane puts on its Nodes; again where it was quicker."""
    while True:
        found = expect(cluster.plane.admin.get(f"{NODES}/{node}"))
        taints = [it for it in found["spec"].get("taints", ()) if it["key"] != off]
        taints += [taint] if taint else []
        version = {"resourceVersion": found["metadata"]["resourceVersion"]}
        answer = client.patch(f"{NODES}/{node}", {"metadata": version, "spec": {"taints": taints}})
        if answer[0] != HTTPStatus.CONFLICT:
            return answer


def test_a_node_that_has_spoken_since_it_was_judged_is_a_conflict(cluster: Cluster) -> None:
    before = expect(cluster.plane.admin.get(f"{NODES}/right"))["metadata"]["resourceVersion"]
    cluster.set_ready("right", "Unknown")
    body = {"metadata": {"resourceVersion": before}, "spec": {"taints": [DEAD_TAINT]}}
    assert cluster.controller.patch(f"{NODES}/right", body)[0] == HTTPStatus.CONFLICT


def test_the_controller_writes_no_ones_vote(cluster: Cluster) -> None:
    said = "of the status of a PoolMember the controller writes only conditions"
    report = {"sequence": 99, "every": 10}
    for status in ({"report": report}, {"link": "None"}, {"addresses": ["10.0.0.9"]}):
        assert _said(_report(cluster.controller, "left", **status)) == (FORBIDDEN, said)
    assert _report(cluster.controller, "left", conditions=[_condition()])[0] == HTTPStatus.OK
    assert _report(cluster.controller, "left", conditions=None)[0] == HTTPStatus.OK


def test_the_controller_deletes_no_node_and_writes_no_status_of_one(cluster: Cluster) -> None:
    assert cluster.controller.delete(f"{NODES}/left")[0] == FORBIDDEN
    assert cluster.controller.patch(f"{NODES}/left/status", {"status": {}})[0] == FORBIDDEN


# ── candidates ──


def test_a_candidate_holds_a_pools_lease_in_the_name_of_its_own_node_only(
    cluster: Cluster,
) -> None:
    plane = cluster.plane
    candidate = plane.client(token_of_pod(plane, "pool-candidate", "left"))
    for holder in ("left_1234", "left", ""):
        name = f"pool-of-{len(holder)}"
        assert candidate.post(LEASES, _lease(name, holder))[0] == HTTPStatus.CREATED
    said = "the holder right_1234 is not the node of the token, left"
    assert _said(candidate.post(LEASES, _lease("pool-x", "right_1234"))) == (FORBIDDEN, said)
    assert candidate.post(LEASES, _lease("pool-x", "leftover_1"))[0] == FORBIDDEN
    expect(plane.admin.post(LEASES, _lease("pool-y", "right_1")))
    taken = expect(candidate.get(f"{LEASES}/pool-y"))
    taken["spec"]["holderIdentity"] = "right_2"
    assert candidate.put(f"{LEASES}/pool-y", taken)[0] == FORBIDDEN
    taken["spec"]["holderIdentity"] = "left_2"
    assert candidate.put(f"{LEASES}/pool-y", taken)[0] == HTTPStatus.OK


def test_a_candidate_writes_neither_the_controllers_lease_nor_without_a_node(
    cluster: Cluster,
) -> None:
    plane = cluster.plane
    candidate = plane.client(token_of_pod(plane, "pool-candidate", "left"))
    said = "candidates write only Leases named pool-…, not controller"
    lease = expect(candidate.get(f"{LEASES}/controller"))
    lease["spec"]["holderIdentity"] = "left_1"
    assert _said(candidate.put(f"{LEASES}/controller", lease)) == (FORBIDDEN, said)
    loose = plane.client(plane.new_token("edge-pool", "pool-candidate"))
    assert loose.post(LEASES, _lease("pool-z", "left_1"))[0] == FORBIDDEN


def test_a_kubelet_writes_no_lease_of_a_pool(cluster: Cluster) -> None:
    assert cluster.nodes["left"].post(LEASES, _lease("pool-k", "left"))[0] == FORBIDDEN


def _lease(name: str, holder: str) -> Json:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": {"holderIdentity": holder},
    }


def _condition() -> Json:
    return {
        "type": "Admitted",
        "status": "False",
        "reason": "PoolFull",
        "message": "x",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
