"""R5: what upstream refuses at first and then lets a client watch is kept soon, as the Secret of a
pod that the node authorizer knew late."""

from collections.abc import Iterator

import pytest

from tests.integration.relay.place import Kind, Place
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.wire.caller import Parameters
from tools.harness.relay_objects import Contents

READ = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]
# As kubelet asks.
WATCH_LIST: Parameters = {
    "timeoutSeconds": 120,
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}
# Seconds; the first attempts come within four of them.
SOON = 20.0


@pytest.fixture
def place(control_plane: ControlPlane, contents: Contents) -> Iterator[Place]:
    """Of a relay without any rights."""
    account = control_plane.service_account_dir(contents.namespace, "late", [])
    with Place(Kind.RELAY, control_plane, account=account) as it:
        yield it


def test_what_a_client_watches_by_itself_is_kept_once_upstream_lets_the_relay_read_it(
    place: Place, contents: Contents
) -> None:
    path = contents.path("configmaps")
    contents.configmap("a")
    assert place.caller().get(path, {"resourceVersion": "0"}).status == 403
    place.plane.kubeconfig_for(contents.namespace, "late", READ)
    with place.caller().watch(path, WATCH_LIST) as watching:
        contents.configmap("b")
        watching.wait_told(("ADDED", "a"), ("ADDED", "b"))
        wait_for(
            lambda: [it["objects"] for it in place.relay.status()["streams"]] == [2],
            timeout=SOON,
            what="a stream",
        )
    place.cut()
    names = [it["metadata"]["name"] for it in place.caller().get(path).expect()["items"]]
    assert names == ["a", "b"]
