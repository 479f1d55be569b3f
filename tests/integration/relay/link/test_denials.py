"""R4: what an API server refuses before it has read its rules is no withdrawn right."""

from collections.abc import Iterator

import pytest

from tests.integration.relay.place import Kind, Place
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.wire.caller import Parameters
from tools.harness.relay_objects import Contents

READ = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]
ANY: Parameters = {"resourceVersion": "0"}
# How often: whether the relay comes before the roles are read is chance.
RESTARTS = 3
SOON = 10.0


@pytest.fixture
def place(control_plane: ControlPlane, contents: Contents) -> Iterator[Place]:
    """Of a relay whose rights come from a role."""
    account = control_plane.service_account_dir(contents.namespace, "reader", READ)
    with Place(Kind.RELAY, control_plane, account=account) as it:
        yield it


def test_r4_an_api_server_that_was_just_started_ends_no_stream(
    place: Place, contents: Contents
) -> None:
    contents.configmap("a")
    path = contents.path("configmaps")
    for _ in range(RESTARTS):
        place.caller().get(path, {"resourceVersion": contents.version()}).expect()
        place.plane.stop_apiserver()
        place.plane.start_apiserver()
    place.cut()
    assert "upstream refuses a stream" not in place.relay.log_text()
    reply = place.caller().get(path, ANY)
    assert reply.status == 200, (reply.body, place.relay.log_text())
    assert reply.names == ["a"]


def test_r4_a_right_that_is_withdrawn_ends_a_stream_with_what_it_held(
    place: Place, contents: Contents
) -> None:
    contents.configmap("a")
    path = contents.path("configmaps")
    place.caller().get(path, {"resourceVersion": contents.version()}).expect()
    place.cut()
    place.plane.kubeconfig_for(contents.namespace, "reader", [])
    place.heal()
    assert place.caller().get(path).status == 403
    wait_for(lambda: not place.relay.status()["streams"], timeout=SOON, what="nothing kept")
    place.cut()
    assert place.caller().get(path, ANY).status == 503
