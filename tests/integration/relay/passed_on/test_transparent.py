"""R9: everything that a relay does not cache is passed on as it is: writes of every content type,
subresources, upgrades, streams, aggregated and non-resource URLs, impersonation, Leases."""

import json
import secrets
import socket
import ssl
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.integration.relay.oracle import assert_same_refusal
from tests.integration.relay.place import Place
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.access.certificates import Authority
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.wire.caller import Json
from tools.harness.relay_objects import Contents


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/merge-patch+json", {"data": {"new": "1"}}),
        ("application/strategic-merge-patch+json", {"data": {"new": "1"}}),
        ("application/json-patch+json", [{"op": "add", "path": "/data/new", "value": "1"}]),
    ],
)
def test_r9_patches_of_each_type_pass(
    shared: Place, contents: Contents, content_type: str, body: Json
) -> None:
    contents.configmap("a", old="0")
    said = shared.caller().ask(
        contents.path("configmaps", "a"),
        method="PATCH",
        headers={"Content-Type": content_type},
        body=json.dumps(body).encode(),
    )
    assert said.expect()["data"] == {"old": "0", "new": "1"}
    assert contents.get("configmaps", "a") == said.json()


def test_r9_server_side_apply_passes_with_its_query(shared: Place, contents: Contents) -> None:
    manifest = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  key: value\n"
    said = shared.caller().ask(
        contents.path("configmaps", "a"),
        {"fieldManager": "someone", "force": "true"},
        method="PATCH",
        headers={"Content-Type": "application/apply-patch+yaml"},
        body=manifest,
    )
    [managed] = said.expect(201)["metadata"]["managedFields"]
    assert (managed["manager"], managed["operation"]) == ("someone", "Apply")


def test_r9_puts_conflicts_and_dry_runs_pass(shared: Place, contents: Contents) -> None:
    made = contents.configmap("a", key="0")
    path = contents.path("configmaps", "a")
    contents.label("configmaps", "a", x="1")
    stale = shared.caller().put(path, {**made, "data": {"key": "1"}})
    assert stale.expect(409)["reason"] == "Conflict"
    dry = shared.caller().ask(
        path, {"dryRun": "All"}, method="PUT", body={**contents.get("configmaps", "a"), "data": {}}
    )
    assert "data" not in dry.expect()
    assert shared.caller().get(path).expect()["data"] == {"key": "0"}


def test_r9_generated_names_and_the_deletion_of_a_collection_pass(
    shared: Place, contents: Contents
) -> None:
    caller, path = shared.caller(), contents.path("configmaps")
    for _ in range(3):
        body = {"metadata": {"generateName": "g-", "labels": {"x": "1"}}}
        assert caller.post(path, body).expect(201)["metadata"]["name"].startswith("g-")
    contents.configmap("stays")
    caller.ask(path, {"labelSelector": "x=1"}, method="DELETE").expect()
    assert caller.get(path).names == ["stays"]
    assert caller.get(path, {"resourceVersion": "0"}).names == ["stays"]


def test_r9_writes_that_are_refused_are_refused_in_the_same_words(
    shared: Place, contents: Contents
) -> None:
    caller, path = shared.caller(), contents.path("configmaps")
    refused = caller.post(path, {"metadata": {"name": "Not A Name"}}).expect(422)
    assert refused == shared.cloud.post(path, {"metadata": {"name": "Not A Name"}}).expect(422)
    contents.configmap("a")
    assert caller.post(path, {"metadata": {"name": "a"}}).expect(409)["reason"] == "AlreadyExists"
    assert caller.delete(f"{path}/nope").expect(404)["reason"] == "NotFound"


def test_r9_large_writes_pass(shared: Place, contents: Contents) -> None:
    path = contents.path("configmaps")
    body = {"metadata": {"name": "large"}, "data": {"filler": "x" * 900_000}}
    shared.caller().post(path, body).expect(201)
    assert contents.get("configmaps", "large")["data"] == body["data"]


def test_r9_subresources_pass_and_are_not_the_object(shared: Place, contents: Contents) -> None:
    contents.pod("p", node="n1")
    caller, path = shared.caller(), contents.path("pods", "p")
    caller.get(contents.path("pods"), {"resourceVersion": contents.version("pods")}).expect()
    said = caller.patch(f"{path}/status", {"status": {"phase": "Running"}}).expect()
    assert said["status"]["phase"] == "Running"
    assert caller.get(f"{path}/status").expect()["status"]["phase"] == "Running"
    if not shared.is_relayed:
        # At version 0 the API server may answer from before now, but not behind a consistent list.
        contents.version("pods")
    assert caller.get(path, {"resourceVersion": "0"}).expect()["status"]["phase"] == "Running"
    contents.create("serviceaccounts", "someone")
    token = caller.post(
        f"{contents.path('serviceaccounts', 'someone')}/token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
    )
    assert token.expect(201)["status"]["token"]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p", "namespace": contents.namespace},
    }
    assert caller.post(f"{path}/eviction", eviction).status in (200, 201)


@pytest.mark.parametrize(
    "path",
    [
        "/version",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
        "/openapi/v3",
        "/healthz",
        "/livez",
        "/readyz",
        "/.well-known/openid-configuration",
    ],
)
def test_r9_what_is_no_resource_is_answered_as_upstream_does(shared: Place, path: str) -> None:
    said, truth = shared.caller().get(path), shared.cloud.get(path)
    while (before := truth.body) != said.body:
        # Kinds of tests before this one come and go bit by bit.
        said, truth = shared.caller().get(path), shared.cloud.get(path)
        if truth.body == before:
            break
    assert (said.status, said.body) == (truth.status, truth.body)
    assert said.headers["Content-Type"] == truth.headers["Content-Type"]


def test_r9_aggregated_discovery_is_answered_in_the_form_that_was_asked_for(
    shared: Place,
) -> None:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    for path in ("/api", "/apis"):
        said = shared.caller().get(path, accept=accept)
        assert said.headers["Content-Type"] == accept.split(",")[0]
        assert said.expect()["kind"] == "APIGroupDiscoveryList"
        assert shared.caller().get(path).expect()["kind"] in ("APIVersions", "APIGroupList")


def test_r9_schemas_are_served_by_hash(shared: Place) -> None:
    index = shared.caller().get("/openapi/v3").expect()["paths"]
    url = index["api/v1"]["serverRelativeURL"]
    said, truth = shared.caller().get(url), shared.cloud.get(url)
    assert (said.status, said.body) == (200, truth.body)


def test_r9_reviews_of_access_are_answered_by_upstream(shared: Place) -> None:
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert shared.caller().post(path, body).expect(201)["status"]["allowed"] is True


def test_r9_who_impersonates_gets_what_that_user_may(shared: Place, contents: Contents) -> None:
    contents.configmap("a")
    path = contents.path("configmaps")
    caller = shared.caller(impersonate_user="nobody")
    shared.caller().get(path, {"resourceVersion": contents.version()}).expect()
    for asked in (path, f"{path}/a"):
        for query in ({}, {"resourceVersion": "0"}):
            refused = caller.get(asked, query).expect(403)
            assert 'User "nobody" cannot' in refused["message"]
    watched = caller.get(path, {"watch": "true", "resourceVersion": "0", "timeoutSeconds": 1})
    assert watched.status == 403


def test_r9_leases_are_always_the_newest_and_never_from_a_cache(
    shared: Place, contents: Contents
) -> None:
    resource = "leases.v1.coordination.k8s.io"
    path = contents.path(resource)
    contents.create(resource, "l", spec={"holderIdentity": "0"})
    caller = shared.caller(user_agent=f"leases-{secrets.token_hex(4)}")
    for number in range(1, 5):
        contents.edit(resource, "l", {"spec": {"holderIdentity": str(number)}})
        for query in ({}, {"resourceVersion": "0"}):
            lease = caller.get(f"{path}/l", query).expect()
            assert query or lease["spec"]["holderIdentity"] == str(number)
    if shared.is_relayed:
        status = json.dumps([relay.status() for relay in shared.relays])
        assert "coordination.k8s.io" not in status


def test_r9_an_aggregated_or_unknown_group_is_passed_on(shared: Place) -> None:
    for path in ("/apis/metrics.k8s.io/v1beta1/nodes", "/nope", "/api/v2", "/apis/apps/v9"):
        said, truth = shared.caller().get(path), shared.cloud.get(path)
        assert (said.status, said.body) == (truth.status, truth.body), path


def test_r9_methods_that_kubernetes_does_not_know_are_refused_as_upstream_does(
    shared: Place, contents: Contents
) -> None:
    path = contents.path("configmaps")
    for method in ("OPTIONS", "TRACE"):
        said = shared.caller().ask(path, method=method)
        truth = shared.cloud.ask(path, method=method)
        assert said.status == truth.status, method
    head = shared.caller().ask("/version", method="HEAD")
    assert head.status == shared.cloud.ask("/version", method="HEAD").status


def test_r9_a_get_of_a_resource_that_cannot_be_listed_is_refused_as_upstream_does(
    shared: Place,
) -> None:
    for path in ("/apis/authorization.k8s.io/v1/subjectaccessreviews", "/api/v1/bindings"):
        for query in ({}, {"resourceVersion": "0"}, {"watch": "true", "resourceVersion": "0"}):
            assert_same_refusal(shared, path, query)


# ── a kubelet ──

Handler = Callable[[ssl.SSLSocket, bytes], None]


class Kubelet:
    """Serves TLS on 127.0.0.1; the first bytes of each connection go to `handle`."""

    def __init__(self, plane: ControlPlane, handle: Handler) -> None:
        authority = Authority(plane.folder, f"kubelet-{secrets.token_hex(4)}")
        files = authority.issue_server("kubelet", hosts=["127.0.0.1"])
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(files.certificate, files.key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._handle = handle
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(10)
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(plain,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _serve(self, plain: socket.socket) -> None:
        try:
            with self._context.wrap_socket(plain, server_side=True) as connection:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += connection.recv(4096)
                self._handle(connection, head)
        except OSError:
            plain.close()


@pytest.fixture
def kubelet(control_plane: ControlPlane) -> Iterator[Callable[[Contents, Handler], None]]:
    """Makes a pod "p" with a container "main" on a node whose kubelet is the handler."""
    started: list[Kubelet] = []

    def make(contents: Contents, handle: Handler) -> None:
        server = Kubelet(control_plane, handle)
        started.append(server)
        node = f"node-{secrets.token_hex(4)}"
        made = control_plane.admin.post("/api/v1/nodes", {"metadata": {"name": node}})
        expect(made)
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": server.port}},
        }
        path = f"/api/v1/nodes/{node}/status"
        expect(control_plane.admin.patch(path, {"status": status}))
        contents.pod("p", node=node)
        contents.set_phase("p", "Running")

    yield make
    for server in started:
        server.stop()


def test_r9_logs_flow_while_they_are_written(
    shared: Place, contents: Contents, kubelet: Callable[[Contents, Handler], None]
) -> None:
    read_first = threading.Event()

    def handle(connection: ssl.SSLSocket, head: bytes) -> None:
        assert head.startswith(b"GET /containerLogs/")
        assert b"follow=true" in head
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.sendall(b"6\r\nfirst\n\r\n")
        # Only when the reader has the first line is the second one written.
        assert read_first.wait(20)
        connection.sendall(b"7\r\nsecond\n\r\n0\r\n\r\n")

    kubelet(contents, handle)
    caller = shared.caller()
    with caller.connected() as connection:
        path = f"{contents.path('pods', 'p')}/log?follow=true"
        connection.request("GET", path, headers=dict(caller.headers))
        with connection.getresponse() as response:
            assert response.readline() == b"first\n"
            read_first.set()
            assert response.read() == b"second\n"


def test_r9_an_upgraded_connection_carries_bytes_both_ways(
    shared: Place, contents: Contents, kubelet: Callable[[Contents, Handler], None]
) -> None:
    """As `exec`, `attach` and `port-forward` do, without their protocol in it."""

    def handle(connection: ssl.SSLSocket, head: bytes) -> None:
        assert b"/portForward/" in head
        connection.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
            b"X-Stream-Protocol-Version: portforward.k8s.io\r\n\r\n"
        )
        while data := connection.recv(65536):
            connection.sendall(data.swapcase())

    kubelet(contents, handle)
    caller = shared.caller()
    with caller.connected() as connection:
        connection.request(
            "POST",
            f"{contents.path('pods', 'p')}/portforward",
            headers={
                **caller.headers,
                "Connection": "Upgrade",
                "Upgrade": "SPDY/3.1",
                "X-Stream-Protocol-Version": "portforward.k8s.io",
            },
        )
        stream = connection.sock
        stream.settimeout(20)
        head = b""
        while b"\r\n\r\n" not in head:
            chunk = stream.recv(65536)
            assert chunk, head
            head += chunk
        assert head.startswith(b"HTTP/1.1 101 ")
        assert b"x-stream-protocol-version: portforward.k8s.io" in head.lower()
        for size in (5, 1000, 200_000):
            sent = b"ab" * size
            threading.Thread(target=stream.sendall, args=(sent,), daemon=True).start()
            received = b""
            while len(received) < len(sent):
                received += stream.recv(65536)
            assert received == sent.swapcase()
        connection.sock = stream
