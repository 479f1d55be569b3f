"""R2, L2: what a list or watch by selectors costs upstream: nothing where a wider stream is live;
where there is none, a list is one question, and only what is asked for again is followed."""

import time

import pytest

from tests.integration.relay.place import Place
from tests.integration.relay.upstream import of_relays, requests, verbs
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.wire.caller import Parameters
from tools.harness.relay_objects import Contents, collection

ANY: Parameters = {"resourceVersion": "0"}
LONG: Parameters = {"timeoutSeconds": 120}
WATCH_LIST: Parameters = {
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}
SOON = 20.0
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
NARROW: list[Parameters] = [
    {"labelSelector": "x=1"},
    {"labelSelector": "x in (1,2),!y"},
    {"fieldSelector": "metadata.name=mine"},
    {"fieldSelector": "spec.nodeName=n1"},
    {"fieldSelector": "spec.nodeName=n1,status.phase=Pending", "labelSelector": "x"},
]


def live(place: Place) -> set[tuple[str, str, str]]:
    """The streams that follow upstream: namespace and selectors."""
    return {
        (it.get("namespace", ""), it.get("labelSelector", ""), it.get("fieldSelector", ""))
        for it in place.relay.status()["streams"]
        if it["state"] == "live"
    }


@pytest.mark.parametrize("is_of_namespace", [True, False], ids=["of its namespace", "of all"])
def test_r2_beside_a_live_wider_stream_no_selectors_are_asked_for_upstream(
    one_relay: Place, contents: Contents, is_of_namespace: bool
) -> None:
    contents.pod("mine", node="n1", labels={"x": "1"})
    contents.pod("other", node="n2", labels={"y": "1"})
    caller, path = one_relay.caller(), contents.path("pods")
    wide = path if is_of_namespace else collection("pods")
    with caller.watch(wide, {**LONG, **WATCH_LIST}) as watching:
        watching.wait_initial_end()
        wait_for(lambda: len(live(one_relay)) == 1, timeout=SOON, what="the wide stream")
        since = time.time()
        for query in NARROW:
            listed = caller.get(path, {**ANY, **query})
            assert listed.names == ["mine"]
            assert caller.get(path, {**ANY, **query}, accept=METADATA).names == ["mine"]
            for kept in ({"resourceVersion": str(listed.version)}, ANY, WATCH_LIST):
                with caller.watch(path, {**LONG, **kept, **query}) as narrow:
                    contents.label("pods", "mine", z=str(time.time_ns()))
                    narrow.wait_for(
                        lambda it: "MODIFIED" in {each.type for each in it.events()}, what="mine"
                    )
        assert not requests(one_relay.plane, contents.namespace, resource="pods", since=since)
        assert len(live(one_relay)) == 1


def test_l2_a_first_list_by_selectors_at_any_version_opens_no_stream_and_is_kept(
    one_relay: Place, contents: Contents
) -> None:
    contents.pod("mine", node="n1", labels={"x": "1"})
    contents.pod("other", node="n2", labels={"y": "1"})
    caller, path = one_relay.caller(), contents.path("pods")

    def asked() -> list[str]:
        return verbs(requests(one_relay.plane, contents.namespace, resource="pods"))

    for number, query in enumerate(NARROW):
        assert caller.get(path, {**ANY, **query}).names == ["mine"]
        assert asked() == ["list"] * (number + 1)
    assert live(one_relay) == set()

    # Asked for again: it is followed, from the list on that there is.
    assert caller.get(path, {**ANY, **NARROW[0]}).names == ["mine"]
    wait_for(lambda: len(live(one_relay)) == 1, timeout=SOON, what="a stream")
    # Or watched.
    listed = caller.get(path, {**ANY, "labelSelector": "!y"})
    query = {**LONG, "labelSelector": "!y", "resourceVersion": str(listed.version)}
    with caller.watch(path, query) as watching:
        contents.label("pods", "mine", z="1")
        watching.wait_told(("MODIFIED", "mine"))
    followed = of_relays(one_relay.plane, contents.namespace, resource="pods")
    assert verbs(followed).count("watch") == 2

    one_relay.cut()
    for query in NARROW:
        answer = caller.get(path, {**ANY, **query})
        assert answer.names == ["mine"]
        assert int(answer.headers["Age"] or "0") < 60
