"""R4 and R6: cut off from the API server, what was seen is answered as it was, with its age; what
was not seen is unavailable, never absent; nothing waits for a dial."""

import http.client
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus

import pytest

from tests.integration.relay.oracle import refusal
from tests.integration.relay.place import Kind, Place
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.wire.caller import Json, Parameters, Reply
from tools.harness.relay_objects import Contents, Widgets

ANY: Parameters = {"resourceVersion": "0"}
NEWEST: Parameters = {}
WATCH_LIST: Parameters = {
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}
# Seconds: well below every deadline of a dial or a request.
AT_ONCE = 0.7
NOTICED = 10.0
TRIES = 3
# What is selected of six ConfigMaps.
SELECTED: list[tuple[Parameters, list[str]]] = [
    ({"labelSelector": "parity=odd"}, ["a1", "a3", "a5"]),
    ({"labelSelector": "parity notin (odd)"}, ["a0", "a2", "a4"]),
    ({"fieldSelector": "metadata.name=a1"}, ["a1"]),
    ({"fieldSelector": "metadata.name!=a1", "labelSelector": "parity=odd"}, ["a3", "a5"]),
]
WAYS = [
    (Kind.RELAY, False),
    (Kind.RELAY, True),
    (Kind.BEHIND_RELAY, False),
    (Kind.FOR_CALLERS, False),
]


@dataclass
class Offline:
    """A place that is cut off, and what it had answered before."""

    place: Place
    contents: Contents
    widgets: Widgets
    before: dict[str, Reply] = field(default_factory=dict)
    # Of a second page.
    token: str = ""

    def get(self, path: str, query: Parameters = ANY, **headers: str) -> Reply:
        """An answer that did not wait for the link."""
        return at_once(lambda: self.place.caller().get(path, query, **headers))

    def settle(self) -> None:
        """Takes the versions that the lists have now: of what it had answered, a relay may have
        learnt since that upstream holds the same at a later one."""
        for resource in ("configmaps", "pods", "secrets", self.widgets.resource):
            path = self.contents.path(resource)
            seen, now = self.before[path], self.get(path)
            assert now.expect()["items"] == seen.json()["items"], resource
            assert int(now.version) >= int(seen.version), resource
            self.before[path] = now

    @property
    def configmaps(self) -> str:
        return self.contents.path("configmaps")

    @property
    def cursor(self) -> int:
        """Of the ConfigMaps' stream."""
        return int(self.before[self.configmaps].version)


def at_once(ask: Callable[[], Reply]) -> Reply:
    """A machine may be busy once or twice; who waits for a link does so each time."""
    for _ in range(TRIES):
        reply = ask()
        if reply.seconds < AT_ONCE:
            return reply
    raise AssertionError(f"{TRIES} answers took longer than {AT_ONCE:g} s each")


DOCUMENTS = ("/api", "/apis", "/api/v1", "/apis/apps/v1", "/openapi/v3", "/version")


def see(it: Offline, contents: Contents) -> None:
    """What shall be known later."""
    for number in range(6):
        contents.configmap(f"a{number}", labels={"parity": "odd" if number % 2 else "even"})
    contents.pod("p1", node="n1")
    contents.pod("p2", node="n2")
    it.widgets.create(contents, "w1", site="north")
    it.widgets.create(contents, "w2", site="south")
    contents.create("secrets", "s", stringData={"key": "value"})
    contents.create("serviceaccounts", "someone")
    contents.create("leases.v1.coordination.k8s.io", "l", spec={"holderIdentity": "x"})
    caller = it.place.caller()
    for resource in ("configmaps", "pods", "secrets", it.widgets.resource):
        path = contents.path(resource)
        query: Parameters = {"resourceVersion": contents.version(resource)}
        it.before[path] = caller.get(path, query)
        it.before[path].expect()
    for path in (
        contents.path("serviceaccounts", "someone"),
        contents.path("leases.v1.coordination.k8s.io", "l"),
        *DOCUMENTS,
    ):
        it.before[path] = caller.get(path)
        it.before[path].expect()
    if it.place.kind is Kind.FOR_CALLERS:
        get_allowed(it, contents)
    first = caller.get(contents.path("configmaps"), {"limit": 2})
    it.token = first.expect()["metadata"]["continue"]


def get_allowed(it: Offline, contents: Contents) -> None:
    """Offline, a caller may what upstream allowed before: to watch, and to select by these."""
    caller, widgets = it.place.caller(), contents.path(it.widgets.resource)
    for selector in (*(each for each, _ in SELECTED), {"fieldSelector": "data.x=1"}):
        caller.get(contents.path("configmaps"), selector)
    caller.get(contents.path("pods"), {"fieldSelector": "spec.nodeName=n1"}).expect()
    for field_selector in ("spec.site=south", "spec.size=1"):
        caller.get(widgets, {"fieldSelector": field_selector})
    with caller.watch(contents.path("configmaps"), {"timeoutSeconds": 1}) as watching:
        assert watching.status == 200


@pytest.fixture(
    scope="module",
    params=WAYS,
    ids=lambda way: f"{way[0].value}-{'black-hole' if way[1] else 'refused'}",
)
def offline(
    request: pytest.FixtureRequest, control_plane: ControlPlane, published_widgets: Widgets
) -> Iterator[Offline]:
    """Seen and then cut off; nobody heals it."""
    kind, black_hole = request.param
    published_widgets.wait_served()
    contents = Contents(control_plane, control_plane.create_namespace())
    with Place(kind, control_plane) as place:
        it = Offline(place, contents, published_widgets)
        see(it, contents)
        place.cut(black_hole=black_hole)
        it.settle()
        wait_aged(place, contents)
        # What nobody here can know.
        contents.configmap("made-in-the-cut")
        yield it
        for relay in place.relays:
            assert "Traceback" not in relay.log_text(all_lives=True)


def wait_aged(place: Place, contents: Contents) -> None:
    """A relay that has another above learns later than that one."""
    path = contents.path("configmaps")
    wait_for(
        lambda: "Age" in place.caller().get(path, ANY).headers,
        timeout=NOTICED,
        what="answers with their age",
    )


def assert_aged(reply: Reply) -> None:
    """RFC 9111, section 5.1; the warning's code is that of RFC 7234, section 5.5.7."""
    assert reply.headers["Age"] is not None
    assert int(reply.headers["Age"]) >= 0
    assert reply.headers["Warning"].startswith("299 ")


def assert_unavailable(reply: Reply) -> None:
    """503 and a Status, which says why. No Retry-After: client-go would ask ten times."""
    status = reply.expect(503)
    assert (status["kind"], status["code"]) == ("Status", 503)
    assert status["reason"] == "ServiceUnavailable"
    assert "127.0.0.1" in status["message"], status["message"]


# ── known ──


@pytest.mark.parametrize("query", [NEWEST, ANY, {"limit": 500}, {"limit": 2, **ANY}], ids=str)
def test_r4_lists_are_answered_as_they_were_with_their_age(
    offline: Offline, query: Parameters
) -> None:
    for resource in ("configmaps", "pods", offline.widgets.resource, "secrets"):
        path = offline.contents.path(resource)
        reply = offline.get(path, query)
        assert reply.expect() == offline.before[path].json(), resource
        assert_aged(reply)


def test_r4_a_list_not_older_than_what_is_known_is_answered(offline: Offline) -> None:
    path = offline.configmaps
    for version in (1, offline.cursor - 1, offline.cursor):
        at: Parameters = {"resourceVersion": version}
        match: Parameters = {**at, "resourceVersionMatch": "NotOlderThan"}
        for query in (at, match):
            reply = offline.get(path, query)
            assert reply.expect() == offline.before[path].json()
    exact: Parameters = {"resourceVersion": offline.cursor, "resourceVersionMatch": "Exact"}
    assert offline.get(path, exact).expect() == offline.before[path].json()


def test_r6_a_list_newer_than_what_is_known_is_refused(offline: Offline) -> None:
    for path in (offline.configmaps, f"{offline.configmaps}/a1"):
        reply = offline.place.caller().get(path, {"resourceVersion": offline.cursor + 1})
        status = reply.expect(504)
        assert status["reason"] == "Timeout"
        [cause] = status["details"]["causes"]
        assert cause["reason"] == "ResourceVersionTooLarge"


def test_r6_the_past_and_later_pages_are_gone(offline: Offline) -> None:
    # When there was one object only: a later version may be known to show the same as the cursor.
    [first, *_] = offline.before[offline.configmaps].json()["items"]
    version = int(first["metadata"]["resourceVersion"])
    past: Parameters = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    next_page: Parameters = {"limit": 2, "continue": offline.token}
    for query in (past, next_page):
        status = offline.get(offline.configmaps, query).expect(410)
        assert status["reason"] == "Expired"


def test_r4_objects_are_answered_as_they_were_with_their_age(offline: Offline) -> None:
    for query in (NEWEST, ANY, {"resourceVersion": offline.cursor - 20}):
        reply = offline.get(f"{offline.configmaps}/a1", query)
        item: Json = offline.before[offline.configmaps].json()["items"][1]
        assert reply.expect() == {**item, "kind": "ConfigMap", "apiVersion": "v1"}
        assert_aged(reply)


def test_r4_an_object_that_was_seen_alone_is_remembered(offline: Offline) -> None:
    path = offline.contents.path("serviceaccounts", "someone")
    for query in (NEWEST, ANY):
        reply = offline.get(path, query)
        assert reply.expect() == offline.before[path].json()
        assert_aged(reply)


def test_r4_what_is_not_in_a_complete_list_is_not_found(offline: Offline) -> None:
    status = offline.get(f"{offline.configmaps}/nope").expect(404)
    truth = offline.place.cloud.get(f"{offline.configmaps}/nope")
    assert status == refusal(truth)


@pytest.mark.parametrize(("selector", "names"), SELECTED)
def test_r3_selectors_select_offline(
    offline: Offline, selector: Parameters, names: list[str]
) -> None:
    for query in (NEWEST, ANY):
        reply = offline.get(offline.configmaps, {**query, **selector})
        assert reply.names == names
        assert reply.version == str(offline.cursor)


def test_r3_fields_of_pods_and_of_crds_select_offline(offline: Offline) -> None:
    pods = offline.get(offline.contents.path("pods"), {"fieldSelector": "spec.nodeName=n1"})
    assert pods.names == ["p1"]
    widgets = offline.contents.path(offline.widgets.resource)
    assert offline.get(widgets, {"fieldSelector": "spec.site=south"}).names == ["w2"]


@pytest.mark.parametrize(
    "query",
    [
        {"fieldSelector": "data.x=1"},
        {"labelSelector": "a b"},
        {"resourceVersionMatch": "Exact"},
        {"resourceVersion": "abc"},
        {"sendInitialEvents": "true"},
    ],
    ids=str,
)
def test_r3_what_upstream_would_refuse_is_refused_offline(
    offline: Offline, query: Parameters
) -> None:
    said = offline.get(offline.configmaps, query)
    truth = offline.place.cloud.get(offline.configmaps, query)
    assert (said.status, refusal(said)) == (truth.status, refusal(truth))


def test_r3_a_field_that_a_crd_does_not_offer_is_refused_offline(offline: Offline) -> None:
    path = offline.contents.path(offline.widgets.resource)
    query: Parameters = {"fieldSelector": "spec.size=1"}
    said, truth = offline.get(path, query), offline.place.cloud.get(path, query)
    assert (said.status, refusal(said)) == (truth.status, refusal(truth))


def test_r4_metadata_alone_is_answered_offline(offline: Offline) -> None:
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    said = offline.get(offline.configmaps, accept=accept).expect()
    assert said["kind"] == "PartialObjectMetadataList"
    assert len(said["items"]) == 6


def test_r4_who_prefers_a_table_gets_json_offline(offline: Offline) -> None:
    accept = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"
    reply = offline.get(offline.configmaps, NEWEST, accept=accept)
    assert reply.expect()["kind"] == "ConfigMapList"


@pytest.mark.parametrize("path", DOCUMENTS)
def test_r9_discovery_and_schemas_are_kept_for_offline_use(offline: Offline, path: str) -> None:
    reply = offline.get(path, NEWEST)
    assert reply.expect() == offline.before[path].json()
    # kube-apiserver indents its version for everybody; it is kept as programs get all else.
    assert reply.body == offline.before[path].body or path == "/version"


# ── watches ──


def test_r4_a_watch_list_is_answered_and_stays_open(offline: Offline) -> None:
    query: Parameters = {**WATCH_LIST, "timeoutSeconds": 60}
    for version in ("", "0", str(offline.cursor)):
        path = offline.configmaps
        asked = {**query, "resourceVersion": version}
        with offline.place.caller().watch(path, asked) as watching:
            bookmark = watching.wait_initial_end()
            assert bookmark.version == offline.cursor
            told = sorted(watching.events(), key=lambda each: each.name)
            listed: list[Json] = offline.before[path].json()["items"]
            assert [each.object["metadata"] for each in told] == [
                each["metadata"] for each in listed
            ]
            assert watching.is_open
    with offline.place.caller().watch(path, {**asked, "timeoutSeconds": 2}) as watching:
        watching.wait_ended()
        assert watching.events("ERROR") == []


def test_r4_a_watch_from_the_known_version_is_open_and_silent(offline: Offline) -> None:
    for version in (offline.cursor, offline.cursor + 1_000_000):
        query: Parameters = {"resourceVersion": version, "timeoutSeconds": 1}
        with offline.place.caller().watch(offline.configmaps, query) as watching:
            assert watching.status == 200
            watching.wait_ended(timeout=10)
            assert not watching.seen


def test_r6_a_watch_from_a_version_that_is_not_held_is_told_that_it_expired(
    offline: Offline,
) -> None:
    query: Parameters = {"resourceVersion": "1", "timeoutSeconds": 60}
    with offline.place.caller().watch(offline.configmaps, query) as watching:
        watching.wait_ended()
        [error] = watching.seen
        assert error.type == ("ERROR" if watching.status == 200 else "STATUS")
        assert (error.object["code"], error.object["reason"]) == (410, "Expired")


# ── unknown ──


def unknown(offline: Offline) -> list[str]:
    contents = offline.contents
    return [
        contents.path("deployments.v1.apps"),
        contents.path("deployments.v1.apps", "d"),
        contents.path("serviceaccounts"),
        contents.path("serviceaccounts", "nobody"),
        contents.path("services"),
        "/api/v1/configmaps",
        "/api/v1/namespaces/default/configmaps",
        "/api/v1/namespaces/default/configmaps/kube-root-ca.crt",
        "/api/v1/nodes",
        "/api/v1/namespaces",
        f"/api/v1/namespaces/{contents.namespace}",
    ]


@pytest.mark.parametrize("query", [NEWEST, ANY, {"resourceVersion": 5}], ids=str)
def test_r6_unknown_is_unavailable_never_absent_or_empty(
    offline: Offline, query: Parameters
) -> None:
    for path in unknown(offline):
        assert_unavailable(offline.get(path, query))


def test_r6_an_unknown_watch_is_unavailable(offline: Offline) -> None:
    path = offline.contents.path("deployments.v1.apps")
    for query in (NEWEST, ANY, {"resourceVersion": 5}, WATCH_LIST):
        reply = offline.get(path, {**query, "watch": "true", "timeoutSeconds": 3})
        assert_unavailable(reply)


def test_r9_what_is_never_cached_is_never_answered_offline(offline: Offline) -> None:
    contents = offline.contents
    for path in (
        contents.path("leases.v1.coordination.k8s.io"),
        contents.path("leases.v1.coordination.k8s.io", "l"),
        f"{contents.path('pods', 'p1')}/status",
        f"{contents.path('pods', 'p1')}/log",
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    ):
        for query in (NEWEST, ANY):
            assert_unavailable(offline.get(path, query))
    review: Json = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert_unavailable(offline.place.caller().post(path, review))


@pytest.mark.slow
def test_r3_what_kubelet_follows_of_certificates_is_answered_offline(
    control_plane: ControlPlane,
) -> None:
    certificates = "/apis/certificates.k8s.io/v1"
    followed: list[tuple[str, Parameters]] = [
        (f"{certificates}/podcertificaterequests", {"fieldSelector": "spec.nodeName=n1", **ANY}),
        (f"{certificates}/clustertrustbundles", ANY),
    ]
    with Place(Kind.RELAY, control_plane) as place:
        place.wait_up()
        caller = place.caller()
        there = [it for it in followed if caller.get(it[0]).status == HTTPStatus.OK]
        if not there:
            pytest.skip("certificates.k8s.io/v1 has neither before Kubernetes 1.37")
        for path, query in there:
            caller.get(path, query).expect()
        place.cut()
        for path, query in there:
            caller.get(path, query).expect()
            with caller.watch(path, {**query, **WATCH_LIST, "timeoutSeconds": 60}) as watching:
                assert watching.status == HTTPStatus.OK
                watching.wait_initial_end()


def test_r7_who_impersonates_gets_nothing_offline(offline: Offline) -> None:
    caller = offline.place.caller(impersonate_user="nobody")
    for path in (offline.configmaps, f"{offline.configmaps}/a1"):
        for query in (NEWEST, ANY):
            assert_unavailable(caller.get(path, query))


def test_r6_who_takes_protobuf_only_gets_nothing_offline(offline: Offline) -> None:
    reply = offline.get(offline.configmaps, accept="application/vnd.kubernetes.protobuf")
    assert_unavailable(reply)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_r6_writes_are_refused_at_once(offline: Offline, method: str) -> None:
    path = offline.configmaps + ("" if method == "POST" else "/a1")
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    body: Json = {"metadata": {"name": "a1"}, "data": {"key": "offline"}}
    ask = partial(offline.place.caller().ask, method=method, headers={"Content-Type": kind})
    assert_unavailable(at_once(lambda: ask(path, body=body)))
    known = offline.get(f"{offline.configmaps}/a1").expect()
    assert "data" not in known


def test_r6_the_process_is_ready_and_says_that_its_link_is_down(offline: Offline) -> None:
    at_the_link = offline.place.relays[-1]
    assert at_the_link.readyz() == http.HTTPStatus.OK
    assert at_the_link.readyz("?upstream=true") == http.HTTPStatus.SERVICE_UNAVAILABLE
    assert json.dumps(at_the_link.status())
