"""manifests/nodereport-policy: who may write which NodeReport, at kube-apiserver."""

import http.client
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from edge_sidecars.sedna_api.core.kinds import GROUP, NODE_REPORT
from edge_sidecars.sedna_api.core.node_report import NodeReport
from tests.integration.lib.sedna_api.definitions import MANIFESTS, manifests
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.clients.admin import AdminClient, Told
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.schemas.sedna_kinds import install

RULES = [
    {
        "apiGroups": [GROUP],
        "resources": [NODE_REPORT.plural],
        "verbs": ["get", "list", "create", "update", "patch", "delete", "deletecollection"],
    }
]
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
PATHS = {
    "ValidatingAdmissionPolicy": f"{ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{ADMISSION}/validatingadmissionpolicybindings",
}
# Seconds until kube-apiserver goes by a policy, or no more.
PATIENCE = 30.0
POLL_INTERVAL = 0.1


@dataclass(frozen=True)
class Writer:
    """Somebody who writes NodeReports in one namespace."""

    client: AdminClient
    namespace: str

    def create(self, node: str) -> Told:
        report = NodeReport.new(self.namespace, node, "s1", epoch=1)
        return self.client.post(NODE_REPORT.collection(self.namespace), report.to_json())

    def patch(self, name: str, **change: object) -> Told:
        return self.client.patch(NODE_REPORT.path(self.namespace, name), change)

    def delete(self, node: str) -> Told:
        return self.client.delete(NODE_REPORT.path(self.namespace, node))


class Accounts:
    """Service accounts that RBAC lets write every NodeReport of a namespace."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        self.namespace = namespace

    def writer(self, account: str, *, of: str = "", node: str = "") -> Writer:
        """With a token as kubelet gets it for a pod on `node`, or of no pod."""
        home = of or self.namespace
        directory = self._plane.service_account_dir(home, account, [], cluster_rules=RULES)
        bound = {} if not node else {"boundObjectRef": self._pod(home, account, node)}
        token = directory.path.joinpath("token").read_text() if not bound else ""
        if bound:
            path = f"/api/v1/namespaces/{home}/serviceaccounts/{account}/token"
            request = {"spec": {"expirationSeconds": 3600, **bound}}
            token = expect(self._plane.admin.post(path, request))["status"]["token"]
        context = self._plane.tls(as_admin=False)
        client = AdminClient("127.0.0.1", self._plane.port, context, token=token)
        return Writer(client, self.namespace)

    def _pod(self, namespace: str, account: str, node: str) -> dict[str, str]:
        name = f"{account}-{secrets.token_hex(3)}"
        body = {
            "metadata": {"name": name},
            "spec": {
                "nodeName": node,
                "serviceAccountName": account,
                "containers": [{"name": "main", "image": "example.com/lc:1"}],
            },
        }
        made = expect(self._plane.admin.post(f"/api/v1/namespaces/{namespace}/pods", body))
        uid = made["metadata"]["uid"]
        return {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid}


@pytest.fixture(scope="module")
def accounts(control_plane: ControlPlane) -> Iterator[Accounts]:
    """While the policy holds."""
    install(control_plane)
    accounts = Accounts(control_plane, control_plane.create_namespace("sedna"))
    admin = control_plane.admin
    policy = manifests(MANIFESTS / "nodereport-policy")
    judged = accounts.writer("probe")
    for manifest in policy:
        expect(admin.post(f"{PATHS[manifest['kind']]}?fieldValidation=Strict", manifest))
    try:
        _wait(judged, status=http.client.FORBIDDEN)
        yield accounts
    finally:
        for manifest in policy:
            admin.delete(f"{PATHS[manifest['kind']]}/{manifest['metadata']['name']}")
        _wait(judged, status=http.client.CREATED)


def _wait(writer: Writer, *, status: int) -> None:
    """Returns when a token of no pod meets with this."""
    deadline = time.monotonic() + PATIENCE
    while (answer := writer.create(f"probe-{secrets.token_hex(4)}"))[0] != status:
        assert time.monotonic() < deadline, answer
        time.sleep(POLL_INTERVAL)


def test_an_lc_writes_the_report_of_its_own_node(accounts: Accounts) -> None:
    lc = accounts.writer("lc", node="edge-a")

    expect(lc.create("edge-a"))
    expect(lc.patch("edge-a", epoch=2))
    expect(lc.delete("edge-a"))


def test_an_lc_touches_no_other_nodes_report(accounts: Accounts) -> None:
    other = accounts.writer("lc", node="edge-b")
    expect(other.create("edge-b"))
    lc = accounts.writer("lc", node="edge-a")

    for answer in (lc.create("edge-c"), lc.patch("edge-b", epoch=2), lc.delete("edge-b")):
        assert answer[0] == http.client.FORBIDDEN, answer
        assert "is not that of the token, edge-a" in answer[1]["message"]
    expect(lc.create("edge-a"))
    status, _ = lc.client.delete(NODE_REPORT.collection(accounts.namespace))
    assert status == http.client.FORBIDDEN
    expect(other.patch("edge-b", epoch=3))


def test_a_token_that_names_no_node_writes_nothing(accounts: Accounts) -> None:
    status, answer = accounts.writer("stray").create("edge-d")

    assert status == http.client.FORBIDDEN
    assert "names no node" in answer["message"]


def test_a_report_cannot_be_passed_off_as_another_nodes(accounts: Accounts) -> None:
    lc = accounts.writer("lc", node="edge-e")
    expect(lc.create("edge-e"))
    status, answer = lc.patch("edge-e", node="edge-f")

    assert status == http.client.UNPROCESSABLE_ENTITY
    assert "name of its node" in answer["message"]


def test_gm_writes_for_every_node_wherever_it_runs(
    accounts: Accounts, control_plane: ControlPlane
) -> None:
    control_plane.admin.post("/api/v1/namespaces", {"metadata": {"name": "sedna"}})
    gm = accounts.writer("gm", of="sedna", node="cloud-1")

    expect(gm.create("edge-g"))
    expect(gm.patch("edge-g", epoch=2))


def test_people_are_held_to_nothing_but_rbac(
    accounts: Accounts, control_plane: ControlPlane
) -> None:
    admin = Writer(control_plane.admin, accounts.namespace)

    expect(admin.create("edge-h"))
    expect(admin.delete("edge-h"))
