"""S7: electors with shards write their own Leases alone, held to it by components/elector-shards
and the policy, before a real API server."""

from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from tests.integration.manifests.confined import unused
from tests.integration.manifests.gm_and_lc import until
from tests.integration.manifests.typist import Typist
from tests.unit.manifests.built import Json, containers, named, workload, write_kustomization
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.access.service_account import ServiceAccountDirectory
from tools.harness.controlplane.clients.admin import USER_AGENT, AdminClient
from tools.harness.controlplane.clients.kustomize import kustomize
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import FAST, Fleet

LABEL = "edge-sidecars.io/election"
LABELS = {LABEL: "shop"}
OURS = "denied request: "
# All that RBAC can say of Leases, for accounts of no election and for the other one's.
ANY_LEASE = [
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "create", "update"],
    }
]
APPLY = "kubectl apply --server-side --validate=strict"
POLICY = "edge-sidecars/manifests/election-policy"


@dataclass(frozen=True)
class Shop:
    """A Deployment named shop as kustomize built it and kubectl applied it, and its electors'
    account. The typist's folder has what was built in `built`."""

    plane: ControlPlane
    namespace: str
    objects: list[Json]
    typist: Typist

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self.namespace}:shop"

    @property
    def leases(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    def client(self, account: str = "shop", pod: str = "") -> AdminClient:
        """With the token that kubelet would mount into `pod`; "": one that names no pod."""
        body = self.pod(pod, account) if pod else None
        return self.plane.client(self.plane.new_token(self.namespace, account, pod=body))

    def pod(self, name: str, account: str = "shop") -> Json:
        """A pod of the account, which runs nowhere."""
        pods = f"/api/v1/namespaces/{self.namespace}/pods"
        status, found = self.plane.admin.get(f"{pods}/{name}")
        if status == HTTPStatus.OK:
            return found
        main = {"name": "main", "image": "example.com/shop:1"}
        spec = {"serviceAccountName": account, "containers": [main]}
        return expect(self.plane.admin.post(pods, {"metadata": {"name": name}, "spec": spec}))

    def make(self, name: str, **metadata: Any) -> None:
        """A Lease that somebody else made."""
        expect(self.plane.admin.post(self.leases, _lease(name, **metadata)))

    def write(
        self, name: str, *, account: str = "shop", pod: str = "", holder: str = "", **metadata: Any
    ) -> tuple[int, str]:
        """The answer to an update of the whole Lease by an account; what it says if refused."""
        path = f"{self.leases}/{name}"
        version = expect(self.plane.admin.get(path))["metadata"]["resourceVersion"]
        body = _lease(name, holder, resourceVersion=version, **metadata)
        return _told(self.client(account, pod).put(path, body))

    def create(
        self, name: str, *, account: str = "shop", pod: str = "", holder: str = "", **metadata: Any
    ) -> tuple[int, str]:
        body = _lease(name, holder, **metadata)
        return _told(self.client(account, pod).post(self.leases, body))


def _lease(name: str, holder: str = "", **metadata: Any) -> Json:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, **metadata},
        "spec": {"holderIdentity": holder} if holder else {},
    }


def _told(answer: tuple[int, Json]) -> tuple[int, str]:
    status, body = answer
    return status, str(body.get("message", "")).partition(OURS)[2]


@pytest.fixture(scope="module")
def shop(own_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    namespace = own_plane.create_namespace("shop")
    _build(folder / "built", namespace=namespace)
    _build(folder / "prefixed", namePrefix="dev-")
    _build(folder / "suffixed", nameSuffix="-eu")
    typist = Typist(own_plane, folder)
    typist.type(f"{APPLY} -k {POLICY}\n{APPLY} -k built")
    for name in ("other", "shop-other"):
        own_plane.service_account_dir(namespace, name, ANY_LEASE)
    it = Shop(own_plane, namespace, kustomize(folder / "built"), typist)
    # Of the API server's own watches of policies and RoleBindings.
    until(lambda: it.create("in-force")[1], what="the policy is in force")
    yield it
    typist.type(f"kubectl delete -k {POLICY}")


def _build(folder: Path, **more: str) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "shop"}}
    body = workload(serviceAccountName="shop")
    body["spec"]["replicas"] = 0
    components = ["elector-sidecar", "elector-shards"]
    write_kustomization(folder, [account, body], components=components, **more)


# ── what the account may write ──


def test_a_pod_writes_its_own_name_and_the_table(shop: Shop) -> None:
    of_pod: Json = {"pod": "pod-0", "holder": "pod-0_1", "labels": LABELS}
    assert shop.create("shop-pod-0", **of_pod) == (HTTPStatus.CREATED, "")
    assert shop.write("shop-pod-0", **of_pod) == (HTTPStatus.OK, "")
    assert shop.write("shop", **of_pod | {"holder": "shards"}) == (HTTPStatus.OK, "")


def test_a_pod_holds_no_other_lease_of_its_election(shop: Shop) -> None:
    of_pod: Json = {"pod": "pod-0", "holder": "pod-0_1", "labels": LABELS}
    shop.make("shop-held-1", labels=LABELS)
    for answer, name in (
        (shop.create("shop-eu-pod1", **of_pod), "shop-eu-pod1"),
        (shop.create("shop-pod-01", **of_pod), "shop-pod-01"),
        (shop.write("shop-held-1", **of_pod), "shop-held-1"),
    ):
        said = f"the pod pod-0 holds only the Lease shop-pod-0, not {name}: leave out --identity"
        assert answer[0] == HTTPStatus.FORBIDDEN
        assert answer[1].startswith(said)
    assert shop.plane.admin.get(f"{shop.leases}/shop-eu-pod1")[0] == HTTPStatus.NOT_FOUND


def test_the_lease_of_a_member_that_died_is_emptied_or_created_empty(shop: Shop) -> None:
    """Else its shards would be nobody's."""
    dead = "shop-dead-0"
    expect(shop.plane.admin.post(shop.leases, _lease(dead, "dead-0_1", labels=LABELS)))
    assert shop.write(dead, pod="pod-0", labels=LABELS) == (HTTPStatus.OK, "")
    assert shop.create("shop-dead-1", pod="pod-0", labels=LABELS) == (HTTPStatus.CREATED, "")


def test_a_token_that_names_no_pod_holds_no_members_lease(shop: Shop) -> None:
    status, said = shop.create("shop-pod-7", holder="pod-7_1", labels=LABELS)
    assert status == HTTPStatus.FORBIDDEN
    assert said.startswith(
        f"{shop.user} holds a member Lease only with the token that kubelet mounts into a pod"
    )
    assert shop.write("shop", holder="shards", labels=LABELS) == (HTTPStatus.OK, "")


def test_an_election_makes_no_lease_in_the_names_of_another(shop: Shop) -> None:
    """Of `shop-eu`, whose name begins with that of `shop`: also no empty one, which the member
    of that name would find and leave alone."""
    shop.typist.type(f"{APPLY} --namespace {shop.namespace} -k suffixed")
    eu: Json = {"account": "shop-eu", "labels": {LABEL: "shop-eu"}}
    until(lambda: shop.create("x", **eu)[1], what="the other RoleBinding is known")
    for name in ("shop-eu-pod1", "shop-eu"):
        status, said = shop.create(name, pod="pod-0", labels=LABELS)
        assert status == HTTPStatus.FORBIDDEN
        assert said.startswith(
            f"the Lease {name} has a name of the election shop-eu, and the label"
        )
    assert shop.create("shop-eu-pod1", pod="pod1", holder="pod1_1", **eu)[0] == HTTPStatus.CREATED
    assert shop.create("shop-eu-gone", pod="pod1", **eu)[0] == HTTPStatus.CREATED
    # Two of one name: the first one has it.
    of_pod: Json = {"pod": "eu-pod2", "holder": "eu-pod2_1", "labels": LABELS}
    assert shop.create("shop-eu-pod2", **of_pod)[0] == HTTPStatus.CREATED
    # An administrator may, as from a backup.
    shop.make("shop-eu-pod3", labels=LABELS)


def test_any_other_name_is_refused(shop: Shop) -> None:
    said = f"{shop.user} writes only Leases named shop or shop-…, not "
    for name in ("shopping", "other", "sho"):
        assert shop.create(name, labels=LABELS) == (HTTPStatus.FORBIDDEN, f"{said}{name}")
    shop.make("billing", labels=LABELS)
    assert shop.write("billing", labels=LABELS) == (HTTPStatus.FORBIDDEN, f"{said}billing")


def test_a_lease_without_the_label_of_the_election_is_not_made(shop: Shop) -> None:
    said = f"{shop.user} writes only Leases with the label {LABEL}=shop, which shop-x lacks"
    for labels in ({}, {LABEL: "billing"}, {LABEL: ""}, {"app": "shop"}):
        assert shop.create("shop-x", labels=labels) == (HTTPStatus.FORBIDDEN, said)


def test_the_label_is_not_taken_off(shop: Shop) -> None:
    shop.make("shop-labelled", labels=LABELS)
    status, said = shop.write("shop-labelled")
    assert (status, said.endswith("which shop-labelled lacks")) == (HTTPStatus.FORBIDDEN, True)


@pytest.mark.parametrize("labels", [{}, {LABEL: "shop-a"}], ids=["none", "another election's"])
def test_a_lease_that_somebody_else_made_is_not_taken(shop: Shop, labels: Json) -> None:
    name = f"shop-foreign-{len(labels)}"
    shop.make(name, labels=labels)
    said = f"the Lease {name} exists without the label {LABEL}=shop: it belongs to somebody else"
    assert shop.write(name, labels=LABELS) == (HTTPStatus.FORBIDDEN, said)


def test_the_table_is_taken_over_from_whoever_led_before(shop: Shop) -> None:
    without = {"metadata": {"labels": {LABEL: None}}}
    expect(shop.plane.admin.patch(f"{shop.leases}/shop", without))
    assert shop.write("shop", labels=LABELS) == (HTTPStatus.OK, "")


def test_a_member_puts_its_label_back_but_not_on_another_elections(shop: Shop) -> None:
    member = {"edge-sidecars.io/member": "{}"}
    shop.make("shop-pod-1", annotations=member)
    # Another pod's is not held by a pod that puts its label on it.
    stolen = shop.write("shop-pod-1", pod="pod-0", holder="pod-0_1", labels=LABELS)
    assert stolen[0] == HTTPStatus.FORBIDDEN
    own = shop.write("shop-pod-1", pod="pod-1", holder="pod-1_1", labels=LABELS)
    assert own == (HTTPStatus.OK, "")
    shop.make("shop-a-pod-1", annotations=member, labels={LABEL: "shop-a"})
    assert shop.write("shop-a-pod-1", labels=LABELS)[0] == HTTPStatus.FORBIDDEN


def test_other_service_accounts_write_what_rbac_allows(shop: Shop) -> None:
    for account in ("other", "shop-other"):
        name = f"of-{account}"
        assert shop.create(name, account=account) == (HTTPStatus.CREATED, "")
        assert shop.write(name, account=account, labels={"a": "b"}) == (HTTPStatus.OK, "")
        # With no name of ours either: the policy protects against electors, not electors.
        assert shop.create(f"shop-{name}", account=account) == (HTTPStatus.CREATED, "")


def test_two_elections_of_a_namespace_are_held_apart(shop: Shop) -> None:
    """The other one has a prefix, and its RoleBinding says no namespace of the account."""
    shop.typist.type(f"{APPLY} --namespace {shop.namespace} -k prefixed")
    until(lambda: shop.create("x", account="dev-shop")[1], what="the other RoleBinding is known")
    labels = {LABEL: "dev-shop"}
    assert shop.create("dev-shop-0", account="dev-shop", labels=labels)[0] == HTTPStatus.CREATED
    said = shop.create("shop-0", account="dev-shop", labels=labels)[1]
    assert "dev-shop writes only Leases named dev-shop or dev-shop-…, not shop-0" in said
    assert shop.create("dev-shop-1", labels=labels)[0] == HTTPStatus.FORBIDDEN
    assert shop.create("shop-0", labels=LABELS) == (HTTPStatus.CREATED, "")


def test_an_account_of_the_same_name_elsewhere_is_not_held_to_it(shop: Shop) -> None:
    elsewhere = shop.plane.create_namespace("elsewhere")
    shop.plane.service_account_dir(elsewhere, "shop", ANY_LEASE)
    client = shop.plane.client(shop.plane.new_token(elsewhere, "shop"))
    path = f"/apis/coordination.k8s.io/v1/namespaces/{elsewhere}/leases"
    assert _told(client.post(path, _lease("anything"))) == (HTTPStatus.CREATED, "")


def test_an_administrator_writes_anything(shop: Shop) -> None:
    shop.make("by-hand")
    expect(shop.plane.admin.patch(f"{shop.leases}/by-hand", {"metadata": {"labels": {"a": "b"}}}))


# ── electors under these rights ──


def _mount(shop: Shop, name: str) -> ServiceAccountDirectory:
    """The token that kubelet would mount into the pod."""
    account = shop.plane.service_account_dir(shop.namespace, "shop", [])
    token = shop.plane.new_token(shop.namespace, "shop", pod=shop.pod(name))
    account.replace(token=token)
    return account


def _environ(shop: Shop, name: str) -> dict[str, str]:
    """What the manifest sets, and what kubelet would make of the downward API."""
    pod = shop.pod(name)
    template = named(shop.objects, "Deployment", "shop")
    (elector,) = [it for it in containers(template) if it["name"] == "elector"]
    downward = {"POD_NAME": name, "POD_UID": pod["metadata"]["uid"]}
    variables = {it["name"]: it.get("value", downward.get(it["name"])) for it in elector["env"]}
    assert variables.keys() >= downward.keys() | {"ELECTOR_SHARDS"}
    return {
        key: value for key, value in variables.items() if value and key != "ELECTOR_PROBE_LISTEN"
    }


def _owned(pod: ElectorPod) -> int:
    answer = pod.ask("/shards?promise=false", timeout=10)
    assert answer is not None, f"{pod.name} does not answer"
    return len(answer.json()["owned"])


@pytest.mark.slow
def test_electors_work_within_these_rights_and_use_all_of_them(shop: Shop) -> None:
    with Fleet(shop.plane, shop.namespace, lease="shop") as fleet:
        first, second = (
            fleet.add(
                *("--shard-settle", "1s"),
                timing=FAST,
                credentials=_mount(shop, f"pod-{number}"),
                environ=_environ(shop, f"pod-{number}"),
            )
            for number in range(2)
        )
        until(lambda: [_owned(it) for it in (first, second)] == [32, 32], what="even shares")
        member = f"{shop.leases}/shop-{second.name}"
        lease = expect(shop.plane.admin.get(member))
        assert lease["metadata"]["labels"] == LABELS
        assert lease["metadata"]["ownerReferences"][0]["name"] == second.name
        _edit_by_hand(shop, member)
        # Who applies the manifests again neither conflicts with electors nor moves a shard.
        shop.typist.type(f"{APPLY} -k built")
        assert [_owned(it) for it in (first, second)] == [32, 32]
        # Waited out, and its Lease is emptied by the other one.
        first.kill()
        until(lambda: _owned(second) == 64, what="all shards")
        emptied = expect(shop.plane.admin.get(f"{shop.leases}/shop-{first.name}"))
        assert emptied["spec"]["holderIdentity"] == ""
        rules = named(shop.objects, "Role", "shop-elector")["rules"]
        until(lambda: not unused(rules, shop.plane.audit(stage=None, user=shop.user)), what="use")
        refused = {
            f"{it.verb} {it.request_uri}"
            for it in shop.plane.audit(stage=None, user=shop.user)
            if it.status == HTTPStatus.FORBIDDEN and it.user_agent != USER_AGENT
        }
        assert refused == set()
        assert "Traceback" not in second.log_text()


@pytest.mark.slow
def test_an_elector_that_the_policy_refuses_says_so(shop: Shop) -> None:
    with Fleet(shop.plane, shop.namespace, lease="another") as fleet:
        credentials, environ = _mount(shop, "pod-9"), _environ(shop, "pod-9")
        pod = fleet.add(timing=FAST, credentials=credentials, environ=environ)

        def reason() -> str:
            answer = pod.ask("/leader", timeout=10)
            return answer.json()["reason"] if answer else ""

        until(lambda: "elections.edge-sidecars.io" in reason(), what="the policy's words")
        assert "needs Role" not in reason()


def _edit_by_hand(shop: Shop, member: str) -> None:
    """The label comes back; so does a table that was deleted."""
    table = f"{shop.leases}/shop"
    uid = expect(shop.plane.admin.get(table))["metadata"]["uid"]
    expect(shop.plane.admin.patch(member, {"metadata": {"labels": {LABEL: None}}}))
    expect(shop.plane.admin.delete(table))

    def is_repaired() -> bool:
        labels = shop.plane.admin.get(member)[1]["metadata"].get("labels")
        status, found = shop.plane.admin.get(table)
        return labels == LABELS and status == HTTPStatus.OK and found["metadata"]["uid"] != uid

    until(is_repaired, what="the label and the table")
