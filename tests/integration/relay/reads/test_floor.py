"""The floor: who writes through a relay reads there what was written, whatever the write was
answered with, and what is handed out of elsewhere costs nobody a wait for each read."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from tests.integration.relay.place import Place
from tests.integration.relay.upstream import requests, verbs
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.wire.caller import Caller, Json, Parameters
from tools.harness.relay_objects import Contents, collection

ANY: Parameters = {"resourceVersion": "0"}
# Reads of one object, in a row.
READS = 10
# Writes of one kind, each followed by the reads of its object.
WRITES = 8
PROTOBUF = "application/vnd.kubernetes.protobuf"
SOON = 20.0
CONTAINER: Json = {"name": "main", "image": "example.com/main:1"}
WORKLOAD: Json = {
    "replicas": 1,
    "selector": {"matchLabels": {"app": "a"}},
    "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [CONTAINER]}},
}
NUMBERS = count()


def follow(place: Place, contents: Contents, resource: str) -> None:
    """Returns when a stream of it is live."""

    def is_live() -> bool:
        reply = place.caller().get(contents.path(resource), ANY)
        reply.expect()
        return "Age" not in reply.headers

    wait_for(is_live, timeout=SOON, what="a live stream")


# ── what is handed out of elsewhere ──


def a_list(theirs: Contents, caller: Caller) -> None:
    caller.get(theirs.path("configmaps")).expect()


def a_list_of_all(_: Contents, caller: Caller) -> None:
    caller.get(collection("configmaps"), {"limit": 1}).expect()


def a_write(theirs: Contents, caller: Caller) -> None:
    change = {"data": {"at": str(next(NUMBERS))}}
    caller.patch(theirs.path("configmaps", "theirs"), change).expect()


def an_object(theirs: Contents, caller: Caller) -> None:
    theirs.edit("configmaps", "theirs", {"data": {"at": str(next(NUMBERS))}})
    caller.get(theirs.path("configmaps", "theirs")).expect()


@pytest.mark.parametrize("hand_out", [a_list, a_list_of_all, a_write, an_object])
def test_what_is_handed_out_of_elsewhere_is_asked_about_once_for_all_readers(
    control_plane: ControlPlane, one_relay: Place, hand_out: Callable[[Contents, Caller], None]
) -> None:
    ours, theirs = (Contents(control_plane, control_plane.create_namespace()) for _ in range(2))
    for contents, name in ((ours, "ours"), (theirs, "theirs")):
        contents.configmap(name)
        follow(one_relay, contents, "configmaps")
    caller = one_relay.caller()

    def are_answered_here() -> bool:
        """A bookmark, which ends the wait in any case, comes after a minute."""
        before = len(requests(control_plane, ours.namespace))
        for _ in range(READS):
            reply = caller.get(ours.path("configmaps", "ours"), ANY)
            reply.expect()
            assert "Age" not in reply.headers
        return "get" not in verbs(requests(control_plane, ours.namespace)[before:])

    hand_out(theirs, caller)
    wait_for(are_answered_here, timeout=SOON, what="reads of which none is passed on")


# ── writes that are answered with something else ──


def assert_read(caller: Caller, listing: str, name: str, is_so: Callable[[Json], bool]) -> None:
    """By name and in a list, at any version."""
    one = caller.get(f"{listing}/{name}", ANY)
    assert "Age" in one.headers or is_so(one.expect()), one.body
    listed = caller.get(listing, ANY)
    [item] = [it for it in listed.expect()["items"] if it["metadata"]["name"] == name]
    assert "Age" in listed.headers or is_so(item), item


def has(field: str, value: int) -> Callable[[Json], bool]:
    return lambda it: it["spec"][field] == value


def deployments(contents: Contents) -> str:
    return f"/apis/apps/v1/namespaces/{contents.namespace}/deployments"


@pytest.mark.parametrize("accept", ["application/json", PROTOBUF])
def test_who_scales_reads_the_scale(near: Place, contents: Contents, accept: str) -> None:
    caller, listing = near.caller(), deployments(contents)
    caller.post(listing, {"metadata": {"name": "a"}, "spec": WORKLOAD}).expect(201)
    caller.get(listing, ANY).expect()
    scaler = near.caller(accept=accept)
    for replicas in range(2, 2 + WRITES):
        assert scaler.patch(f"{listing}/a/scale", {"spec": {"replicas": replicas}}).status == 200
        assert_read(caller, listing, "a", has("replicas", replicas))


def a_binding(pods: str, name: str, caller: Caller) -> None:
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "somewhere"}}
    caller.post(f"{pods}/{name}/binding", body).expect(201)


def a_legacy_binding(pods: str, name: str, caller: Caller) -> None:
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "somewhere"}}
    caller.post(f"{pods.removesuffix('pods')}bindings", body).expect(201)


def an_eviction(pods: str, name: str, caller: Caller) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    caller.post(f"{pods}/{name}/eviction", body).expect(201)


def as_somebody_else(pods: str, name: str, caller: Caller) -> None:
    headers = {"Impersonate-User": "admin", "Impersonate-Group": "system:masters"}
    change = {"metadata": {"labels": {"by": "somebody-else"}}}
    headers["Content-Type"] = "application/merge-patch+json"
    caller.ask(f"{pods}/{name}", method="PATCH", headers=headers, body=change).expect()


def is_bound(pod: Json) -> bool:
    return bool(pod["spec"].get("nodeName"))


def is_ending(pod: Json) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def is_labelled(pod: Json) -> bool:
    labels: Json = pod["metadata"].get("labels", {})
    return "somebody-else" in labels.values()


Write = Callable[[str, str, Caller], None]


@pytest.mark.parametrize(
    ("write", "is_so"),
    [
        (a_binding, is_bound),
        (a_legacy_binding, is_bound),
        (an_eviction, is_ending),
        (as_somebody_else, is_labelled),
    ],
)
def test_who_writes_without_an_answer_that_tells_reads_what_was_written(
    near: Place, contents: Contents, write: Write, is_so: Callable[[Json], bool]
) -> None:
    caller, pods = near.caller(), contents.path("pods")
    caller.get(pods, ANY).expect()
    for number in range(WRITES):
        name = f"pod-{number}"
        meta = {"name": name, "finalizers": ["example.com/kept"]}
        body = {"metadata": meta, "spec": {"containers": [CONTAINER]}}
        caller.post(pods, body).expect(201)
        write(pods, name, caller)
        assert_read(caller, pods, name, is_so)


def test_an_evicted_pod_is_gone(near: Place, contents: Contents) -> None:
    caller, pods = near.caller(), contents.path("pods")
    caller.get(pods, ANY).expect()
    for number in range(WRITES):
        contents.pod(f"pod-{number}")
        caller.get(f"{pods}/pod-{number}").expect()
        an_eviction(pods, f"pod-{number}", caller)
        assert caller.get(f"{pods}/pod-{number}", ANY).status == 404
        assert not caller.get(pods, ANY).names


def test_api_versions_of_a_resource_have_one_floor(near: Place, contents: Contents) -> None:
    caller = near.caller()
    one, other = (
        f"/apis/autoscaling/{version}/namespaces/{contents.namespace}/horizontalpodautoscalers"
        for version in ("v1", "v2")
    )
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 2}
    caller.post(one, {"metadata": {"name": "a"}, "spec": spec}).expect(201)
    for listing in (one, other):
        caller.get(listing, ANY).expect()
    for number in range(WRITES):
        written, read = (one, other) if number % 2 else (other, one)
        most = 10 + number
        caller.patch(f"{written}/a", {"spec": {"maxReplicas": most}}).expect()
        assert_read(caller, read, "a", has("maxReplicas", most))
    caller.delete(f"{one}/a").expect()
    assert caller.get(f"{other}/a", ANY).status == 404
    assert not caller.get(other, ANY).names


# ── versions, where a wider stream answers ──


def test_a_list_of_a_namespace_does_not_go_back_where_a_wider_stream_answers(
    one_relay: Place, contents: Contents
) -> None:
    """Its version is of all of etcd, which the wider stream learns with its next bookmark."""
    caller, path = one_relay.caller(), contents.path("configmaps")
    contents.configmap("a")

    def is_live() -> bool:
        return "Age" not in caller.get(collection("configmaps"), ANY).headers

    wait_for(is_live, timeout=SOON, what="a live stream of all")
    # Of another resource: no stream here sees it.
    contents.create("services", "b", spec={"ports": [{"port": 80}]})
    version = int(caller.get(path).version)
    one_relay.cut()
    not_older: Parameters = {
        "resourceVersion": version,
        "resourceVersionMatch": "NotOlderThan",
    }
    exact: Parameters = {"resourceVersion": version, "resourceVersionMatch": "Exact"}

    def check() -> None:
        for query in (ANY, {}, not_older, exact):
            listed = caller.get(path, query)
            assert (listed.status, "Age" in listed.headers) == (200, True), listed.body
            assert listed.names == ["a"]
            assert int(listed.version) == version

    check()
    one_relay.relay.kill()
    one_relay.relay.start()
    check()
    watch_list = {**not_older, "sendInitialEvents": "true", "allowWatchBookmarks": "true"}
    with caller.watch(path, {**watch_list, "timeoutSeconds": 120}) as watching:
        assert watching.wait_initial_end().version == version
        one_relay.heal()
        contents.configmap("c")
        watching.wait_told(("ADDED", "a"), ("ADDED", "c"))
