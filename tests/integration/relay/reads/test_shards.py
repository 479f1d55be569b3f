"""R3: a shardSelector selects the same here as in an API server with ShardedListAndWatch, for every
kind and client, online and cut, and whether upstream knows of shards or not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus

import pytest

from edge_sidecars.apimachinery.selection.shard_ranges import fnv1a
from edge_sidecars.apimachinery.selection.shards import ShardSelector
from tests.integration.relay.conftest import check_logs
from tests.integration.relay.place import PATIENT, Kind, Place
from tests.integration.relay.reads.websocket_watch import WebSocketWatching
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fixtures import require_program
from tools.harness.pods.wire.caller import Caller, Parameters, Reply, Watching
from tools.harness.relay_objects import Contents, Widgets

UID, NAMESPACE = "object.metadata.uid", "object.metadata.namespace"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
PROTOBUF = "application/vnd.kubernetes.protobuf"
LEASES = "leases.v1.coordination.k8s.io"
OBJECTS = 24
RELAYS = (Kind.RELAY, Kind.BEHIND_RELAY, Kind.FOR_CALLERS)


def shard(number: int, of: int, *, key: str = UID) -> str:
    start, end = (number << 64) // of, ((number + 1) << 64) // of
    return f"shardRange({key},'0x{start:016x}','0x{end:016x}')"


HALVES = (shard(0, 2), shard(1, 2))
SELECTORS = (*HALVES, f"{shard(0, 8)} || {shard(3, 8)}||{shard(6, 8)}", shard(1, 2, key=NAMESPACE))


def normalised(selector: str) -> str:
    return str(ShardSelector.parse(selector))


@dataclass(frozen=True)
class World:
    """A control plane, with or without the gate, and relays before it."""

    plane: ControlPlane
    is_gated: bool
    contents: Contents
    widgets: Widgets
    of: Callable[[Kind], Place]

    @property
    def resources(self) -> tuple[str, ...]:
        return ("configmaps", self.widgets.resource, LEASES)

    def chosen(self, resource: str, selector: str) -> set[str]:
        """The names that are selected, by a list of all and the hash that Go computes."""
        items = self.contents.list(resource)["items"]
        chosen = ShardSelector.parse(selector)
        return {
            it["metadata"]["name"]
            for it in items
            if chosen.matches(it["metadata"]["uid"], it["metadata"]["namespace"])
        }


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(True, id="gated", marks=pytest.mark.long),
        pytest.param(False, id="ungated"),
    ],
)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    for name in ("kube-apiserver", "etcd"):
        require_program(name)
    is_gated: bool = request.param
    started: dict[Kind, Place] = {}
    with ControlPlane(features=["ShardedListAndWatch"] if is_gated else []) as plane:
        contents = Contents(plane, plane.create_namespace())
        widgets = Widgets(plane)
        widgets.wait_published()
        for number in range(OBJECTS):
            labels = {"parity": str(number % 2)}
            contents.configmap(f"c{number:02}", labels=labels)
            widgets.create(contents, f"w{number:02}", site="north")
            contents.create(LEASES, f"l{number:02}", labels=labels)

        def of(kind: Kind) -> Place:
            if kind not in started:
                started[kind] = Place(kind, plane, flags=[PATIENT]).start()
            started[kind].wait_up()
            return started[kind]

        yield World(plane, is_gated, contents, widgets, of)
        for place in started.values():
            check_logs(place)
            place.stop()


@pytest.fixture(params=RELAYS, ids=lambda kind: kind.value)
def caller(request: pytest.FixtureRequest, world: World) -> Caller:
    return world.of(request.param).caller()


@pytest.fixture
def own(world: World) -> Iterator[Place]:
    """A relay of the test's own."""
    with Place(Kind.RELAY, world.plane) as place:
        yield place
        check_logs(place)


def shown(reply: Reply) -> set[str]:
    """The names in a list or Table."""
    assert reply.status == HTTPStatus.OK, reply.body
    told = reply.json()
    parts = [row["object"] for row in told["rows"]] if "rows" in told else told["items"]
    return {part["metadata"]["name"] for part in parts}


def test_r3_every_list_has_the_objects_of_its_shard(caller: Caller, world: World) -> None:
    for resource in world.resources:
        path, version = world.contents.path(resource), world.contents.version(resource)
        versions: tuple[Parameters, ...] = (
            {},
            {"resourceVersion": "0"},
            {"resourceVersion": version, "resourceVersionMatch": "NotOlderThan"},
            {"resourceVersion": version, "resourceVersionMatch": "Exact"},
        )
        # As typed clients of client-go ask.
        forms = ("application/json", METADATA, TABLE, f"{PROTOBUF},application/json")
        for selector in SELECTORS:
            expected = world.chosen(resource, selector)
            for accept in forms:
                for query in versions:
                    asked: Parameters = {**query, "shardSelector": selector}
                    reply = caller.get(path, asked, accept=accept)
                    assert shown(reply) == expected, (resource, selector, accept, query)
                    info = reply.json()["metadata"]["shardInfo"]
                    assert info == {"selector": normalised(selector)}


def test_r3_the_answers_are_those_of_an_api_server_that_knows_shards(world: World) -> None:
    place = world.of(Kind.RELAY)
    for resource in world.resources:
        path = world.contents.path(resource)
        for selector in SELECTORS:
            asked: Parameters = {"shardSelector": selector, "labelSelector": "parity=1"}
            for query in (asked, {**asked, "resourceVersion": "0"}):
                ours, theirs = (shown(it.get(path, query)) for it in (place.caller(), place.cloud))
                if world.is_gated:
                    assert ours == theirs
                else:
                    assert ours == theirs & world.chosen(resource, selector)
    path, plain = world.contents.path("configmaps"), {"shardSelector": SELECTORS[2]}
    here, there = (it.get(path, plain).json() for it in (place.caller(), place.cloud))
    if world.is_gated:
        assert here["items"] == there["items"]
        assert here["metadata"]["shardInfo"] == there["metadata"]["shardInfo"]
    else:
        assert "shardInfo" not in there["metadata"]


def test_r3_a_table_without_objects_has_the_rows_of_its_shard(caller: Caller, world: World) -> None:
    path = world.contents.path("configmaps")
    asked: Parameters = {"shardSelector": HALVES[0], "includeObject": "None"}
    rows = caller.get(path, asked, accept=TABLE).expect()["rows"]
    assert {row["cells"][0] for row in rows} == world.chosen("configmaps", HALVES[0])
    assert all(row["object"] is None for row in rows)


def test_r3_pages_have_the_objects_of_their_shard(caller: Caller, world: World) -> None:
    for resource in world.resources:
        found: set[str] = set()
        token, pages = "", 0
        while token or not pages:
            asked: Parameters = {"shardSelector": HALVES[0], "limit": 5, "continue": token}
            told = caller.get(world.contents.path(resource), asked).expect()
            assert told["metadata"]["shardInfo"] == {"selector": normalised(HALVES[0])}
            names = {it["metadata"]["name"] for it in told["items"]}
            assert not names & found
            if not pages:
                # Of the shard or not.
                assert told["metadata"]["remainingItemCount"] == OBJECTS - 5
            found |= names
            token, pages = told["metadata"].get("continue", ""), pages + 1
        assert found == world.chosen(resource, HALVES[0])
        assert pages == 5


# Expressions that are longer than CEL takes, and one that is not.
TOO_LONG = " || ".join([HALVES[0]] * 1600)
LONG = " || ".join([HALVES[0]] * 1200)


def test_r3_a_selector_of_a_thousand_ranges_selects(caller: Caller, world: World) -> None:
    for resource in world.resources:
        found = caller.get(world.contents.path(resource), {"shardSelector": LONG}).expect()
        names = {it["metadata"]["name"] for it in found["items"]}
        assert names == world.chosen(resource, HALVES[0])


MALFORMED = (
    TOO_LONG,
    " ",
    "x",
    HALVES[0].replace("uid", "name"),
    HALVES[0].replace("'0x0", "'0x"),
    HALVES[0].replace("'0x0", "'0X0"),
    f"{HALVES[0]} || {shard(0, 2, key=NAMESPACE)}",
    f"{HALVES[0]} && {HALVES[1]}",
    "shardRange(object.metadata.uid,'0x8000000000000000','0x0000000000000000')",
)


def test_r3_what_is_written_otherwise_is_answered_by_the_api_server(
    caller: Caller, world: World
) -> None:
    """With the feature gate a malformed selector is a 500; without it the parameter is unknown."""
    expected = HTTPStatus.INTERNAL_SERVER_ERROR if world.is_gated else HTTPStatus.OK
    path = world.contents.path("configmaps")
    queries: tuple[Parameters, ...] = (
        {},
        {"watch": "true", "timeoutSeconds": 1},
        {"resourceVersion": "0"},
    )
    for selector in MALFORMED:
        for query in queries:
            asked: Parameters = {**query, "shardSelector": selector}
            answer = caller.get(path, asked)
            assert answer.status == expected, answer.body
            if world.is_gated:
                assert answer.json()["message"].startswith("invalid shard selector: ")
    alike = caller.get(path, {"shardSelector": f"({HALVES[0]})"})
    assert shown(alike) == world.chosen("configmaps", HALVES[0] if world.is_gated else "")


def test_r3_a_get_looks_at_no_shard(caller: Caller, world: World) -> None:
    path = world.contents.path("configmaps", "c00")
    assert caller.get(path, {"shardSelector": "x"}).expect()["metadata"]["name"] == "c00"


def told(watching: Watching) -> list[tuple[str, str]]:
    """Of a watch of objects or Tables."""
    return [
        (
            it.type,
            (it.object["rows"][0]["object"] if "rows" in it.object else it.object)["metadata"][
                "name"
            ],
        )
        for it in watching.events()
    ]


@pytest.mark.parametrize("accept", ["application/json", METADATA, TABLE])
def test_r3_a_watch_tells_what_happens_in_its_shard(
    caller: Caller, world: World, accept: str
) -> None:
    inside = Contents(world.plane, world.plane.create_namespace())
    first = inside.configmaps(8, prefix="first")
    path, version = inside.path("configmaps"), inside.version()
    asked: Parameters = {
        "resourceVersion": version,
        "shardSelector": HALVES[0],
        "timeoutSeconds": 60,
    }
    with caller.watch(path, asked, headers={"Accept": accept}) as watching:
        made = {it["metadata"]["name"]: it for it in inside.list("configmaps")["items"]}
        expected: list[tuple[str, str]] = []

        def happened(kind: str, name: str) -> None:
            if fnv1a(made[name]["metadata"]["uid"]) < 1 << 63:
                expected.append((kind, name))

        for number in range(8):
            name = f"second-{number}"
            made[name] = inside.configmap(name)
            happened("ADDED", name)
        for name in first:
            inside.edit("configmaps", name, {"data": {"a": "b"}})
            happened("MODIFIED", name)
        for name in first:
            inside.delete("configmaps", name)
            happened("DELETED", name)
        # Again, with another uid.
        for name in first:
            made[name] = inside.configmap(name)
            happened("ADDED", name)
        watching.wait_for(lambda it: len(told(it)) >= len(expected), what=str(expected))
        assert told(watching) == expected
        assert 0 < len(expected) < 32, "of 24 uids some are here and some are not"
        if accept == TABLE:
            columns = [it.object["columnDefinitions"] for it in watching.events()]
            assert columns[0]
            assert not any(columns[1:])


def test_r3_initial_events_are_those_of_the_shard(caller: Caller, world: World) -> None:
    for resource in world.resources:
        asked: Parameters = {
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "allowWatchBookmarks": "true",
            "shardSelector": HALVES[1],
            "timeoutSeconds": 60,
        }
        with caller.watch(world.contents.path(resource), asked) as watching:
            watching.wait_initial_end()
            assert {it.name for it in watching.events("ADDED")} == world.chosen(resource, HALVES[1])
            assert [it.type for it in watching.seen[:-1]] == ["ADDED"] * (len(watching.seen) - 1)


def test_r3_what_cannot_be_selected_is_refused(caller: Caller, world: World) -> None:
    path = world.contents.path("configmaps")
    asked: Parameters = {"shardSelector": HALVES[0]}
    for accept in ("application/yaml", PROTOBUF):
        for query in (asked, {**asked, "watch": "true"}):
            assert caller.get(path, query, accept=accept).status == HTTPStatus.NOT_ACCEPTABLE
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Accept": TABLE}
    refused = caller.ask(path, {**asked, "watch": "true"}, headers=upgrade)
    assert refused.status == HTTPStatus.BAD_REQUEST
    assert "WebSocket" in refused.json()["message"]


def test_r3_a_watch_over_a_websocket_is_of_its_shard(caller: Caller, world: World) -> None:
    path = world.contents.path("configmaps")
    asked: Parameters = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "shardSelector": HALVES[1],
        "timeoutSeconds": 60,
    }
    with WebSocketWatching(caller, path, asked) as watching:
        watching.wait_initial_end()
        assert {it.name for it in watching.events()} == world.chosen("configmaps", HALVES[1])


def test_r3_over_a_websocket_a_shard_is_told_from_the_stream_or_listed_anew(world: World) -> None:
    path = world.contents.path("configmaps")
    asked: Parameters = {"shardSelector": HALVES[1], "timeoutSeconds": 60}
    with Place(Kind.RELAY, world.plane) as place:
        place.wait_up()
        with WebSocketWatching(place.caller(), path, asked) as watching:
            expected = world.chosen("configmaps", HALVES[1])
            watching.wait_for(lambda it: len(it.seen) == len(expected), what="the shard")
            assert {it.name for it in watching.events("ADDED")} == expected
        before: Parameters = {**asked, "resourceVersion": 1}
        with WebSocketWatching(place.caller(), path, before) as late:
            late.wait_ended()
            assert [(it.type, it.object["code"]) for it in late.seen] == [("ERROR", 410)]


def test_r3_a_deprecated_watch_is_of_its_shard(caller: Caller, world: World) -> None:
    path = world.contents.path("configmaps").replace("/api/v1/", "/api/v1/watch/")
    lines = caller.get(path, {"shardSelector": HALVES[0], "timeoutSeconds": 1}).body.splitlines()
    names = {json.loads(line)["object"]["metadata"]["name"] for line in lines}
    assert names == world.chosen("configmaps", HALVES[0])


def test_r3_shards_are_told_while_cut_and_after_a_restart(own: Place, world: World) -> None:
    """What a sharded list began is of all, and so is what is kept of it."""
    caller, path = own.caller(), world.contents.path("configmaps")
    caller.get(path, {"shardSelector": HALVES[0]}).expect()
    asked: Parameters = {"resourceVersion": "0", "shardSelector": HALVES[0]}
    with caller.watch(path, {"shardSelector": HALVES[0], "timeoutSeconds": 60}) as watching:
        expected = world.chosen("configmaps", HALVES[0])
        watching.wait_for(lambda it: len(it.events()) >= len(expected), what="the objects")
        own.cut()
        assert shown(caller.get(path, asked)) == expected
        assert watching.is_open
        assert {it.name for it in watching.events()} == expected
    for _ in range(2):
        for number, half in enumerate(HALVES):
            for query in ({}, {"resourceVersion": "0"}):
                reply = caller.get(path, {**query, "shardSelector": half}, accept=METADATA)
                assert shown(reply) == world.chosen("configmaps", HALVES[number])
                assert reply.json()["metadata"]["shardInfo"] == {"selector": normalised(half)}
                assert reply.headers["Age"]
        assert len(shown(caller.get(path))) == OBJECTS, "the stream holds all"
        unknown = caller.get(path, {"shardSelector": "x"})
        assert unknown.status == HTTPStatus.SERVICE_UNAVAILABLE, "upstream knows what it means"
        paged = caller.get(path, {"shardSelector": HALVES[0], "limit": 5, "continue": "x"})
        assert paged.status == HTTPStatus.GONE
        own.relay.kill()
        own.relay.start()
    own.heal()


def test_r3_upstream_is_asked_for_no_shard_and_once_for_all(own: Place, world: World) -> None:
    inside = Contents(world.plane, world.plane.create_namespace())
    inside.configmaps(8)
    path = inside.path("configmaps")
    for number in range(8):
        asked: Parameters = {"resourceVersion": "0", "shardSelector": shard(number, 8)}
        own.caller().get(path, asked).expect()
    events = world.plane.audit(stage=None, namespace=inside.namespace, resource="configmaps")
    # The stream's, and one of names that proves it to be of now.
    assert len({it.audit_id for it in events if it.verb == "list"}) <= 2
    assert not [it.request_uri for it in events if "shardSelector" in it.request_uri]


def test_r3_a_version_before_the_window_is_watched_upstream(own: Place, world: World) -> None:
    inside = Contents(world.plane, world.plane.create_namespace())
    path, version = inside.path("configmaps"), inside.version()
    made = [inside.configmap(f"c{number:02}") for number in range(12)]
    # Its stream begins here.
    own.caller().get(path, {"resourceVersion": "0"}).expect()
    asked: Parameters = {
        "resourceVersion": version,
        "shardSelector": HALVES[0],
        "timeoutSeconds": 60,
    }
    mine = [it["metadata"]["name"] for it in made if fnv1a(it["metadata"]["uid"]) < 1 << 63]
    with own.caller().watch(path, asked) as watching:
        watching.wait_told(*(("ADDED", name) for name in mine))


def test_r9_a_deletecollection_is_upstreams(caller: Caller, world: World) -> None:
    inside = Contents(world.plane, world.plane.create_namespace())
    inside.configmaps(16)
    path = inside.path("configmaps")
    assert len(shown(caller.get(path, {"resourceVersion": inside.version()}))) == 16
    left = {
        it["metadata"]["name"]
        for it in inside.list("configmaps")["items"]
        if fnv1a(it["metadata"]["uid"]) >= 1 << 63
    }
    deleted = caller.ask(path, {"shardSelector": HALVES[0]}, method="DELETE")
    assert deleted.status == HTTPStatus.OK
    assert shown(caller.get(path)) == (left if world.is_gated else set())
