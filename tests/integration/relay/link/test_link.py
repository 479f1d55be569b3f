"""R4: how a cut is noticed, what is told over it, and how streams go on after it."""

import time
from collections.abc import Callable

import pytest

from tests.integration.relay.oracle import assert_snapshot, newest
from tests.integration.relay.place import Place
from tests.integration.relay.upstream import of_relays, verbs
from tools.harness.controlplane.fault_proxy.flapping import flapping
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.pods.wire.caller import Parameters
from tools.harness.relay_objects import Contents

ANY: Parameters = {"resourceVersion": "0"}
NEWEST: Parameters = {}
LONG: Parameters = {"timeoutSeconds": 120}
# Seconds in which a cut is noticed, and as many for a busy machine.
NOTICED = 6.0

Break = Callable[[FaultProxy], None]
CUTS: dict[str, Break] = {
    "refused": FaultProxy.refuse,
    "reset": FaultProxy.reset,
    "black-hole": FaultProxy.black_hole,
    "no-answers": FaultProxy.lose_response,
}
cuts = pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS.keys())


def know(place: Place, contents: Contents) -> str:
    """The path of ConfigMaps of which the place has an open stream."""
    path = contents.path("configmaps")
    place.caller().get(path, {"resourceVersion": contents.version()}).expect()
    return path


@cuts
def test_r4_from_the_first_moment_of_a_cut_what_is_known_is_answered(
    one_relay: Place, contents: Contents, cut: Break
) -> None:
    contents.configmap("a")
    path = know(one_relay, contents)
    cut(one_relay.link)
    for query in (NEWEST, ANY):
        for asked in (path, f"{path}/a"):
            reply = one_relay.caller().get(asked, query)
            assert reply.status == 200
            assert reply.seconds < NOTICED
    one_relay.relay.wait_link(up=False, timeout=NOTICED)
    one_relay.heal()
    contents.configmap("b")
    assert newest(one_relay, path).names == ["a", "b"]


@cuts
def test_r4_an_open_watch_stays_open_over_a_cut_and_tells_each_change_once(
    relayed: Place, contents: Contents, cut: Break
) -> None:
    contents.configmap("a")
    path = know(relayed, contents)
    query: Parameters = {**LONG, "resourceVersion": contents.version()}
    with relayed.caller().watch(path, query) as watching:
        cut(relayed.link)
        relayed.relays[-1].wait_link(up=False, timeout=NOTICED)
        contents.configmap("b")
        contents.label("configmaps", "a", x="1")
        contents.delete("configmaps", "b")
        assert not watching.events()
        relayed.heal()
        watching.wait_told(("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b"))
        contents.configmap("c")
        watching.wait_told(("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b"), ("ADDED", "c"))
        assert watching.is_open


def test_r4_after_a_cut_a_stream_resumes_and_does_not_list_again(
    one_relay: Place, contents: Contents
) -> None:
    contents.configmap("a")
    know(one_relay, contents)
    one_relay.cut()
    contents.configmap("b")
    since = time.time()
    one_relay.heal()
    path = contents.path("configmaps")
    reply = one_relay.caller().get(path, {"resourceVersion": contents.version()})
    assert reply.names == ["a", "b"]
    asked = of_relays(one_relay.plane, contents.namespace, since=since)
    assert set(verbs(asked)) == {"watch"}, asked


def test_r4_where_upstream_forgot_the_version_everything_is_listed_again(
    relayed: Place, contents: Contents
) -> None:
    for name in ("stays", "changes", "goes"):
        contents.configmap(name)
    path = know(relayed, contents)
    version = contents.version()
    query: Parameters = {**LONG, "resourceVersion": version}
    with relayed.caller().watch(path, query) as watching:
        relayed.cut()
        contents.delete("configmaps", "goes")
        contents.label("configmaps", "changes", x="1")
        contents.configmap("new")
        # A new watch cache begins at its first list, and etcd forgets what was before.
        relayed.plane.compact()
        relayed.plane.stop_apiserver()
        relayed.plane.start_apiserver()
        relayed.heal()
        watching.wait_ended(timeout=30)
        error = watching.seen[-1]
        assert (error.type, error.object["code"]) == ("ERROR", 410)
        assert not watching.events("DELETED", "ADDED", "MODIFIED")
    now = relayed.caller().get(path, {"resourceVersion": contents.version()})
    assert now.names == ["changes", "new", "stays"]
    assert_snapshot(relayed, path, {}, now)
    with relayed.caller().watch(path, {**LONG, "resourceVersion": now.version}) as watching:
        contents.configmap("later")
        watching.wait_told(("ADDED", "later"))


def test_r4_after_an_end_of_the_api_server_watches_go_on(
    relayed: Place, contents: Contents
) -> None:
    contents.configmap("a")
    path = know(relayed, contents)
    query: Parameters = {**LONG, "resourceVersion": contents.version()}
    with relayed.caller().watch(path, query) as watching:
        relayed.plane.stop_apiserver(graceful=True)
        relayed.plane.start_apiserver()
        contents.configmap("b")
        watching.wait_for(lambda it: bool(it.seen), what="b, or that it must list again")
        told = [(each.type, each.object.get("code")) for each in watching.seen]
        assert watching.told() == [("ADDED", "b")] or told == [("ERROR", 410)]
    reply = relayed.caller().get(path, {"resourceVersion": contents.version()})
    assert reply.names == ["a", "b"]


BAD_LINKS: dict[str, Break] = {
    "half-of-all-segments-lost": lambda link: link.lose_segments(0.5),
    "two-seconds-late": lambda link: link.delay(1.0, jitter=0.5),
}


@pytest.mark.parametrize("spoil", BAD_LINKS.values(), ids=BAD_LINKS.keys())
def test_r4_over_a_bad_link_every_change_arrives_once(
    one_relay: Place, contents: Contents, spoil: Break
) -> None:
    path = know(one_relay, contents)
    query: Parameters = {**LONG, "resourceVersion": contents.version()}
    with one_relay.caller().watch(path, query) as watching:
        spoil(one_relay.link)
        names = contents.configmaps(30)
        watching.wait_told(*(("ADDED", name) for name in names), timeout=90)


def test_r4_over_a_flapping_link_every_change_arrives_once(
    one_relay: Place, contents: Contents
) -> None:
    path = know(one_relay, contents)
    query: Parameters = {**LONG, "resourceVersion": contents.version()}
    names: list[str] = []
    with one_relay.caller().watch(path, query) as watching:
        for number, break_it in enumerate((FaultProxy.refuse, FaultProxy.black_hole)):
            with flapping(one_relay.link, break_it, up=0.7, down=0.7):
                ends = time.monotonic() + 4
                while time.monotonic() < ends:
                    names.append(f"cm-{number}-{len(names)}")
                    contents.configmap(names[-1])
                    time.sleep(0.05)
        watching.wait_told(*(("ADDED", name) for name in names), timeout=60)


def test_r6_what_was_not_heard_on_connections_that_went_silent_is_told_with_its_age(
    one_relay: Place, contents: Contents
) -> None:
    """Connections that are open hear nothing any more, new ones work: a lost NAT entry."""
    path = know(one_relay, contents)
    query: Parameters = {**LONG, "resourceVersion": contents.version()}
    with one_relay.caller().watch(path, query) as watching:
        one_relay.link.silence()
        contents.configmap("b")
        # The stream itself may be silent for 90 s; who asks for the newest hears of it soon, and
        # until then that what he hears is not.
        assert newest(one_relay, path, timeout=10.0).names == ["b"]
        # Nobody goes back from there, whichever way the newest has come.
        assert one_relay.caller().get(path, {"resourceVersion": "0"}).names == ["b"]
        one_relay.link.heal()
        watching.wait_told(("ADDED", "b"), timeout=60)
