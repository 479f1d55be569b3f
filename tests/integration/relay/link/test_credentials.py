"""R4: credentials that change under a running relay, and some that are refused."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.integration.relay.conftest import check_logs
from tests.integration.relay.oracle import newest
from tests.integration.relay.place import Kind, Place
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.access.service_account import ServiceAccountDirectory
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.wire.caller import Parameters
from tools.harness.relay_objects import Contents

ANY: Parameters = {"resourceVersion": "0"}
LONG: Parameters = {"timeoutSeconds": 120}
READ = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]
# Seconds: files are read again, and the API server keeps a verdict about a token for 10 s.
CHANGED = 40.0


@dataclass
class Account:
    """A relay that goes as a service account, from a directory as kubelet mounts it."""

    place: Place
    directory: ServiceAccountDirectory
    contents: Contents


@pytest.fixture
def account(control_plane: ControlPlane, contents: Contents) -> Iterator[Account]:
    directory = control_plane.service_account_dir(contents.namespace, "relay", READ)
    with Place(Kind.RELAY, control_plane, account=directory) as place:
        yield Account(place, directory, contents)
        check_logs(place)


def refusals(place: Place) -> list[str | None]:
    return [stream["refusal"] for stream in place.relay.status()["streams"]]


def test_r4_a_token_that_is_replaced_is_used_and_streams_go_on(account: Account) -> None:
    place, contents = account.place, account.contents
    plane, space = place.plane, contents.namespace
    path = contents.path("configmaps")
    version = place.caller().get(path, ANY).version
    with place.caller().watch(path, {**LONG, "resourceVersion": version}) as watching:
        contents.configmap("a")
        watching.wait_told(("ADDED", "a"))
        # The old one is refused from now on, and connections that it opened are gone.
        plane.revoke_tokens(space, "relay")
        account.directory.replace(token=plane.new_token(space, "relay"))
        place.link.reset()
        place.heal()
        contents.configmap("b")
        watching.wait_told(("ADDED", "a"), ("ADDED", "b"), timeout=CHANGED)
    wait_for(lambda: place.caller().get(path).status == 200, timeout=CHANGED, what="the new token")


def test_r6_while_its_token_is_refused_the_relay_does_not_say_that_nothing_is_there(
    account: Account,
) -> None:
    place, contents = account.place, account.contents
    plane, space = place.plane, contents.namespace
    contents.configmap("a")
    path = contents.path("configmaps")
    place.caller().get(path, {"resourceVersion": contents.version()}).expect()
    plane.revoke_tokens(space, "relay")
    wait_for(lambda: place.caller().get(path).status != 200, timeout=CHANGED, what="a refusal")
    refused = place.caller().get(path)
    assert refused.status in (401, 503), refused
    place.link.reset()
    # Not up for who looks at /readyz: the API server refuses the relay.
    place.link.heal()
    wait_for(lambda: refusals(place) != [None], timeout=CHANGED, what="a refused stream")
    account.directory.replace(token=plane.new_token(space, "relay"))
    contents.configmap("b")
    wait_for(lambda: place.caller().get(path).status == 200, timeout=CHANGED, what="the new token")
    assert newest(place, path).names == ["a", "b"]
    wait_for(
        lambda: place.caller().get(path, ANY).names == ["a", "b"],
        timeout=CHANGED,
        what="the stream",
    )
    assert refusals(place) == [None]


def test_a_token_that_is_refused_is_told_in_one_line_and_everywhere(account: Account) -> None:
    place, contents = account.place, account.contents
    relay = place.relay
    for resource in ("configmaps", "pods"):
        place.caller().get(contents.path(resource), ANY)
    account.directory.replace(token="wrong")
    wait_for(lambda: relay.status()["link"]["state"] == "unauthorized", timeout=CHANGED, what="401")
    wait_for(lambda: relay.readyz("?upstream=true") == 503, timeout=CHANGED, what="not ready")
    assert relay.readyz() == 200
    assert 'relay_link_state{state="unauthorized"} 1' in relay.metrics()
    # Streams are refused, again and again.
    place.link.reset()
    place.link.heal()
    for _ in range(20):
        for resource in ("configmaps", "pods"):
            place.caller().get(contents.path(resource), ANY)
        time.sleep(0.3)
    refused = [line for line in relay.log_text().splitlines() if "401" in line]
    assert len([line for line in refused if "WARNING" in line]) == 1, refused
    account.directory.replace(token=place.plane.new_token(contents.namespace, "relay"))
    relay.wait_link(up=True, timeout=CHANGED)
    assert relay.status()["link"]["state"] == "up"


def test_r6_what_the_relay_may_not_read_is_forbidden_in_the_api_servers_words(
    account: Account,
) -> None:
    place, contents = account.place, account.contents
    contents.create("serviceaccounts", "someone")
    user = f"system:serviceaccount:{contents.namespace}:relay"
    for query in ({}, ANY, {**ANY, "watch": "true"}):
        refused = place.caller().get(contents.path("secrets"), query).expect(403)
        assert refused["reason"] == "Forbidden"
        assert f'User "{user}" cannot' in refused["message"]
    assert place.caller().get("/api/v1/configmaps", ANY).status == 403
    created = place.caller().post(contents.path("configmaps"), {"metadata": {"name": "a"}})
    assert created.status == 403


def test_r7_rights_that_are_taken_from_the_relay_end_what_it_answers(account: Account) -> None:
    place, contents = account.place, account.contents
    contents.configmap("a")
    path = contents.path("configmaps")
    place.caller().get(path, {"resourceVersion": contents.version()}).expect()
    role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{contents.namespace}/roles/relay"
    admin = place.plane.admin
    rules = json.loads(json.dumps(expect(admin.get(role))["rules"]))
    expect(admin.patch(role, {"rules": []}))
    wait_for(lambda: place.caller().get(path).status == 403, timeout=CHANGED, what="403")
    expect(admin.patch(role, {"rules": rules}))
    wait_for(lambda: place.caller().get(path).status == 200, timeout=CHANGED, what="200")


@pytest.mark.long
def test_r4_a_new_authority_of_the_api_server_is_trusted_when_it_is_mounted() -> None:
    """On a control plane of its own: nobody else would trust the shared one any more."""
    with ControlPlane() as plane:
        contents = Contents(plane, plane.create_namespace())
        directory = plane.service_account_dir(contents.namespace, "relay", READ)
        with Place(Kind.RELAY, plane, account=directory) as place:
            contents.configmap("a")
            path = contents.path("configmaps")
            place.caller().get(path, {"resourceVersion": contents.version()}).expect()
            plane.rotate_serving_certificate()
            # Nobody whom the relay trusts: as good as cut off.
            place.relay.wait_link(up=False)
            assert place.caller().get(path, ANY).names == ["a"]
            directory.replace(ca=plane.ca_bundle.read_bytes())
            place.relay.wait_link(up=True, timeout=CHANGED)
            Contents(plane, contents.namespace).configmap("b")
            wait_for(
                lambda: place.caller().get(path, ANY).names == ["a", "b"],
                timeout=CHANGED,
                what="b",
            )
            check_logs(place)
