"""TokenRequests as kubelet sends them, answered by a real API server, read, kept and replayed."""

import http.client
from dataclasses import dataclass

import msgspec
import pytest

from relay_sidecar.core.token_request import (
    TokenRequestKey,
    issued_token,
    token_request_key,
)
from relay_sidecar.kept_tokens.kept_answers import (
    DeleteAnswers,
    KeepAnswer,
    KeptAnswers,
    Replay,
    TokenAnswer,
)
from relay_sidecar.kept_tokens.kept_tokens import decode, encode, record_name
from tests.unit.relay.kept_tokens.token_bodies import (
    JSON,
    PROTOBUF,
    bound_to,
    metadata,
    request,
    spec,
)
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.clients.answer import Answer, exchange
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.reservation import LOOPBACK

KUBELET_ACCEPT = "application/vnd.kubernetes.protobuf,application/json"
RETAIN = 86400.0


@dataclass(frozen=True)
class Node:
    """Sends what kubelet sends for pod web-0, whose uid is `pod_uid`."""

    plane: ControlPlane
    namespace: str
    pod_uid: str
    account_uid: str

    def body(self, *, audience: str = "vault", seconds: int = 3607, uid: str = "") -> bytes:
        bound = bound_to(uid or self.pod_uid)
        return request(
            spec(audiences=[audience] if audience else [], seconds=seconds, bound=bound),
            metadata=metadata(uid=self.account_uid),
        )

    def ask(self, body: bytes, *, account: str = "default") -> Answer:
        context = self.plane.tls()
        port = self.plane.port
        connection = http.client.HTTPSConnection(LOOPBACK, port, context=context, timeout=10)
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token"
        headers = {"Content-Type": PROTOBUF, "Accept": KUBELET_ACCEPT}
        return exchange(connection, path, method="POST", body=body, headers=headers)

    def key(self, body: bytes, *, content_type: str = PROTOBUF) -> TokenRequestKey:
        found = token_request_key(
            self.namespace,
            "default",
            query={},
            content_type=content_type,
            accept=KUBELET_ACCEPT,
            body=body,
        )
        assert found is not None
        return found


@pytest.fixture
def node(control_plane: ControlPlane, namespace: str) -> Node:
    admin, within = control_plane.admin, f"/api/v1/namespaces/{namespace}"
    pod = {
        "metadata": {"name": "web-0"},
        "spec": {"nodeName": "edge-1", "containers": [{"name": "web", "image": "web"}]},
    }
    made = expect(admin.post(f"{within}/pods", pod))
    account = expect(admin.get(f"{within}/serviceaccounts/default"))
    return Node(control_plane, namespace, made["metadata"]["uid"], account["metadata"]["uid"])


def kept(answer: Answer) -> TokenAnswer:
    return TokenAnswer(content_type=answer.headers["Content-Type"], body=answer.body)


def test_r6_the_api_server_reads_a_token_request_as_the_relay_does(node: Node) -> None:
    """Its answer repeats the request, with what it has read."""
    body = node.body()
    answer = node.ask(body)
    assert (answer.status, answer.headers["Content-Type"]) == (201, PROTOBUF)
    assert node.key(answer.body, content_type=PROTOBUF) == node.key(body)

    same_in_json = expect(
        node.plane.admin.post(
            f"/api/v1/namespaces/{node.namespace}/serviceaccounts/default/token",
            {"metadata": {"uid": node.account_uid}, "spec": _spec_of(node.key(body))},
        )
    )
    assert node.key(msgspec.json.encode(same_in_json), content_type=JSON) == node.key(body)


def test_r6_a_replayed_token_is_the_very_answer_of_the_api_server_and_is_good(node: Node) -> None:
    """Of the API server's own audience, over a restart of the relay."""
    body = node.body(audience="")
    key, answer = node.key(body), node.ask(body)
    before = KeptAnswers(retain=RETAIN)
    (keep,) = before.answered(key, kept(answer), status=answer.status, is_this_node=True, now=0.0)
    assert isinstance(keep, KeepAnswer)
    found = decode(record_name(key), encode(keep.key, keep.kept))
    assert found is not None

    after = KeptAnswers(retain=RETAIN)
    after.restore(dict([found]), now=1.0)
    after.pods_listed({node.pod_uid: None}, now=1.0)
    replayed = after.requested(key, is_this_node=True, is_link_up=False, now=2.0)
    assert replayed == Replay(kept(answer), is_first=True)
    assert replayed.answer.body == answer.body
    token = issued_token(replayed.answer.content_type, replayed.answer.body)
    _, review = node.plane.client(token).post(
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
    )
    user = review["status"]["userInfo"]
    assert user["username"] == f"system:serviceaccount:{node.namespace}:default"
    assert user["extra"]["authentication.kubernetes.io/pod-uid"] == [node.pod_uid]


def test_r6_what_the_api_server_refuses_is_replayed_no_more(node: Node) -> None:
    """A pod of another uid, an account that is not there, a life that is too short."""
    body = node.body()
    key, good = node.key(body), node.ask(body)
    other_pod = node.ask(node.body(uid="00000000-0000-0000-0000-000000000000"))
    no_account = node.ask(body, account="missing")
    too_short = node.ask(node.body(seconds=1))
    refusals = [other_pod, no_account, too_short]
    assert [refusal.status for refusal in refusals] == [409, 404, 422]
    for refusal in refusals:
        answers = KeptAnswers(retain=RETAIN)
        answers.answered(key, kept(good), status=good.status, is_this_node=True, now=0.0)
        assert answers.answered(
            key, kept(refusal), status=refusal.status, is_this_node=True, now=1.0
        ) == [DeleteAnswers(frozenset({key}))]


def _spec_of(key: TokenRequestKey) -> dict[str, object]:
    return {
        "audiences": key.audiences,
        "expirationSeconds": key.expiration_seconds,
        "boundObjectRef": msgspec.to_builtins(key.bound_object_ref),
    }
