"""Rule 9.4: what is needed to use what is kept is kept with it. A resource that came a moment
before the cut can be asked for as long as its objects are here; one that went is named no more."""

import secrets
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.relay.place import Kind, Place
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.peers.kubectl import Kubectl
from tools.harness.pods.observers.observer import wait_for
from tools.harness.relay_objects import Contents

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
# Seconds.
SOON = 10.0
RESTORED, SETTLED = 30.0, 8.0


class Gadgets:
    """A CRD of a group of its own."""

    def __init__(self, place: Place) -> None:
        self.cloud = place.cloud
        self.group = f"g{secrets.token_hex(4)}.example.com"
        self.name = f"gadgets.{self.group}"
        self.path = f"/apis/{self.group}/v1/namespaces/default/gadgets"

    def make(self) -> None:
        version = {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object"}},
        }
        spec: dict[str, Any] = {
            "group": self.group,
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "kind": "Gadget", "shortNames": ["gdg"]},
            "versions": [version],
        }
        kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        metadata = {"name": self.name}
        self.cloud.post(CRDS, {**kind, "metadata": metadata, "spec": spec}).expect(201)
        wait_for(lambda: self.cloud.get(self.path).status == 200, timeout=SOON, what="the CRD")
        gadget = {"apiVersion": f"{self.group}/v1", "kind": "Gadget", "metadata": {"name": "a"}}
        self.cloud.post(self.path, gadget).expect(201)

    def delete(self) -> None:
        self.cloud.delete(f"{CRDS}/{self.name}")


@pytest.fixture
def gadgets(one_relay: Place) -> Iterator[Gadgets]:
    found = Gadgets(one_relay)
    yield found
    found.delete()


def test_r4_a_crd_that_was_made_a_second_before_the_cut_is_there_while_cut(
    one_relay: Place, gadgets: Gadgets
) -> None:
    one_relay.wait_up()
    caller = one_relay.caller()
    # What was there before is known, and is not asked for again for minutes.
    wait_for(
        lambda: caller.get("/apis", accept=AGGREGATED).status == 200, timeout=SOON, what="discovery"
    )
    gadgets.make()
    with caller.watch(gadgets.path, {"resourceVersion": "0"}) as watching:
        watching.wait_for(lambda it: bool(it.seen), what="the object")
        time.sleep(1.0)
        one_relay.cut()
        for _ in range(2):
            with Kubectl(one_relay.kubeconfig(), "default") as kubectl:
                assert "a" in kubectl.run("get", gadgets.name).expect().split()
                assert "a" in kubectl.run("get", "gdg", "a").expect().split()
                resources = kubectl.run("api-resources", "-o", "name").expect().split()
                assert {gadgets.name, "deployments.apps", "pods"} <= set(resources)
            plain = caller.get(f"/apis/{gadgets.group}/v1").expect()
            assert [one["name"] for one in plain["resources"]] == ["gadgets"]
            groups = caller.get("/apis").expect()["groups"]
            assert gadgets.group in [one["name"] for one in groups]
            one_relay.relay.kill()
            one_relay.relay.start()


def test_r4_what_one_client_learned_of_a_list_another_finds_in_the_aggregated_form(
    one_relay: Place, gadgets: Gadgets
) -> None:
    one_relay.wait_up()
    caller = one_relay.caller()
    wait_for(
        lambda: caller.get("/apis", accept=AGGREGATED).status == 200, timeout=SOON, what="discovery"
    )
    gadgets.make()
    # A client in Python, which asks for the one list; no stream is opened.
    wait_for(
        lambda: caller.get(f"/apis/{gadgets.group}/v1").status == 200,
        timeout=SOON,
        what="the list of the group",
    )
    one_relay.cut()
    said = caller.get("/apis", accept=AGGREGATED).expect()
    [group] = [it for it in said["items"] if it["metadata"]["name"] == gadgets.group]
    [version] = group["versions"]
    [resource] = version["resources"]
    assert (version["version"], version["freshness"]) == ("v1", "Current")
    assert (resource["resource"], resource["scope"]) == ("gadgets", "Namespaced")
    assert resource["responseKind"] == {"group": gadgets.group, "version": "v1", "kind": "Gadget"}
    assert "list" in resource["verbs"]


def test_r6_a_crd_that_was_deleted_is_named_no_more(one_relay: Place, gadgets: Gadgets) -> None:
    one_relay.wait_up()
    caller = one_relay.caller()
    gadgets.make()
    wait_for(
        lambda: caller.get(f"/apis/{gadgets.group}/v1").status == 200,
        timeout=SOON,
        what="the list of the group",
    )
    gadgets.delete()
    wait_for(
        lambda: caller.get(f"/apis/{gadgets.group}/v1").status == 404, timeout=SOON, what="its end"
    )
    wait_for(
        lambda: gadgets.group not in caller.get("/apis").body.decode(), timeout=SOON, what="its end"
    )
    # Discovery is asked for again when the link comes back, or a new resource comes.
    other = Gadgets(one_relay)
    other.make()
    try:
        caller.get(other.path, {"resourceVersion": "0"}).expect()
        time.sleep(1.0)
        one_relay.cut()
        caller.get(f"/apis/{other.group}/v1").expect()
        for accept in (AGGREGATED, "application/json"):
            assert gadgets.group not in caller.get("/apis", accept=accept).body.decode()
        caller.get(f"/apis/{gadgets.group}/v1").expect(503)
    finally:
        other.delete()


@pytest.mark.long
@pytest.mark.slow
def test_r6_what_only_a_lost_history_had_is_named_no_more() -> None:
    with ControlPlane() as plane:
        contents = Contents(plane, plane.create_namespace())
        plane.back_up()
        with Place(Kind.RELAY, plane) as place:
            place.wait_up()
            caller, lost = place.caller(), Gadgets(place)
            lost.make()
            contents.configmaps(20)
            watched = contents.path("configmaps")
            with caller.watch(watched, {"resourceVersion": "0", "timeoutSeconds": 120}) as watching:
                wait_for(
                    lambda: caller.get(f"/apis/{lost.group}/v1").status == 200,
                    timeout=SOON,
                    what="the list of the group",
                )
                caller.get(lost.path, {"resourceVersion": "0"}).expect()
                plane.restore()
                watching.wait_ended(timeout=RESTORED)
            # No client asks for discovery; the relay does as soon as it knows.
            time.sleep(SETTLED)
            place.cut()
            for accept in (AGGREGATED, "application/json"):
                assert lost.group not in caller.get("/apis", accept=accept).body.decode()
            caller.get(f"/apis/{lost.group}/v1").expect(503)
