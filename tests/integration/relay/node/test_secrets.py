"""`--keep-secrets`: Secrets and tokens outlast a restart while cut, sealed, and for whom."""

import base64
import sqlite3
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

from edge_sidecars.apimachinery.objects import Item
from relay_sidecar.core.access.authorization import AuthorizationCache
from relay_sidecar.core.access.authorizer import Attributes, UserInfo
from relay_sidecar.core.access.expiry import OfflineClock
from relay_sidecar.journal.tables import item_digest, kept_digest
from tests.integration.relay.node.node_place import NodePlace, allow_nodes, write_key
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.wire.caller import Caller, Reply
from tools.harness.relay_objects import Contents

SECRET = "correct-horse-battery-staple-9000"
# Seconds in which reviews that were begun are answered, and on disk.
SAVED = 2.0
PODS = {"fieldSelector": "spec.nodeName=edge-1"}


@pytest.fixture(scope="module")
def rights(control_plane: ControlPlane) -> None:
    allow_nodes(control_plane)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return write_key(tmp_path / "node.key")


@pytest.fixture
def node(
    control_plane: ControlPlane, tmp_path: Path, rights: None, key: Path
) -> Iterator[NodePlace]:
    with NodePlace(control_plane, tmp_path, flags=[f"--keep-secrets={key}"]) as it:
        yield it


@pytest.fixture
def kubelet(node: NodePlace) -> Caller:
    return node.caller(node.pair)


def named(name: str) -> dict[str, str]:
    """As kubelet asks for a pod's Secret."""
    return {"fieldSelector": f"metadata.name={name}", "resourceVersion": "0"}


def put(contents: Contents, name: str, value: str = SECRET) -> str:
    contents.create("secrets", name, data={"password": base64.b64encode(value.encode()).decode()})
    return contents.path("secrets")


def restart(node: NodePlace) -> None:
    node.relay.kill()
    node.relay.start()


def value(reply: Reply) -> str:
    [item] = reply.expect()["items"]
    return base64.b64decode(item["data"]["password"]).decode()


def files(node: NodePlace) -> bytes:
    """All that the relay wrote, its log among it."""
    data = b"".join(path.read_bytes() for path in node.relay.data_dir.rglob("*") if path.is_file())
    return data + node.relay.log_text(all_lives=True).encode()


# ── Secrets ──


def test_a_secret_that_was_watched_by_name_outlasts_a_restart_while_cut(
    node: NodePlace, kubelet: Caller, contents: Contents
) -> None:
    path = put(contents, "db")
    put(contents, "unused", "of-nobody-here")
    assert value(kubelet.get(path, named("db"))) == SECRET
    # A list of all is no watch by name.
    assert kubelet.get(path, {"resourceVersion": "0"}).status == 200
    node.cut()
    restart(node)
    assert value(kubelet.get(path, named("db"))) == SECRET
    assert kubelet.get(f"{path}/db").json()["metadata"]["name"] == "db"
    assert kubelet.get(f"{path}/unused").status == 503
    assert kubelet.get(path, {"resourceVersion": "0"}).status == 503
    for text in (SECRET, base64.b64encode(SECRET.encode()).decode(), "of-nobody-here"):
        assert text.encode() not in files(node)


def test_a_secret_follows_upstream_and_goes_with_it(
    node: NodePlace, kubelet: Caller, contents: Contents
) -> None:
    path = put(contents, "db")
    assert value(kubelet.get(path, named("db"))) == SECRET
    rotated = base64.b64encode(b"rotated").decode()
    contents.edit("secrets", "db", {"data": {"password": rotated}})
    wait_for(
        lambda: value(kubelet.get(path, named("db"))) == "rotated", timeout=10, what="the rotation"
    )
    node.cut()
    restart(node)
    assert value(kubelet.get(path, named("db"))) == "rotated"
    node.link.heal()
    node.relay.wait_link(up=True)
    contents.delete("secrets", "db")
    wait_for(
        lambda: kubelet.get(path, named("db")).json().get("items") == [],
        timeout=20,
        what="the deletion",
    )
    node.cut()
    restart(node)
    assert kubelet.get(path, named("db")).json()["items"] == []
    assert kubelet.get(f"{path}/db").status == 404


@pytest.mark.parametrize("wrong", ["missing", "another"])
def test_without_its_key_secrets_are_unknown_and_all_else_works(
    node: NodePlace, kubelet: Caller, contents: Contents, key: Path, wrong: str
) -> None:
    path = put(contents, "db")
    contents.configmap("a")
    assert value(kubelet.get(path, named("db"))) == SECRET
    assert kubelet.get(contents.path("configmaps"), {"resourceVersion": "0"}).names == ["a"]
    node.cut()
    right = key.read_bytes()
    if wrong == "missing":
        key.unlink()
    else:
        write_key(key)
    restart(node)
    assert kubelet.get(path, named("db")).status == 503
    assert kubelet.get(contents.path("configmaps"), {"resourceVersion": "0"}).names == ["a"]
    assert str(key) in node.relay.log_text()
    # Nothing is lost as long as upstream has said nothing new.
    key.touch(mode=0o600)
    key.write_bytes(right)
    restart(node)
    assert value(kubelet.get(path, named("db"))) == SECRET


def test_rows_that_somebody_wrote_into_the_journal_open_no_secret(
    node: NodePlace, kubelet: Caller, contents: Contents
) -> None:
    """Whose an invented token is, and that this user may read all Secrets."""
    path = put(contents, "db")
    assert value(kubelet.get(path, named("db"))) == SECRET
    time.sleep(SAVED)
    node.cut()
    node.relay.kill()
    forge_rights(node.relay.data_dir / "journal.sqlite3", "invented", contents.namespace)
    node.relay.start()
    for pods in (False, True):
        stranger = node.caller(token="invented", pods=pods)
        assert stranger.get(f"{path}/db").status == 503
    assert value(kubelet.get(path, named("db"))) == SECRET
    assert "rows of the journal are not authentic" in node.relay.log_text()
    assert "relay_journal_rows_rejected_total 2" in node.relay.metrics()


def test_an_object_that_somebody_wrote_into_the_journal_is_shown(
    node: NodePlace, kubelet: Caller, contents: Contents
) -> None:
    """With the key, too: what is neither a Secret, a token nor a right has a checksum alone. Who
    can write there writes kubelet's pods: the page on security says so."""
    contents.configmap("a", said="by upstream")
    path = contents.path("configmaps")
    kubelet.get(path, {"resourceVersion": "0"}).expect()
    time.sleep(SAVED)
    node.cut()
    node.relay.kill()
    forge_objects(node.relay.data_dir / "journal.sqlite3", "a", b"by upstream", b"by somebody")
    node.relay.start()
    [item] = kubelet.get(path, {"resourceVersion": "0"}).expect()["items"]
    assert item["data"] == {"said": "by somebody"}


def forge_objects(journal: Path, name: str, old: bytes, new: bytes) -> None:
    with sqlite3.connect(journal) as connection:
        columns = "stream, namespace, version, raw"
        rows = connection.execute(f"SELECT {columns} FROM object WHERE name = ?", (name,))
        for stream, namespace, version, raw in rows.fetchall():
            item = Item((namespace, name), version, raw.replace(old, new))
            connection.execute(
                "UPDATE object SET raw = ?, digest = ?"
                " WHERE stream = ? AND namespace = ? AND name = ?",
                (item.raw, item_digest(item), stream, namespace, name),
            )
    connection.close()


def forge_rights(journal: Path, token: str, namespace: str) -> None:
    """As a relay without a key has them."""
    with sqlite3.connect(journal) as connection:
        rows = connection.execute("SELECT key, value FROM kept WHERE space = 'access'")
        # Behind what shows who wrote it.
        salt = dict(rows.fetchall())[b"salt"][-32:]
        clock = OfflineClock(boot_id="forged", now=0.0)
        cache = AuthorizationCache(salt=salt, ttl=60.0, offline_ttl=1e6, clock=clock)
        cache.identified(token, UserInfo("mighty"), now=0.0)
        wanted = Attributes(verb="get", version="v1", resource="secrets", namespace=namespace)
        cache.decided(token, wanted, allowed=True, reason="", now=0.0)
        for key, record in cache.take_unkept(now=0.0).items():
            if record is not None and key != "clock":
                digest = kept_digest("access", key.encode(), record)
                connection.execute(
                    "INSERT INTO kept (space, key, value, digest) VALUES ('access', ?, ?, ?)",
                    (key.encode(), record, digest),
                )
    connection.close()


# ── tokens ──


class Tokens:
    """What kubelet asks for the pod `web-0` of the account `default`."""

    def __init__(self, node: NodePlace, contents: Contents) -> None:
        self.node = node
        self.contents = contents
        self.kubelet = node.caller(node.pair)
        self.pod = contents.pod("web-0", node="edge-1")
        self.kubelet.get("/api/v1/pods", {**PODS, "resourceVersion": "0"}).expect()

    def ask(
        self, *, account: str = "default", audience: str = "", caller: Caller | None = None
    ) -> Reply:
        meta = self.pod["metadata"]
        spec = {
            "expirationSeconds": 3607,
            "audiences": [audience] if audience else [],
            "boundObjectRef": {
                "kind": "Pod",
                "apiVersion": "v1",
                "name": meta["name"],
                "uid": meta["uid"],
            },
        }
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"{self.contents.path('serviceaccounts', account)}/token"
        return (caller or self.kubelet).ask(path, method="POST", body=body)


@pytest.fixture
def tokens(node: NodePlace, contents: Contents) -> Tokens:
    return Tokens(node, contents)


def test_the_answer_to_a_token_request_is_the_very_same_while_cut_also_after_a_restart(
    node: NodePlace, tokens: Tokens
) -> None:
    given = tokens.ask()
    assert given.status == 201
    node.cut()
    for _ in range(2):
        again = tokens.ask()
        assert (again.status, again.body) == (201, given.body)
        assert again.headers["Content-Type"] == given.headers["Content-Type"]
        assert tokens.ask(audience="vault").status == 503
        restart(node)
    token = given.json()["status"]["token"]
    assert token.encode() not in files(node)
    assert "tokens_replayed_total" in node.relay.metrics()


def test_a_renewed_token_is_good_while_cut_also_before_its_pod_has_used_it(
    node: NodePlace, tokens: Tokens, control_plane: ControlPlane
) -> None:
    """A client that watches brings it up to ten minutes later, a node that restarts at once: also
    where the relay was restarted since the pod asked. For what it never asked, nobody vouches."""
    read = {"apiGroups": [""], "resources": ["configmaps", "services"], "verbs": ["get", "list"]}
    space = tokens.contents.namespace
    control_plane.service_account_dir(space, "default", [read])
    tokens.contents.configmap("a")
    path = tokens.contents.path("configmaps")
    used, renewed = (tokens.ask().json()["status"]["token"] for _ in range(2))
    # Those of before may be used until the client reads its file again.
    assert node.caller(token=used, pods=True).get(path).names == ["a"]
    restart(node)
    node.relay.wait_link(up=True)
    newest = tokens.ask().json()["status"]["token"]
    assert len({used, renewed, newest}) == 3
    # To list, and to get; of the one between, what there was time for.
    wait_for(lambda: reviews(node, space) >= 4, timeout=20, what="reviews of two tokens")
    time.sleep(SAVED)
    node.cut()
    restart(node)
    pod = node.caller(token=newest, pods=True)
    assert pod.get(path).names == ["a"]
    assert pod.get(f"{path}/a").status == 200
    assert pod.get(tokens.contents.path("services")).status == 503


def reviews(node: NodePlace, space: str) -> int:
    """What upstream was asked about the namespace's default account."""
    return len(
        node.plane.audit(
            user=f"system:serviceaccount:{space}:default", resource="selfsubjectaccessreviews"
        )
    )


def test_no_bearer_token_gets_a_kept_answer(
    node: NodePlace, tokens: Tokens, control_plane: ControlPlane
) -> None:
    """A stolen token of a pod asks for another pod's: 403 while upstream is there, else 503."""
    assert tokens.ask().status == 201
    space = tokens.contents.namespace
    account = control_plane.service_account_dir(space, "thief", [])
    thief = node.caller(token=(account.path / "token").read_text())
    assert tokens.ask(caller=thief).status == 403
    mighty = control_plane.service_account_dir(
        space, "mighty", [{"apiGroups": [""], "resources": ["*"], "verbs": ["*"]}]
    )
    node.cut()
    for name in (account, mighty):
        caller = node.caller(token=(name.path / "token").read_text())
        assert tokens.ask(caller=caller).status == 503
    assert tokens.ask().status == 201


def remove_account(tokens: Tokens) -> HTTPStatus:
    tokens.contents.delete("serviceaccounts", "default")
    return HTTPStatus.NOT_FOUND


def remove_pod(tokens: Tokens) -> HTTPStatus:
    tokens.contents.delete("pods", "web-0")
    return HTTPStatus.NOT_FOUND


def remove_rights(tokens: Tokens) -> HTTPStatus:
    rbac = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    admin = tokens.node.plane.admin
    for item in expect(admin.get(rbac))["items"]:
        if item["metadata"]["name"].startswith("nodes-"):
            expect(admin.delete(f"{rbac}/{item['metadata']['name']}"))
    return HTTPStatus.FORBIDDEN


@pytest.fixture(params=[remove_account, remove_pod, remove_rights])
def removal(
    request: pytest.FixtureRequest, control_plane: ControlPlane
) -> Iterator[Callable[[Tokens], HTTPStatus]]:
    yield request.param
    if request.param is remove_rights:
        allow_nodes(control_plane)


def test_what_was_taken_away_is_not_replayed_once_upstream_has_said_so(
    node: NodePlace, tokens: Tokens, removal: Callable[[Tokens], HTTPStatus]
) -> None:
    assert tokens.ask().status == 201
    status = removal(tokens)
    wait_for(lambda: tokens.ask().status == status, timeout=10, what="upstream's refusal")
    node.cut()
    assert tokens.ask().status == 503
    restart(node)
    assert tokens.ask().status == 503
