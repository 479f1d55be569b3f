"""R2 and R3: one upstream stream per thing, as narrow as it was asked for; what bounds streams."""

import time
from contextlib import ExitStack

import pytest

from tests.integration.relay.place import Kind, Place
from tests.integration.relay.upstream import of_relays, parameter, requests, verbs
from tests.integration.relay.watched import Watched, wait_equal
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.peers.informers import InformerProcess
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


@pytest.mark.parametrize("watch_list", [True, False], ids=["watch-list", "list"])
def test_r2_twenty_equal_clients_share_one_upstream_watch(
    relayed: Place, contents: Contents, watch_list: bool
) -> None:
    contents.configmap("a")
    watched = [
        Watched("typed", "configmaps", contents.namespace),
        Watched("dynamic", "configmaps", contents.namespace),
    ]
    specs = [each.spec for each in watched]
    with InformerProcess(relayed.kubeconfig(), specs, count=10, watch_list=watch_list) as informers:
        wait_equal(informers, watched, relayed)
        contents.configmap("b")
        wait_equal(informers, watched, relayed)
        informers.check()
    asked = requests(relayed.plane, contents.namespace)
    assert sorted(verbs(asked)) == ["list", "watch"], asked


def test_r2_what_an_open_stream_covers_needs_no_other(one_relay: Place, contents: Contents) -> None:
    for number in range(4):
        contents.configmap(f"a{number}", labels={"x": str(number % 2), "y": "1"})
    caller, path = one_relay.caller(), contents.path("configmaps")
    caller.get(path, {"labelSelector": "y=1", "resourceVersion": contents.version()}).expect()
    metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    for selectors in (
        {"labelSelector": "y=1,x=0"},
        {"labelSelector": "x in (0),y==1"},
        {"labelSelector": "y=1", "fieldSelector": "metadata.name=a2"},
    ):
        query: Parameters = {**ANY, **selectors}
        assert caller.get(path, query).names[-1] == "a2"
        assert caller.get(path, query, accept=metadata).names[-1] == "a2"
        with caller.watch(path, {**LONG, **query}) as watching:
            watching.wait_for(lambda it: "a2" in {each.name for each in it.events()}, what="a2")
    assert sorted(verbs(requests(one_relay.plane, contents.namespace))) == ["list", "watch"]


def test_r2_a_stream_of_all_namespaces_serves_each_of_them(
    one_relay: Place, contents: Contents
) -> None:
    contents.configmap("a")
    caller = one_relay.caller()
    everywhere: Parameters = {"resourceVersion": contents.version()}
    caller.get(collection("configmaps"), everywhere).expect()
    since = time.time()
    assert caller.get(contents.path("configmaps"), ANY).names == ["a"]
    with caller.watch(contents.path("configmaps"), {**LONG, **WATCH_LIST}) as watching:
        watching.wait_initial_end()
        assert watching.told() == [("ADDED", "a")]
    assert not requests(one_relay.plane, contents.namespace, since=since)


def test_r3_selectors_travel_upstream(relayed: Place, contents: Contents) -> None:
    contents.pod("mine", node="n1", labels={"x": "1"})
    contents.pod("other", node="n2", labels={"x": "1"})
    selectors: Parameters = {"fieldSelector": "spec.nodeName=n1", "labelSelector": "x in (1)"}
    path = contents.path("pods")
    with relayed.caller().watch(path, {**LONG, **WATCH_LIST, **selectors}) as watching:
        watching.wait_initial_end()
        assert watching.told() == [("ADDED", "mine")]
        contents.pod("mine-too", node="n1", labels={"x": "1"})
        watching.wait_told(("ADDED", "mine"), ("ADDED", "mine-too"))
    asked = of_relays(relayed.plane, contents.namespace, resource="pods")
    assert sorted(verbs(asked)) == ["list", "watch"]
    for each in asked:
        assert parameter(each, "fieldSelector") == "spec.nodeName=n1"
        assert parameter(each, "labelSelector") in ("x in (1)", "x=1")


def test_r2_a_stream_that_nobody_reads_is_closed_and_opened_again(
    control_plane: ControlPlane, contents: Contents
) -> None:
    contents.configmap("a")
    path = contents.path("configmaps")
    with Place(Kind.RELAY, control_plane, flags=["--idle-timeout=1s"]) as place:
        caller = place.caller()
        caller.get(path, {"resourceVersion": contents.version()}).expect()

        def ended() -> bool:
            found = control_plane.audit(namespace=contents.namespace, verb="watch")
            return any(each.user_agent.startswith("relay-sidecar") for each in found)

        wait_for(ended, timeout=SOON, what="the end of the upstream watch")
        contents.configmap("b")
        # Online, never older than what a live stream would tell.
        version = contents.version()
        assert caller.get(path, {"resourceVersion": version}).names == ["a", "b"]
        wait_for(
            lambda: verbs(of_relays(control_plane, contents.namespace)).count("watch") >= 2,
            timeout=SOON,
            what="another watch",
        )
        place.cut()
        assert caller.get(path, ANY).names == ["a", "b"]


def test_r2_narrow_streams_end_beside_a_wide_one_and_their_watchers_notice_nothing(
    control_plane: ControlPlane, contents: Contents
) -> None:
    for name in ("a", "b", "quiet"):
        contents.configmap(name, labels={"x": "1"})
    path, query = contents.path("configmaps"), {**LONG, **WATCH_LIST}
    narrow: dict[str, Parameters] = {
        name: {**query, "fieldSelector": f"metadata.name={name}"} for name in ("a", "b", "quiet")
    }
    narrow["x=1"] = {**query, "labelSelector": "x=1"}

    with (
        Place(Kind.RELAY, control_plane, flags=["--idle-timeout=2s"]) as place,
        ExitStack() as all_,
    ):
        caller = place.caller()

        def live() -> set[str]:
            streams = place.relay.status()["streams"]
            return {
                it.get("fieldSelector") or it.get("labelSelector") or ""
                for it in streams
                if it["state"] == "live" and it.get("namespace") == contents.namespace
            }

        told = {name: all_.enter_context(caller.watch(path, narrow[name])) for name in narrow}
        begun = {name: each.wait_initial_end().version for name, each in told.items()}
        wait_for(lambda: len(live()) == 4, timeout=SOON, what="four live streams")
        # A version that the wide stream will not hold.
        contents.configmap("other")
        told["all"] = all_.enter_context(caller.watch(path, query))
        told["all"].wait_initial_end()
        for name in ("a", "b"):
            contents.edit("configmaps", name, {"data": {"k": "1"}})
        wait_for(
            lambda: live() == {"", "metadata.name=quiet"},
            timeout=SOON,
            what="the end of the streams that the wide one tells all of",
        )
        since = time.time()
        contents.label("configmaps", "a", x="2")
        contents.delete("configmaps", "b")
        contents.configmap("c", labels={"x": "1"})
        contents.edit("configmaps", "quiet", {"data": {"k": "1"}})
        wait_for(lambda: live() == {""}, timeout=SOON, what="the end of the last one")
        contents.edit("configmaps", "quiet", {"data": {"k": "2"}})

        added = [("ADDED", name) for name in ("a", "b", "quiet")]
        edited = [("MODIFIED", "a"), ("MODIFIED", "b")]
        changed = [("MODIFIED", "quiet")] * 2
        told["a"].wait_told(added[0], *[("MODIFIED", "a")] * 2)
        told["b"].wait_told(added[1], ("MODIFIED", "b"), ("DELETED", "b"))
        told["quiet"].wait_told(added[2], *changed)
        new = [("DELETED", "b"), ("ADDED", "c")]
        told["x=1"].wait_told(*added, *edited, ("DELETED", "a"), *new, *changed)
        begins = sorted([*added, ("ADDED", "other")])
        told["all"].wait_told(*begins, *edited, ("MODIFIED", "a"), *new, *changed)
        for each in told.values():
            versions = [seen.version for seen in each.events("MODIFIED", "DELETED")]
            assert versions == sorted(set(versions))
        assert not requests(control_plane, contents.namespace, since=since)

        # From before the wide one began, its own stream goes on: for all that ask.
        again: Parameters = {**LONG, "fieldSelector": "metadata.name=a"}
        with caller.watch(path, {**again, "resourceVersion": begun["a"]}) as watching:
            watching.wait_told(*[("MODIFIED", "a")] * 2)
            contents.edit("configmaps", "a", {"data": {"k": "3"}})
            watching.wait_told(*[("MODIFIED", "a")] * 3)
        asked = requests(control_plane, contents.namespace, since=since)
        assert verbs(asked) == ["watch"]
        assert asked == of_relays(control_plane, contents.namespace, since=since)


def test_r4_preloaded_streams_are_known_though_nobody_asked(
    control_plane: ControlPlane, contents: Contents
) -> None:
    contents.configmap("a")
    contents.pod("mine", node="n1")
    contents.pod("other", node="n2")
    space = contents.namespace
    flags = [
        f"--preload=configmaps?namespace={space}",
        f"--preload=pods?namespace={space}&fieldSelector=spec.nodeName=n1",
    ]
    with Place(Kind.RELAY, control_plane, flags=flags) as place:
        wait_for(
            lambda: (
                "watch" in verbs(of_relays(control_plane, space))
                and "watch" in verbs(of_relays(control_plane, space, resource="pods"))
            ),
            timeout=SOON,
            what="the upstream watches",
        )
        place.cut()
        caller = place.caller()
        assert caller.get(contents.path("configmaps")).names == ["a"]
        mine: Parameters = {"fieldSelector": "spec.nodeName=n1"}
        assert caller.get(contents.path("pods"), mine).names == ["mine"]
        assert caller.get(contents.path("pods")).status == 503


def test_r8_one_watcher_too_many_is_asked_to_come_later(
    control_plane: ControlPlane, contents: Contents
) -> None:
    path = contents.path("configmaps")
    with Place(Kind.RELAY, control_plane, flags=["--max-watchers=2"]) as place:
        caller = place.caller()
        with caller.watch(path, {**LONG, **ANY}), caller.watch(path, {**LONG, **ANY}):
            refused = caller.get(path, {**LONG, **ANY, "watch": "true"})
            assert refused.expect(429)["reason"] == "TooManyRequests"
            assert int(refused.headers["Retry-After"]) >= 1
            caller.get(path, ANY).expect()

        def served() -> bool:
            with caller.watch(path, {**LONG, **ANY}) as again:
                return again.status == 200

        wait_for(served, timeout=SOON, what="a place that became free")


def test_r8_more_objects_than_may_be_kept_are_passed_on_and_not_kept(
    control_plane: ControlPlane, contents: Contents
) -> None:
    names = contents.configmaps(30)
    path = contents.path("configmaps")
    with Place(Kind.RELAY, control_plane, flags=["--max-objects=10"]) as place:
        reply = place.caller().get(path, ANY)
        # Whole or refused with a reason, never a part.
        if reply.status == 200:
            assert reply.names == names
        else:
            assert reply.expect(429)["reason"] == "TooManyRequests"
        for _ in range(3):
            assert place.caller().get(path).names == names
        assert place.relay.status()["objects"] <= 10
        assert place.relay.readyz() == 200


def test_r2_after_a_restart_what_was_open_serves_whoever_comes_first(
    one_relay: Place, contents: Contents
) -> None:
    for number in range(3):
        contents.configmap(f"a{number}", labels={"x": str(number)})
    caller, path = one_relay.caller(), contents.path("configmaps")
    caller.get(path, {"resourceVersion": contents.version()}).expect()
    one_relay.relay.kill()
    since = time.time()
    one_relay.relay.start()
    narrow: Parameters = {"labelSelector": "x=1"}
    assert caller.get(path, {**ANY, **narrow}).names == ["a1"]
    with caller.watch(path, {**LONG, **WATCH_LIST, **narrow}) as watching:
        watching.wait_initial_end()
    assert caller.get(path, ANY).names == ["a0", "a1", "a2"]
    asked = of_relays(one_relay.plane, contents.namespace, since=since)
    assert verbs(asked) == ["watch"]
    assert parameter(asked[0], "labelSelector") == ""
