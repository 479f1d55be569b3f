"""R1, WATCH: from which version on, which initial events, bookmarks, transitions over selectors,
time-outs and refusals. `direct` shows that kube-apiserver does so.
https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-watch
"""

import time
from functools import partial

import pytest

from tests.integration.relay.oracle import assert_same_refusal, bare
from tests.integration.relay.place import Place
from tools.harness.pods.wire.caller import Json, Parameters, Watching
from tools.harness.relay_objects import Contents, Widgets

WATCH: Parameters = {"watch": "true"}
INITIAL: Parameters = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
WATCH_LIST: Parameters = {**INITIAL, "allowWatchBookmarks": "true"}
FUTURE = 1_000_000_000
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def watch(
    place: Place,
    contents: Contents,
    query: Parameters | None = None,
    *,
    resource: str = "configmaps",
) -> Watching:
    """A watch that ends by itself after the test."""
    watching = place.caller().watch(
        contents.path(resource), {"timeoutSeconds": 60, **(query or {})}
    )
    assert watching.status == 200
    assert watching.headers["Content-Type"] == "application/json"
    return watching


def assert_grows(watching: Watching) -> None:
    """Versions of a stream grow, those of its initial events apart."""
    versions = [each.version for each in watching.events()]
    assert versions == sorted(set(versions))


# ── from where on ──


@pytest.mark.parametrize("query", [{}, {"resourceVersion": ""}, {"resourceVersion": "0"}], ids=str)
def test_r1_without_a_version_a_watch_begins_with_all_objects(
    shared: Place, contents: Contents, query: Parameters
) -> None:
    for name in ("a", "b", "c"):
        contents.configmap(name)
    contents.label("configmaps", "a", now="second")
    # At version 0 any state is legal: what was seen here already is what it has to be at least.
    shared.caller().get(contents.path("configmaps"), {"resourceVersion": contents.version()})
    with watch(shared, contents, query) as watching:
        watching.wait_for(lambda it: len(it.events()) == 3, what="three objects")
        assert sorted(watching.told()) == [("ADDED", name) for name in ("a", "b", "c")]
        contents.delete("configmaps", "b")
        watching.wait_for(lambda it: len(it.events()) == 4, what="the deletion")
        assert watching.told()[3] == ("DELETED", "b")


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}], ids=str)
def test_r1_a_watch_that_wants_no_initial_events_begins_with_what_happens_next(
    shared: Place, contents: Contents, query: Parameters
) -> None:
    contents.configmap("before")
    shared.caller().get(contents.path("configmaps"), {"resourceVersion": contents.version()})
    with watch(shared, contents, {**INITIAL, "sendInitialEvents": "false", **query}) as watching:
        contents.configmap("after")
        watching.wait_told(("ADDED", "after"))


def test_r1_from_a_version_on_each_change_is_told_once_and_in_order(
    shared: Place, contents: Contents
) -> None:
    contents.configmap("before")
    version = contents.version()
    added = contents.configmap("a")
    labelled = contents.label("configmaps", "a", x="1")
    with watch(shared, contents, {"resourceVersion": version}) as watching:
        other = contents.label("configmaps", "before", x="2")
        contents.delete("configmaps", "a")
        again = contents.configmap("a")
        watching.wait_told(
            ("ADDED", "a"),
            ("MODIFIED", "a"),
            ("MODIFIED", "before"),
            ("DELETED", "a"),
            ("ADDED", "a"),
        )
        assert_grows(watching)
        told = [each.object for each in watching.events("ADDED", "MODIFIED")]
        assert told == [added, labelled, other, again]
        [deleted] = watching.events("DELETED")
        assert bare_of_version(deleted.object) == bare_of_version(labelled)


def bare_of_version(item: Json) -> Json:
    metadata = {
        name: value for name, value in item["metadata"].items() if name != "resourceVersion"
    }
    return {**item, "metadata": metadata}


def test_r1_a_watch_from_each_version_tells_what_came_after_it(
    shared: Place, contents: Contents
) -> None:
    # From before the first to after the last.
    first = contents.version()
    names = [f"cm-{number}" for number in range(5)]
    shared.caller().get(contents.path("configmaps"), {"resourceVersion": first}).expect()
    made = [contents.configmap(name) for name in names]
    versions = [first, *(int(each["metadata"]["resourceVersion"]) for each in made)]
    for after, version in enumerate(versions):
        with watch(shared, contents, {"resourceVersion": version}) as watching:
            watching.wait_told(*(("ADDED", name) for name in names[after:]))


def test_r1_a_watch_from_the_version_of_a_list_continues_it(
    shared: Place, contents: Contents
) -> None:
    contents.configmap("a")
    caller = shared.caller()
    for query in ({}, {"resourceVersion": "0"}, {"resourceVersion": contents.version()}):
        listed = caller.get(contents.path("configmaps"), query)
        name = f"after-{len(listed.names)}"
        contents.configmap(name)
        with watch(shared, contents, {"resourceVersion": listed.version}) as watching:
            watching.wait_for(lambda it: bool(it.events()), what=name)
            assert watching.told()[-1] == ("ADDED", name)
            known = set(listed.names)
            assert not known & {each.name for each in watching.events()}


def test_r1_a_watch_from_the_future_stays_silent_until_its_version_has_passed(
    shared: Place, contents: Contents
) -> None:
    version = contents.version()
    shared.caller().get(contents.path("configmaps"), {"resourceVersion": version}).expect()
    with watch(shared, contents, {"resourceVersion": version + 3}) as watching:
        changed = [contents.configmap(f"cm-{number}") for number in range(6)]
        later = [
            ("ADDED", each["metadata"]["name"])
            for each in changed
            if int(each["metadata"]["resourceVersion"]) > version + 3
        ]
        watching.wait_told(*later)


# ── WatchList ──


@pytest.mark.parametrize("version", ["", "0", "now"])
def test_r1_initial_events_end_with_a_bookmark_and_the_stream_goes_on(
    shared: Place, contents: Contents, version: str
) -> None:
    contents.configmap("a")
    contents.configmap("b")
    now = contents.version()
    shared.caller().get(contents.path("configmaps"), {"resourceVersion": now}).expect()
    query = {**WATCH_LIST, "resourceVersion": now if version == "now" else version}
    with watch(shared, contents, query) as watching:
        bookmark = watching.wait_initial_end()
        assert sorted(watching.told()) == [("ADDED", "a"), ("ADDED", "b")]
        assert bookmark.version >= now
        assert bookmark.object["kind"] == "ConfigMap"
        assert bookmark.object["apiVersion"] == "v1"
        assert set(bookmark.object["metadata"]) <= {"resourceVersion", "annotations"}
        made = contents.configmap("c")
        watching.wait_for(lambda it: ("ADDED", "c") in it.told(), what="c")
        assert watching.events()[-1].object == made
        assert watching.events()[-1].version > bookmark.version


def _has_more(before: int, watching: Watching) -> bool:
    return len(watching.events()) > before


@pytest.mark.parametrize("accept", ["application/json", TABLE])
@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_r1_initial_events_come_packed_or_not_and_what_follows_comes_at_once(
    shared: Place, contents: Contents, accept: str, encoding: str
) -> None:
    """Kubernetes 1.37 packs them for who asks (WatchListCompression), each flush as a member of
    gzip. Where the relay passes a watch on, as of Tables, it stays so."""
    contents.configmap("a")
    headers = {"Accept": accept, "Accept-Encoding": encoding}
    path = contents.path("configmaps")
    # With the object, also where a stream of all namespaces has yet to come to it.
    query = {**WATCH_LIST, "resourceVersion": contents.version(), "timeoutSeconds": 60}
    with shared.caller().watch(path, query, headers=headers) as it:
        assert it.status == 200
        if encoding == "identity":
            assert it.headers["Content-Encoding"] is None
        it.wait_for(lambda it: len(it.seen) == 2, what="the object and a bookmark")
        assert it.seen[1].type == "BOOKMARK"
        for name in ("b", "c"):
            before = len(it.events())
            contents.configmap(name)
            it.wait_for(partial(_has_more, before), timeout=5, what=name)
        assert it.is_open
        assert [each.type for each in it.events()] == ["ADDED"] * 3


def test_r1_initial_events_are_the_objects_with_their_kinds(
    shared: Place, contents: Contents
) -> None:
    made = [contents.configmap(name, key=name) for name in ("a", "b")]
    with watch(shared, contents, WATCH_LIST) as watching:
        watching.wait_initial_end()
        told = sorted(watching.events(), key=lambda each: each.name)
        assert [each.object for each in told] == made


def test_r1_initial_events_of_nothing_end_at_once(shared: Place, contents: Contents) -> None:
    with watch(shared, contents, WATCH_LIST) as watching:
        watching.wait_initial_end()
        assert not watching.events()


def test_r1_initial_events_without_bookmarks_have_no_end(shared: Place, contents: Contents) -> None:
    contents.configmap("a")
    with watch(shared, contents, INITIAL) as watching:
        watching.wait_told(("ADDED", "a"))
        contents.configmap("b")
        watching.wait_told(("ADDED", "a"), ("ADDED", "b"))
        assert [each.type for each in watching.seen] == ["ADDED", "ADDED"]


def test_r1_without_initial_events_only_what_comes_later_is_told(
    shared: Place, contents: Contents
) -> None:
    contents.configmap("a")
    query: Parameters = {
        "sendInitialEvents": "false",
        "resourceVersionMatch": "NotOlderThan",
        "resourceVersion": contents.version(),
    }
    with watch(shared, contents, query) as watching:
        contents.configmap("b")
        watching.wait_told(("ADDED", "b"))


def test_r1_initial_events_are_those_of_the_selector(shared: Place, contents: Contents) -> None:
    contents.configmap("a", labels={"x": "1"})
    contents.configmap("b", labels={"x": "2"})
    shared.caller().get(contents.path("configmaps"), {"resourceVersion": contents.version()})
    with watch(shared, contents, {**WATCH_LIST, "labelSelector": "x=2"}) as watching:
        watching.wait_initial_end()
        assert watching.told() == [("ADDED", "b")]


def test_r1_initial_events_of_the_future_are_refused_in_the_stream(
    near: Place, contents: Contents
) -> None:
    query = {**WATCH_LIST, "resourceVersion": FUTURE}
    with near.caller().watch(contents.path("configmaps"), {**query, "timeoutSeconds": 9}) as it:
        it.wait_ended()
        [error] = it.seen
        # In the stream or, as good for client-go, in its place.
        status = error.object
        assert error.type == ("ERROR" if it.status == 200 else "STATUS")
        assert (status["code"], status["reason"]) == (504, "Timeout")
        [cause] = status["details"]["causes"]
        assert cause["reason"] == "ResourceVersionTooLarge"


# ── refusals ──


@pytest.mark.parametrize(
    "query",
    [
        {"sendInitialEvents": "true"},
        {"sendInitialEvents": "true", "resourceVersionMatch": "Exact"},
        {"sendInitialEvents": "true", "resourceVersionMatch": "Exact", "resourceVersion": "5"},
        {"resourceVersionMatch": "NotOlderThan"},
        {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "5"},
        {"resourceVersion": "abc"},
        {"continue": "x"},
        {"timeoutSeconds": "x"},
        {"labelSelector": "a b"},
        {"labelSelector": "a=b=c"},
        {"fieldSelector": "metadata.name"},
        {"fieldSelector": "data.x=1"},
    ],
    ids=str,
)
def test_r1_a_watch_is_refused_in_the_words_of_the_api_server(
    shared: Place, contents: Contents, query: Parameters
) -> None:
    shared.caller().get(contents.path("configmaps"), {"resourceVersion": "0"}).expect()
    assert_same_refusal(shared, contents.path("configmaps"), {**WATCH, **query})


# ── the end ──


def test_r1_a_watch_ends_cleanly_when_its_time_is_over(shared: Place, contents: Contents) -> None:
    contents.configmap("a")
    query: Parameters = {"resourceVersion": contents.version(), "timeoutSeconds": 1}
    started = time.monotonic()
    with watch(shared, contents, query) as watching:
        watching.wait_ended()
        assert not watching.seen
        assert time.monotonic() - started >= 0.9
        # Ended, not torn off: the last chunk came.
        assert watching.response.isclosed() or watching.response.read() == b""


# ── R3: transitions over selectors ──


def test_r3_what_leaves_a_label_selector_is_told_as_deleted_with_its_last_state_inside(
    shared: Place, contents: Contents
) -> None:
    contents.configmap("a", labels={"x": "1"})
    with watch(shared, contents, {"labelSelector": "x=1"}) as watching:
        watching.wait_told(("ADDED", "a"))
        inside = contents.label("configmaps", "a", y="1")
        outside = contents.label("configmaps", "a", x="2")
        contents.label("configmaps", "a", y="2")
        back = contents.label("configmaps", "a", x="1")
        contents.delete("configmaps", "a")
        watching.wait_told(
            ("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "a"), ("DELETED", "a")
        )
        assert_grows(watching)
        left = watching.events()[2]
        assert left.version == int(outside["metadata"]["resourceVersion"])
        assert bare_of_version(left.object) == bare_of_version(inside)
        assert watching.events()[3].object == back


@pytest.mark.parametrize("covered", [False, True], ids=["narrow-stream", "covering-stream"])
def test_r3_transitions_are_the_same_whichever_stream_they_come_from(
    shared: Place, contents: Contents, covered: bool
) -> None:
    contents.pod("p1", node="n1")
    contents.pod("p2", node="n2")
    version = contents.version("pods")
    if covered:
        shared.caller().get(contents.path("pods"), {"resourceVersion": version}).expect()
    selectors: Parameters = {"fieldSelector": "spec.nodeName=n1,status.phase!=Running"}
    query: Parameters = {**selectors, "resourceVersion": version}
    with watch(shared, contents, query, resource="pods") as watching:
        contents.set_phase("p2", "Running")
        running = contents.set_phase("p1", "Running")
        contents.set_phase("p1", "Failed")
        contents.delete("pods", "p2")
        contents.delete("pods", "p1")
        # A pod that is deleted gets its deletionTimestamp first.
        watching.wait_told(
            ("DELETED", "p1"), ("ADDED", "p1"), ("MODIFIED", "p1"), ("DELETED", "p1")
        )
        first = watching.events()[0]
        assert first.version == int(running["metadata"]["resourceVersion"])
        assert first.object["status"]["phase"] == "Pending"


def test_r3_selectable_fields_of_a_crd_tell_transitions(
    shared: Place, contents: Contents, widgets: Widgets
) -> None:
    widgets.create(contents, "w", site="north")
    version = contents.version(widgets.resource)
    # A stream of everything, which has to be narrowed here.
    shared.caller().get(contents.path(widgets.resource), {"resourceVersion": version}).expect()
    query: Parameters = {"fieldSelector": "spec.site=north", "resourceVersion": version}
    with watch(shared, contents, query, resource=widgets.resource) as watching:
        contents.edit(widgets.resource, "w", {"spec": {"size": 1}})
        contents.edit(widgets.resource, "w", {"spec": {"site": "south"}})
        contents.edit(widgets.resource, "w", {"spec": {"site": "north"}})
        watching.wait_told(("MODIFIED", "w"), ("DELETED", "w"), ("ADDED", "w"))


def test_r1_the_watch_of_one_name_tells_only_of_it(shared: Place, contents: Contents) -> None:
    contents.configmap("a")
    query: Parameters = {"fieldSelector": "metadata.name=a"}
    with watch(shared, contents, query) as watching:
        contents.configmap("b")
        contents.label("configmaps", "a", x="1")
        contents.delete("configmaps", "b")
        contents.delete("configmaps", "a")
        watching.wait_told(("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"))


# ── forms ──


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_r1_metadata_alone_is_watched_as_such(
    shared: Place, contents: Contents, version: str
) -> None:
    contents.configmap("a", labels={"x": "1"}, key="value")
    accept = f"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v={version}"
    query: Parameters = {"timeoutSeconds": 60, **WATCH_LIST}
    path = contents.path("configmaps")
    with shared.caller().watch(path, query, headers={"Accept": accept}) as watching:
        watching.wait_initial_end()
        made = contents.configmap("b", key="value")
        contents.delete("configmaps", "b")
        watching.wait_told(("ADDED", "a"), ("ADDED", "b"), ("DELETED", "b"))
        for each in watching.seen:
            assert each.object["kind"] == "PartialObjectMetadata"
            assert each.object["apiVersion"] == f"meta.k8s.io/{version}"
            assert "data" not in each.object
        assert watching.events()[1].object["metadata"] == made["metadata"]


def test_r1_lists_of_metadata_alone_are_such(shared: Place, contents: Contents) -> None:
    made = contents.configmap("a", labels={"x": "1"}, key="value")
    path = contents.path("configmaps")
    version = contents.version()
    for query in ({}, {"resourceVersion": version}):
        for accept in (
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,"
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
        ):
            reply = shared.caller().get(path, query, accept=accept)
            if "protobuf" in reply.headers["Content-Type"]:
                continue
            said = reply.expect()
            assert said["kind"] == "PartialObjectMetadataList"
            assert said["apiVersion"] == "meta.k8s.io/v1"
            [item] = said["items"]
            assert item["metadata"] == made["metadata"]
            assert "data" not in item
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    one = shared.caller().get(f"{path}/a", {"resourceVersion": "0"}, accept=accept).expect()
    assert (one["kind"], one["metadata"]) == ("PartialObjectMetadata", made["metadata"])
    assert "data" not in one


def test_r9_the_old_path_of_watches_is_served(shared: Place, contents: Contents) -> None:
    contents.configmap("a")
    path = contents.path("configmaps").replace("/api/v1/", "/api/v1/watch/")
    with shared.caller().watch(path, {"timeoutSeconds": 60}) as watching:
        watching.wait_told(("ADDED", "a"))


def test_r1_items_of_lists_and_events_are_equal_but_for_the_kind(
    shared: Place, contents: Contents
) -> None:
    contents.configmap("a", key='"\\\u2028é</script>')
    path = contents.path("configmaps")
    [item] = shared.caller().get(path, {"resourceVersion": contents.version()}).expect()["items"]
    with watch(shared, contents, WATCH_LIST) as watching:
        watching.wait_initial_end()
        [event] = watching.events()
    assert bare(item) == bare(event.object)
    assert event.object == shared.cloud.get(f"{path}/a").expect()
