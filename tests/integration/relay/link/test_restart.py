"""R5: a relay that starts while it is cut off answers what it had answered, with the same versions,
also after SIGKILL at any moment."""

import http.client
import json
import random
import threading
import time

import pytest

from tests.integration.relay.oracle import assert_snapshot
from tests.integration.relay.place import Kind, Place, played
from tests.integration.relay.upstream import of_relays, verbs
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.relay import RelayProcess
from tools.harness.pods.wire.caller import Caller, Parameters
from tools.harness.relay_objects import Contents, Widgets

ANY: Parameters = {"resourceVersion": "0"}
NEWEST: Parameters = {}
LONG: Parameters = {"timeoutSeconds": 120}
# Seconds: a fraction of every deadline upstream.
AT_ONCE = 0.7


def end(relay: RelayProcess, how: str) -> None:
    if how == "killed":
        relay.kill()
    else:
        assert relay.terminate() == 0


ends = pytest.mark.parametrize("how", ["killed", "terminated"])


@ends
def test_r5_a_restart_offline_answers_the_same_with_the_same_versions(
    one_relay: Place, contents: Contents, widgets: Widgets, how: str
) -> None:
    widgets.create(contents, "w", site="north")
    for number in range(3):
        contents.configmap(f"a{number}", labels={"n": str(number)})
    contents.pod("p", node="n1")
    contents.create("serviceaccounts", "someone")
    caller = one_relay.caller()
    before = {}
    for resource in ("configmaps", "pods", widgets.resource):
        path = contents.path(resource)
        caller.get(path, {"resourceVersion": contents.version(resource)}).expect()
        before[path] = caller.get(path, ANY).expect()
    for path in (contents.path("serviceaccounts", "someone"), "/apis", "/version", "/openapi/v3"):
        before[path] = caller.get(path).expect()
    one_relay.cut()
    end(one_relay.relay, how)
    one_relay.relay.start()
    assert one_relay.relay.readyz() == http.HTTPStatus.OK
    for path, answer in before.items():
        for query in (NEWEST, ANY):
            reply = caller.get(path, query)
            assert reply.expect() == answer, path
            assert reply.headers["Warning"].startswith("299 ")
    narrow: Parameters = {**ANY, "labelSelector": "n in (1,2)"}
    assert caller.get(contents.path("configmaps"), narrow).names == ["a1", "a2"]
    narrow = {**ANY, "fieldSelector": "spec.site=south"}
    assert caller.get(contents.path(widgets.resource), narrow).names == []
    assert caller.get(contents.path("configmaps", "nope"), ANY).status == 404
    assert caller.get(contents.path("services"), ANY).status == 503


@pytest.mark.parametrize("kind", played(Kind.RELAY, Kind.FOR_CALLERS))
@pytest.mark.parametrize(
    ("how", "black_hole"), [("killed", False), ("terminated", False), ("killed", True)]
)
def test_r5_after_a_restart_offline_a_watch_goes_on_from_its_version(
    control_plane: ControlPlane, contents: Contents, kind: Kind, how: str, black_hole: bool
) -> None:
    with Place(kind, control_plane) as place:
        contents.configmap("a")
        caller, path = place.caller(), contents.path("configmaps")
        caller.get(path, {"resourceVersion": contents.version()}).expect()
        contents.configmap("b")
        cursor = int(caller.get(path, {"resourceVersion": contents.version()}).version)
        from_cursor: Parameters = {**LONG, "resourceVersion": cursor}
        with caller.watch(path, from_cursor) as watching:
            assert watching.status == 200
        place.cut(black_hole=black_hole)
        end(place.relay, how)
        contents.configmap("c")
        contents.delete("configmaps", "a")
        place.relay.start()
        # Nobody knows yet whether there is an upstream.
        began = time.monotonic()
        with caller.watch(path, from_cursor) as resumed:
            assert resumed.status == 200
            # Who may is asked upstream, until it is known to be out of reach.
            asks_who = black_hole and kind is Kind.FOR_CALLERS
            assert asks_who or resumed.started_at - began < AT_ONCE
            wait_for(
                lambda: place.relay.status()["link"]["downSeconds"] is not None,
                timeout=10,
                what="the link's verdict",
            )
            with caller.watch(path, {**LONG, "resourceVersion": "1"}) as too_old:
                too_old.wait_ended(timeout=10)
                assert too_old.seen[-1].object["code"] == 410
            assert not resumed.seen
            place.heal()
            resumed.wait_told(("ADDED", "c"), ("DELETED", "a"))
            assert min(each.version for each in resumed.events()) > cursor


def test_r5_after_a_restart_nothing_is_listed_again(one_relay: Place, contents: Contents) -> None:
    contents.configmap("a")
    caller, path = one_relay.caller(), contents.path("configmaps")
    caller.get(path, {"resourceVersion": contents.version()}).expect()
    one_relay.relay.kill()
    contents.configmap("b")
    since = time.time()
    one_relay.relay.start()
    with caller.watch(path, {**LONG, **ANY}) as watching:
        watching.wait_for(lambda it: len(it.events()) == 2, what="a and b")
    assert caller.get(path, {"resourceVersion": contents.version()}).names == ["a", "b"]
    asked = of_relays(one_relay.plane, contents.namespace, since=since)
    assert set(verbs(asked)) == {"watch"}


def test_r5_what_was_deleted_while_the_relay_was_down_is_told_as_deleted(
    one_relay: Place, contents: Contents
) -> None:
    for name in ("a", "b"):
        contents.configmap(name)
    caller, path = one_relay.caller(), contents.path("configmaps")
    listed = caller.get(path, {"resourceVersion": contents.version()})
    one_relay.relay.kill()
    contents.delete("configmaps", "a")
    one_relay.relay.start()
    with caller.watch(path, {**LONG, "resourceVersion": listed.version}) as watching:
        watching.wait_told(("DELETED", "a"))
    assert caller.get(path, {"resourceVersion": contents.version()}).names == ["b"]
    assert caller.get(f"{path}/a", ANY).status == 404


def test_r6_secrets_are_in_memory_only(one_relay: Place, contents: Contents) -> None:
    contents.create("secrets", "s", stringData={"key": "a-value-that-must-not-be-written"})
    contents.configmap("a")
    caller, path = one_relay.caller(), contents.path("secrets")
    for resource in ("secrets", "configmaps"):
        query: Parameters = {"resourceVersion": contents.version(resource)}
        caller.get(contents.path(resource), query).expect()
    caller.get(f"{path}/s").expect()
    one_relay.cut()
    assert caller.get(path, ANY).names == ["s"]
    one_relay.relay.kill()
    # base64 of the value's first bytes.
    for file in one_relay.relay.data_dir.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert b"a-value-that-must-not" not in content
            assert b"YS12YWx1ZS10aGF0LW11c3Q" not in content
    one_relay.relay.start()
    for asked in (path, f"{path}/s"):
        assert caller.get(asked, ANY).status == 503
    assert caller.get(contents.path("configmaps"), ANY).names == ["a"]


class Storm:
    """Creates, changes and deletes ConfigMaps as fast as one thread can, until it is stopped."""

    def __init__(self, contents: Contents, caller: Caller, seed: int) -> None:
        self._contents = contents
        self._caller = caller
        self._draw = random.Random(seed)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.writes = 0

    def __enter__(self) -> "Storm":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(30)

    def _run(self) -> None:
        known: list[str] = []
        path = self._contents.path("configmaps")
        while not self._ended.is_set():
            choice = self._draw.random()
            if choice < 0.5 or not known:
                name = f"s-{self.writes:06}"
                self._caller.post(path, {"metadata": {"name": name}}).expect(201)
                known.append(name)
            elif choice < 0.8:
                name = self._draw.choice(known)
                change = {"data": {"key": str(self.writes)}}
                self._caller.patch(f"{path}/{name}", change).expect()
            else:
                name = known.pop(self._draw.randrange(len(known)))
                self._caller.delete(f"{path}/{name}").expect()
            self.writes += 1


@pytest.mark.parametrize("seed", range(3))
def test_r5_a_kill_in_a_storm_of_writes_leaves_a_state_that_was_true_at_its_version(
    one_relay: Place, contents: Contents, seed: int
) -> None:
    draw = random.Random(seed)
    caller, path = one_relay.caller(), contents.path("configmaps")
    caller.get(path, {"resourceVersion": contents.version()}).expect()
    newest_seen = 0
    with Storm(contents, one_relay.cloud, seed):
        for _ in range(4):
            with caller.watch(path, {**LONG, **ANY}) as watching:
                time.sleep(draw.uniform(0.1, 0.6))
                one_relay.relay.kill()
            # What a client has seen is never taken back.
            seen = [each.version for each in watching.events()]
            newest_seen = max([newest_seen, *seen])
            one_relay.link.refuse()
            one_relay.relay.start()
            reply = caller.get(path, ANY)
            assert_snapshot(one_relay, path, {}, reply)
            assert int(reply.version) >= newest_seen
            one_relay.heal()
    final = caller.get(path, {"resourceVersion": contents.version()})
    assert_snapshot(one_relay, path, {}, final)


def test_r5_a_start_without_upstream_and_without_data_says_that_nothing_is_known(
    one_relay: Place, contents: Contents
) -> None:
    one_relay.relay.kill()
    one_relay.link.refuse()
    one_relay.relay.start()
    assert one_relay.relay.readyz() == http.HTTPStatus.OK
    for path in (contents.path("configmaps"), contents.path("configmaps", "a"), "/nope"):
        reply = one_relay.caller().get(path)
        assert reply.status == 503
        assert json.loads(reply.body)["kind"] == "Status"
    one_relay.heal()
    contents.configmap("a")
    assert one_relay.caller().get(contents.path("configmaps")).names == ["a"]


def test_r4_a_terminated_relay_ends_its_watches_cleanly(
    one_relay: Place, contents: Contents
) -> None:
    path = contents.path("configmaps")
    query: Parameters = {**LONG, "resourceVersion": contents.version()}
    with one_relay.caller().watch(path, query) as watching:
        assert one_relay.relay.terminate() == 0
        watching.wait_ended(timeout=5)
        assert not watching.seen
        assert watching.response.isclosed()
