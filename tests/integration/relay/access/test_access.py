"""Promise R7: nobody reads through the cache what the API server would deny them.

Against real RBAC with real tokens of service accounts; what a refusal says is compared with what
the API server itself says to the same caller.
"""

import time
from collections.abc import Iterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from edge_sidecars.kubeapi import InCluster
from edge_sidecars.kubeapi.kubeconfig import Kubeconfig
from edge_sidecars.runtime.cli.values import Address
from relay_sidecar.access.admission import OwnAccess
from tests.integration.relay.access.door import Callers, door
from tests.integration.relay.hosted import Hosted
from tools.harness.controlplane.access.service_account import EXPIRY_LEEWAY, ServiceAccountDirectory
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.wire.caller import Caller

PODS = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
RESOLVED = Address("127.0.0.1", 10550)


class Accounts:
    """Two accounts in one namespace: one may read pods, the other nothing."""

    def __init__(self, plane: ControlPlane, namespace: str, fault_proxy: FaultProxy) -> None:
        self.plane = plane
        self.namespace = namespace
        self.link = fault_proxy
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.relay = plane.service_account_dir(namespace, "relay", [])
        self.reader = plane.service_account_dir(namespace, "reader", PODS)
        self.stranger = plane.service_account_dir(namespace, "stranger", [])

    @property
    def credentials(self) -> InCluster:
        return InCluster(self.link.url, self.relay.path)

    def callers(self, **options: Any) -> Callers:
        return Callers(self.credentials, **options)

    def asked(self, resource: str, account: str) -> int:
        """How often upstream was asked about the account."""
        user = f"system:serviceaccount:{self.namespace}:{account}"
        return self.plane.count_requests(resource=resource, user=user)

    def wait_asked(self, account: str, times: int) -> None:
        """Returns when upstream was asked so often what the account may."""
        wait_for(
            lambda: self.asked("selfsubjectaccessreviews", account) == times,
            timeout=10,
            what=f"{times} questions",
        )


@pytest.fixture
def accounts(control_plane: ControlPlane, namespace: str, fault_proxy: FaultProxy) -> Accounts:
    return Accounts(control_plane, namespace, fault_proxy)


def bearer(account: ServiceAccountDirectory) -> dict[str, str]:
    return {"Authorization": f"Bearer {(account.path / 'token').read_text()}"}


def at(place: Hosted, account: ServiceAccountDirectory | None = None) -> Caller:
    return Caller(place.url, headers={} if account is None else bearer(account))


def directly(accounts: Accounts, account: ServiceAccountDirectory) -> Caller:
    context = accounts.plane.tls(as_admin=False)
    return Caller(accounts.plane.server, context=context, headers=bearer(account))


# ── caller: as the API server would ──


def test_r7_each_caller_may_what_its_own_token_may(accounts: Accounts) -> None:
    with accounts.callers().door() as place:
        assert at(place, accounts.reader).get(accounts.pods).status == HTTPStatus.OK
        assert at(place, accounts.stranger).get(accounts.pods).status == HTTPStatus.FORBIDDEN
        assert at(place).get(accounts.pods).status == HTTPStatus.UNAUTHORIZED


@pytest.mark.parametrize(
    "path",
    [
        "{pods}",
        "{pods}?watch=1",
        "{pods}/some",
        "{pods}/some/log",
        "{pods}?fieldSelector=metadata.name%3Dsome",
        "/api/v1/pods",
        "/api/v1/nodes/some",
        "/apis/apps/v1/namespaces/default/deployments",
        "/api/v1/namespaces/kube-system",
        "/metrics",
    ],
)
def test_r7_a_refusal_is_the_api_servers_own(accounts: Accounts, path: str) -> None:
    asked = path.format(pods=accounts.pods)
    with accounts.callers().door() as place:
        ours = at(place, accounts.stranger).get(asked)
    theirs = directly(accounts, accounts.stranger).get(asked)
    assert theirs.status == HTTPStatus.FORBIDDEN
    assert (ours.status, ours.json()) == (theirs.status, theirs.json())


@pytest.mark.parametrize("path", ["/version", "/api", "/apis", "/openapi/v3", "/healthz"])
def test_r7_what_is_no_resource_is_decided_by_its_path(accounts: Accounts, path: str) -> None:
    """To whomever system:discovery and system:public-info-viewer are bound."""
    with accounts.callers().door() as place:
        assert at(place, accounts.stranger).get(path).status == HTTPStatus.OK


def test_r7_selectors_are_part_of_what_is_asked(accounts: Accounts) -> None:
    with accounts.callers().door() as place:
        reader = at(place, accounts.reader)
        for query in ({"fieldSelector": "spec.nodeName=n1"}, {"labelSelector": "a in (b,c)"}):
            assert reader.get(accounts.pods, query).status == HTTPStatus.OK
        # And one whether it may get as well, for the time when nobody can be asked.
        accounts.wait_asked("reader", 3)


def test_r7_the_relays_client_certificate_lends_nobody_its_rights(accounts: Accounts) -> None:
    """An API server believes a certificate before a token: the relay here is administrator."""
    admin = Kubeconfig(accounts.plane.admin_kubeconfig(server=accounts.link.url))
    with Callers(admin).door() as place:
        assert at(place, accounts.reader).get(accounts.pods).status == HTTPStatus.OK
        assert at(place, accounts.stranger).get(accounts.pods).status == HTTPStatus.FORBIDDEN


# ── caller: for how long ──


def test_a_right_that_is_taken_away_ends_with_the_ttl(accounts: Accounts) -> None:
    with accounts.callers(ttl=0.5).door() as place:
        reader = at(place, accounts.reader)
        assert reader.get(accounts.pods).status == HTTPStatus.OK
        accounts.plane.service_account_dir(accounts.namespace, "reader", [])
        wait_for(
            lambda: reader.get(accounts.pods).status == HTTPStatus.FORBIDDEN,
            timeout=10,
            what="the end of the right",
        )
        accounts.link.refuse()
        assert reader.get(accounts.pods).status == HTTPStatus.FORBIDDEN


# ── caller: cut off ──


@pytest.mark.parametrize("is_noticed", [True, False])
def test_r7_while_cut_off_only_what_was_decided_before_stands(
    accounts: Accounts, is_noticed: bool
) -> None:
    callers = accounts.callers(ttl=0.2)
    with callers.door() as place:
        reader, stranger = at(place, accounts.reader), at(place, accounts.stranger)
        assert reader.get(accounts.pods).status == HTTPStatus.OK
        assert stranger.get(accounts.pods).status == HTTPStatus.FORBIDDEN
        accounts.link.refuse()
        callers.is_up = not is_noticed
        assert reader.get(accounts.pods).status == HTTPStatus.OK
        denied = stranger.get(accounts.pods)
        assert denied.json() == directly(accounts, accounts.stranger).get(accounts.pods).json()
        for unknown in (reader.get("/api/v1/pods"), at(place, accounts.relay).get(accounts.pods)):
            assert unknown.status == HTTPStatus.SERVICE_UNAVAILABLE
            assert unknown.json()["kind"] == "Status"
        assert at(place).get(accounts.pods).status == HTTPStatus.UNAUTHORIZED


@pytest.mark.long
def test_r7_while_cut_off_a_token_is_good_beyond_its_own_end(accounts: Accounts) -> None:
    """By whose clock? This machine's may be wrong; the issuer's says so when it is back."""
    callers = accounts.callers(ttl=0.2)
    with callers.door() as place:
        expires_in = EXPIRY_LEEWAY + 1
        token = accounts.plane.new_token(accounts.namespace, "reader", expires_in=expires_in)
        reader = Caller(place.url, headers={"Authorization": f"Bearer {token}"})
        assert reader.get(accounts.pods).status == HTTPStatus.OK
        accounts.link.refuse()
        callers.is_up = False
        time.sleep(expires_in)
        assert reader.get(accounts.pods).status == HTTPStatus.OK


def test_r7_what_was_decided_survives_a_restart_while_cut_off(
    accounts: Accounts, tmp_path: Path
) -> None:
    before = accounts.callers(directory=tmp_path)
    with before.door() as place:
        assert at(place, accounts.reader).get(accounts.pods).status == HTTPStatus.OK
        assert at(place, accounts.stranger).get(accounts.pods).status == HTTPStatus.FORBIDDEN
    accounts.link.refuse()
    after = accounts.callers(directory=tmp_path)
    after.is_up = False
    with after.door() as place:
        assert at(place, accounts.reader).get(accounts.pods).status == HTTPStatus.OK
        assert at(place, accounts.stranger).get(accounts.pods).status == HTTPStatus.FORBIDDEN
        unknown = at(place, accounts.relay).get(accounts.pods)
        assert unknown.status == HTTPStatus.SERVICE_UNAVAILABLE
    accounts.link.heal()
    after.is_up = True
    with after.door() as place:
        assert at(place, accounts.reader).get(accounts.pods).status == HTTPStatus.OK


def test_r7_no_token_lies_on_the_disk(accounts: Accounts, tmp_path: Path) -> None:
    with accounts.callers(directory=tmp_path).door() as place:
        assert at(place, accounts.reader).get(accounts.pods).status == HTTPStatus.OK
    token = (accounts.reader.path / "token").read_bytes()
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"reader" in written
    for part in token.split(b"."):
        assert part not in written


# ── own ──


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("secret-1\n")
    return path


def own(**options: Any) -> Hosted:
    @asynccontextmanager
    async def opened() -> Any:
        yield OwnAccess(RESOLVED, **options)

    return door(opened)


@pytest.fixture(scope="module")
def open_door() -> Iterator[Hosted]:
    with own(allowed_hosts=["kubernetes.default.svc", "10.1.2.3"]) as place:
        yield place


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:10550",
        "127.1.2.3:80",
        "localhost",
        "LocalHost:10550",
        "localhost.",
        "[::1]:10550",
        "[::1]",
        "kubernetes.default.svc:443",
        "Kubernetes.Default.svc",
        "10.1.2.3",
    ],
)
def test_whoever_calls_the_relay_by_its_names_may_all(open_door: Hosted, host: str) -> None:
    answer = at(open_door).get("/api/v1/pods", host=host)
    assert answer.status == HTTPStatus.OK
    assert answer.json()["stands"] is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example.com",
        "localhost.evil.example.com",
        "127.0.0.1.evil.example.com",
        "evil.example.com:10550",
        "127.0.0.1:10550@evil.example.com",
        "10.0.0.1",
        "0.0.0.0",
        "[::]",
        "[fd00::1]:80",
        "2130706433",
        "",
    ],
)
def test_a_page_whose_name_points_here_is_refused(open_door: Hosted, host: str) -> None:
    """DNS rebinding: the browser sends the name that the page is from."""
    answer = at(open_door).get("/api/v1/pods", host=host)
    assert answer.status == HTTPStatus.FORBIDDEN
    assert answer.json()["reason"] == "Forbidden"
    assert "--allowed-host" in answer.json()["message"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example.com"},
        {"Origin": "null"},
        {"Origin": "http://localhost:3000"},
        {"Origin": "http://127.0.0.1:10550"},
        {"Origin": "http://evil.example.com", "Upgrade": "websocket"},
        {"Origin": "http://127.0.0.1:3000", "Upgrade": "websocket"},
    ],
)
def test_a_request_of_a_web_page_is_refused(open_door: Hosted, headers: dict[str, str]) -> None:
    answer = at(open_door).ask("/api/v1/pods", headers={"Host": "127.0.0.1:10550", **headers})
    assert answer.status == HTTPStatus.FORBIDDEN
    assert "Origin" in answer.json()["message"]


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (None, HTTPStatus.UNAUTHORIZED),
        ("Bearer wrong", HTTPStatus.UNAUTHORIZED),
        ("Bearer secret-1x", HTTPStatus.UNAUTHORIZED),
        ("Basic secret-1", HTTPStatus.UNAUTHORIZED),
        ("Bearer secret-1", HTTPStatus.OK),
        ("bearer secret-1", HTTPStatus.OK),
    ],
)
def test_with_a_local_token_only_who_brings_it_may(
    token_file: Path, authorization: str | None, status: HTTPStatus
) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    with own(token_file=token_file) as place:
        answer = Caller(place.url, headers=headers).get("/api/v1/pods")
    assert answer.status == status
    if status == HTTPStatus.UNAUTHORIZED:
        assert answer.json()["reason"] == "Unauthorized"


@pytest.mark.parametrize(
    ("protocols", "status"),
    [
        ("base64url.bearer.authorization.k8s.io.c2VjcmV0LTE, x", HTTPStatus.OK),
        ("base64url.bearer.authorization.k8s.io.c2VjcmV0LTI, x", HTTPStatus.UNAUTHORIZED),
        ("base64url.bearer.authorization.k8s.io.c2VjcmV0LTE", HTTPStatus.UNAUTHORIZED),
        ("x", HTTPStatus.UNAUTHORIZED),
    ],
)
def test_a_websocket_may_bring_the_local_token_among_its_protocols(
    token_file: Path, protocols: str, status: HTTPStatus
) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Protocol": protocols}
    with own(token_file=token_file) as place:
        assert Caller(place.url, headers=headers).get("/api/v1/pods").status == status


def test_a_local_token_may_be_replaced_at_any_time(token_file: Path) -> None:
    with own(token_file=token_file) as place:
        first, second = (
            Caller(place.url, headers={"Authorization": f"Bearer secret-{number}"})
            for number in (1, 2)
        )
        assert first.get("/api/v1/pods").status == HTTPStatus.OK
        (token_file.parent / "new").write_text("secret-2")
        (token_file.parent / "new").rename(token_file)
        assert first.get("/api/v1/pods").status == HTTPStatus.UNAUTHORIZED
        assert second.get("/api/v1/pods").status == HTTPStatus.OK
        token_file.write_text("")
        assert second.get("/api/v1/pods").status == HTTPStatus.OK
        assert Caller(place.url, headers={"Authorization": "Bearer "}).get("/a").status == 401
