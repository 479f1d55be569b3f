"""The rights in manifests/rbac are those that the real processes need: all of them, and no more."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

import pytest

from tests.integration.manifests.confined import unused
from tests.integration.manifests.gm_and_lc import CLOUD, EDGE, OTHER, Site, rules, until
from tests.unit.manifests.built import gm_rules
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.audit import AuditEvent
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.schemas import sedna_kinds
from tools.harness.pods.elector import ElectorPod

# As in components/leader-label.
LABEL = "edge-sidecars.io/role=leader"
# Overlays, and the modes of their GMs.
SHARDS = "active-active-shards"
MODES = {"active-standby-service": "active-standby", "relay": "relay", SHARDS: "active-active"}


@pytest.fixture(scope="module")
def worked(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Site]:
    """By overlay; all has been done that GM and LC do."""
    sedna_kinds.install(control_plane)
    for node in (EDGE, OTHER, CLOUD):
        control_plane.admin.post("/api/v1/nodes", {"metadata": {"name": node}})

    # Two threads would both make the folder that all of them are in.
    folders = {name: tmp_path_factory.mktemp("rights") for name in MODES}

    def work(name: str) -> Site:
        with Site(
            control_plane,
            folders[name],
            mode=MODES[name],
            overlay_name=name,
            has_shards=name == SHARDS,
        ) as site:
            site.work()
        return site

    # Most of it is waiting for each other.
    with ThreadPoolExecutor() as pool:
        return dict(zip(MODES, pool.map(work, MODES), strict=True))


def _events(plane: ControlPlane, *users: str) -> Sequence[AuditEvent]:
    return [event for user in users for event in plane.audit(stage=None, user=user)]


def _refused(events: Sequence[AuditEvent]) -> set[str]:
    denied = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
    return {f"{it.verb} {it.request_uri}" for it in events if it.status in denied}


@pytest.mark.long
@pytest.mark.slow
def test_nothing_that_gm_and_lc_ask_for_is_refused(
    control_plane: ControlPlane, worked: dict[str, Site]
) -> None:
    for site in worked.values():
        assert _refused(_events(control_plane, site.gm_user, site.lc_user)) == set()


@pytest.mark.long
@pytest.mark.slow
def test_each_rule_of_gm_is_used(control_plane: ControlPlane, worked: dict[str, Site]) -> None:
    events = _events(control_plane, *(site.gm_user for site in worked.values()))
    assert unused(gm_rules(), events) == []
    assert unused(rules("relay", "ClusterRole", "sedna-gm-nodes"), events) == []
    assert unused(rules("relay", "Role", "gm-elector"), events) == []
    sharded = _events(control_plane, worked[SHARDS].gm_user)
    assert unused(rules(SHARDS, "Role", "gm-elector"), sharded) == []


@pytest.mark.long
@pytest.mark.slow
def test_each_rule_of_lc_is_used_in_mode_relay_and_none_in_others(
    control_plane: ControlPlane, worked: dict[str, Site]
) -> None:
    events = _events(control_plane, worked["relay"].lc_user)
    assert unused(rules("relay", "ClusterRole", "sedna-lc"), events) == []
    assert _events(control_plane, worked["active-standby-service"].lc_user) == []


@pytest.mark.slow
def test_the_leader_label_needs_its_role_and_no_more(
    control_plane: ControlPlane, namespace: str
) -> None:
    overlay_name = "active-standby-service"
    own, label = (rules(overlay_name, "Role", name) for name in ("gm-elector", "gm-label"))
    annotations = {"edge-sidecars.io/lease": "gm"}
    body = {
        "metadata": {"name": "gm-0", "annotations": annotations},
        "spec": {"containers": [{"name": "gm", "image": "example.com/gm:1"}]},
    }
    pods = f"/api/v1/namespaces/{namespace}/pods"
    expect(control_plane.admin.post(pods, body))
    kubeconfig = control_plane.kubeconfig_for(namespace, "gm", [*own, *label])
    flags = ["--namespace", namespace, "--kubeconfig", str(kubeconfig), "--on-missing", "take"]
    flags += ["--leader-label", LABEL]
    with ElectorPod(
        "gm-0", "gm", flags, environ={"POD_NAME": "gm-0"}, guardian=control_plane.guardian
    ) as elector:
        elector.start()
        key, _, value = LABEL.partition("=")
        until(
            lambda: (
                control_plane.admin.get(f"{pods}/gm-0")[1]["metadata"].get("labels", {}).get(key)
                == value
            ),
            what="the leader's pod bears the label",
        )
        user = f"system:serviceaccount:{namespace}:gm"
        until(lambda: not unused(label, _events(control_plane, user)), what="each rule is used")
    assert _refused(_events(control_plane, user)) == set()


def test_an_electors_account_writes_its_own_lease_and_makes_others(
    control_plane: ControlPlane, namespace: str
) -> None:
    """RBAC cannot hold `create` to a name."""
    own = rules("active-standby-service", "Role", "gm-elector")
    control_plane.kubeconfig_for(namespace, "gm", own)
    client = control_plane.client(control_plane.new_token(namespace, "gm"))
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    for name in ("gm", "another"):
        made = expect(client.post(leases, {"metadata": {"name": name}}))
        status, _ = client.put(f"{leases}/{name}", {**made, "spec": {"holderIdentity": "me"}})
        assert status == (HTTPStatus.OK if name == "gm" else HTTPStatus.FORBIDDEN)
    for path in (f"{leases}/another", leases, f"/api/v1/namespaces/{namespace}/pods"):
        assert client.get(path)[0] == HTTPStatus.FORBIDDEN
    assert client.delete(f"{leases}/gm")[0] == HTTPStatus.FORBIDDEN
