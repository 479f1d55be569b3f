"""R1, LIST: what each combination of resourceVersion, resourceVersionMatch, limit, continue and
selectors means. `direct` shows that kube-apiserver answers so.
https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list
"""

import secrets
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.relay.oracle import assert_same_refusal, assert_snapshot
from tests.integration.relay.place import Place
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.wire.caller import Parameters, Reply
from tools.harness.relay_objects import Contents, Widgets, collection

NAMES = [f"a{number}" for number in range(6)]
# A version that is reached long after the test.
FUTURE = 1_000_000_000
NEWEST: Parameters = {}
ANY: Parameters = {"resourceVersion": "0"}
SOON = 20.0


@pytest.fixture
def six(contents: Contents) -> Contents:
    """ConfigMaps a0 … a5 (a6 was deleted), labelled with their parity."""
    return make_six(contents)


def make_six(contents: Contents) -> Contents:
    for number in range(7):
        contents.configmap(f"a{number}", labels={"parity": "odd" if number % 2 else "even"})
    contents.delete("configmaps", "a6")
    return contents


@pytest.fixture(scope="module")
def still(control_plane: ControlPlane) -> Contents:
    """What `six` is, with two more and pods, for all tests that only read it."""
    contents = make_six(Contents(control_plane, control_plane.create_namespace()))
    contents.configmap("plain")
    contents.configmap("sized", labels={"size": "4"})
    contents.pod("on-n1", node="n1")
    contents.pod("running", node="n1")
    contents.set_phase("running", "Running")
    contents.pod("on-n2", node="n2")
    contents.pod("nowhere")
    return contents


def open_stream(place: Place, contents: Contents, resource: str = "configmaps") -> None:
    """So that what a relay answers from its own objects is answered so; and that the API server,
    which at version 0 may answer from before now, does not."""
    path, version = contents.path(resource), contents.version(resource)

    def has_come() -> bool:
        reply = place.caller().get(path, {"resourceVersion": version})
        # 504: its cache is late, for which it waits no longer than three seconds.
        return reply.status != 504 and bool(reply.expect())

    if place.is_relayed:
        place.caller().get(path, ANY).expect()
    else:
        wait_for(has_come, timeout=SOON, what=f"version {version}")


def ask(place: Place, contents: Contents, query: Parameters, **headers: str) -> Reply:
    path = contents.path("configmaps")
    reply = place.caller().get(path, query, **headers)
    assert_snapshot(place, path, query, reply)
    return reply


@pytest.mark.parametrize("query", [{}, {"resourceVersion": ""}])
def test_r1_without_a_version_a_list_is_the_newest(
    shared: Place, six: Contents, query: Parameters
) -> None:
    before = six.version()
    for number in range(3):
        six.configmap(f"b{number}")
        reply = ask(shared, six, query)
        assert reply.names == [*NAMES, *(f"b{made}" for made in range(number + 1))]
        assert int(reply.version) > before


@pytest.mark.parametrize("match", [{}, {"resourceVersionMatch": "NotOlderThan"}])
def test_r1_at_version_zero_a_list_is_of_any_age(
    shared: Place, six: Contents, match: Parameters
) -> None:
    reply = ask(shared, six, {**ANY, **match})
    assert reply.version != "0"
    assert reply.names == sorted(reply.names)


@pytest.mark.parametrize("match", [{}, {"resourceVersionMatch": "NotOlderThan"}])
@pytest.mark.parametrize("age", [0, 3])
def test_r1_a_list_is_not_older_than_the_version_that_was_asked_for(
    shared: Place, six: Contents, match: Parameters, age: int
) -> None:
    # The streams of a relay are open, so that it has to wait for the new object.
    shared.caller().get(six.path("configmaps"), ANY).expect()
    six.configmap("b")
    asked = six.version() - age
    reply = ask(shared, six, {"resourceVersion": asked, **match})
    assert int(reply.version) >= asked
    if age == 0:
        assert reply.names == [*NAMES, "b"]


def test_r1_exactly_at_a_version_a_list_is_what_it_was(shared: Place, six: Contents) -> None:
    then = six.version()
    six.configmap("b")
    exact = {"resourceVersionMatch": "Exact"}
    reply = ask(shared, six, {"resourceVersion": then, **exact})
    assert (reply.version, reply.names) == (str(then), NAMES)
    now = six.version()
    reply = ask(shared, six, {"resourceVersion": now, **exact})
    assert (reply.version, reply.names) == (str(now), [*NAMES, "b"])


def test_r1_a_version_of_the_future_is_too_large(near: Place, still: Contents) -> None:
    open_stream(near, still)
    listing, one = still.path("configmaps"), still.path("configmaps", "a1")
    future: Parameters = {"resourceVersion": FUTURE}
    asked = [
        (listing, future),
        (listing, {**future, "resourceVersionMatch": "Exact"}),
        (one, future),
    ]
    with ThreadPoolExecutor() as pool:
        refusals = list(pool.map(lambda each: assert_same_refusal(near, *each), asked))
    for status in refusals:
        assert (status["code"], status["reason"]) == (504, "Timeout")
        [cause] = status["details"]["causes"]
        assert cause["reason"] == "ResourceVersionTooLarge"


@pytest.mark.parametrize(
    "query",
    [
        {"resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "NotOlderThan"},
        {"resourceVersion": "0", "resourceVersionMatch": "Exact"},
        {"resourceVersion": "5", "resourceVersionMatch": "Newest"},
        {"resourceVersion": "abc"},
        {"resourceVersion": "-1"},
        {"limit": "x"},
        {"limit": 2, "continue": "garbage"},
        {"continue": "garbage", "resourceVersionMatch": "NotOlderThan"},
        {"sendInitialEvents": "true"},
        {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"},
        {"timeoutSeconds": "x"},
        {"labelSelector": "=,"},
        {"labelSelector": "a b"},
        {"labelSelector": "a=b=c"},
        {"labelSelector": "x in a"},
        {"labelSelector": "-x"},
        {"labelSelector": "x=" + "y" * 64},
        {"labelSelector": "x notin ("},
        {"labelSelector": "x gt 3"},
        {"labelSelector": "x>y"},
        {"fieldSelector": "metadata.name"},
        {"fieldSelector": "metadata.name in (a)"},
        {"fieldSelector": "data.x=1"},
        {"fieldSelector": "metadata.name=a,spec.nodeName=b"},
        {"fieldSelector": "metadata.labels.parity=odd"},
    ],
    ids=str,
)
def test_r1_a_list_is_refused_in_the_words_of_the_api_server(
    shared: Place, still: Contents, query: Parameters
) -> None:
    open_stream(shared, still)
    assert_same_refusal(shared, still.path("configmaps"), query)


def pages(place: Place, contents: Contents, query: Parameters) -> list[Reply]:
    """All pages of two, by the tokens."""
    found = [place.caller().get(contents.path("configmaps"), {"limit": 2, **query})]
    while token := found[-1].expect()["metadata"].get("continue"):
        following = {"limit": 2, "continue": token}
        found.append(place.caller().get(contents.path("configmaps"), following))
    return found


def test_r1_pages_are_of_one_version_whatever_is_written_between_them(
    shared: Place, six: Contents
) -> None:
    first = shared.caller().get(six.path("configmaps"), {"limit": 2})
    token = first.expect()["metadata"]["continue"]
    assert first.expect()["metadata"]["remainingItemCount"] == 4
    six.delete("configmaps", "a3")
    six.configmap("a25")
    second = shared.caller().get(six.path("configmaps"), {"limit": 2, "continue": token})
    assert second.version == first.version
    assert first.names + second.names == NAMES[:4]


def test_r1_all_pages_together_are_the_list(shared: Place, six: Contents) -> None:
    found = pages(shared, six, {})
    assert [name for page in found for name in page.names] == NAMES
    assert len({page.version for page in found}) == 1
    assert "remainingItemCount" not in found[-1].json()["metadata"]


def test_r1_after_all_pages_a_watch_goes_on_from_their_version(
    shared: Place, six: Contents
) -> None:
    version = pages(shared, six, {})[-1].version
    query: Parameters = {"resourceVersion": version, "timeoutSeconds": 30}
    with shared.caller().watch(six.path("configmaps"), query) as watching:
        six.configmap("b")
        watching.wait_told(("ADDED", "b"))


def test_r1_at_version_zero_a_limit_may_be_ignored_but_nothing_is_lost(
    shared: Place, six: Contents
) -> None:
    shared.caller().get(six.path("configmaps"), {"resourceVersion": six.version()}).expect()
    found = pages(shared, six, ANY)
    assert [name for page in found for name in page.names] == NAMES


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("parity=odd", ["a1", "a3", "a5"]),
        ("parity==odd", ["a1", "a3", "a5"]),
        ("parity!=odd", ["a0", "a2", "a4", "plain", "sized"]),
        ("parity in (odd, even),parity notin (even)", ["a1", "a3", "a5"]),
        ("parity notin (odd)", ["a0", "a2", "a4", "plain", "sized"]),
        ("parity", NAMES),
        ("!parity", ["plain", "sized"]),
        ("parity=", []),
        ("size>3", ["sized"]),
        ("size<3", []),
        ("size<5,size", ["sized"]),
        # More, and longer, than a relay evaluates.
        (f"parity in (odd,even,{','.join(f'x{it}' for it in range(3000))})", NAMES),
        (f"parity,{','.join(f'parity!=x{it}' for it in range(200))}", NAMES),
    ],
)
@pytest.mark.parametrize("query", [{}, ANY], ids=["newest", "any"])
def test_r3_label_selectors_select_as_upstream_does(
    shared: Place, still: Contents, selector: str, names: list[str], query: Parameters
) -> None:
    open_stream(shared, still)
    reply = ask(shared, still, {"labelSelector": selector, **query})
    assert reply.names == names


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("metadata.name=a1", ["a1"]),
        ("metadata.name!=a1", ["a0", "a2", "a3", "a4", "a5", "plain", "sized"]),
        ("metadata.name=a1,metadata.name=a2", []),
        ("metadata.namespace=elsewhere", []),
        ("", [*NAMES, "plain", "sized"]),
    ],
)
@pytest.mark.parametrize("query", [{}, ANY], ids=["newest", "any"])
def test_r3_field_selectors_select_as_upstream_does(
    shared: Place, still: Contents, selector: str, names: list[str], query: Parameters
) -> None:
    open_stream(shared, still)
    reply = ask(shared, still, {"fieldSelector": selector, **query})
    assert reply.names == names


PODS: list[tuple[str, list[str]]] = [
    ("spec.nodeName=n1", ["on-n1", "running"]),
    ("spec.nodeName!=n1", ["nowhere", "on-n2"]),
    ("spec.nodeName=", ["nowhere"]),
    ("spec.nodeName=n1,status.phase=Running", ["running"]),
    ("status.phase!=Running,spec.nodeName!=n2", ["nowhere", "on-n1"]),
    ("spec.restartPolicy=Always", ["nowhere", "on-n1", "on-n2", "running"]),
    ("spec.schedulerName=other", []),
    ("spec.serviceAccountName=default", ["nowhere", "on-n1", "on-n2", "running"]),
    ("spec.hostNetwork=true", []),
    ("spec.hostNetwork=false", ["nowhere", "on-n1", "on-n2", "running"]),
    ("status.podIP=", ["nowhere", "on-n1", "on-n2", "running"]),
    ("status.nominatedNodeName=", ["nowhere", "on-n1", "on-n2", "running"]),
]


@pytest.mark.parametrize(("selector", "names"), PODS)
@pytest.mark.parametrize("query", [{}, ANY], ids=["newest", "any"])
def test_r3_each_field_of_pods_selects_as_upstream_does(
    shared: Place, still: Contents, selector: str, names: list[str], query: Parameters
) -> None:
    path = still.path("pods")
    # The stream of all pods of the namespace, of which any selector is a part.
    open_stream(shared, still, "pods")
    reply = shared.caller().get(path, {"fieldSelector": selector, **query})
    assert_snapshot(shared, path, {"fieldSelector": selector}, reply)
    assert reply.names == names


@pytest.mark.parametrize("query", [{}, ANY], ids=["newest", "any"])
def test_r3_an_unknown_field_of_pods_is_refused_not_empty(
    shared: Place, still: Contents, query: Parameters
) -> None:
    open_stream(shared, still, "pods")
    assert_same_refusal(shared, still.path("pods"), {**query, "fieldSelector": "spec.nope=1"})


def test_r3_selectable_fields_of_a_crd_select_and_others_are_refused(
    shared: Place, contents: Contents, widgets: Widgets
) -> None:
    for name, site in (("w1", "north"), ("w2", "south"), ("w3", "north")):
        widgets.create(contents, name, site=site)
    contents.create(widgets.resource, "w4", apiVersion=widgets.api_version, kind="Widget")
    path = contents.path(widgets.resource)
    open_stream(shared, contents, widgets.resource)
    for selector, names in (
        ("spec.site=north", ["w1", "w3"]),
        ("spec.site!=north", ["w2", "w4"]),
        ("spec.site=", ["w4"]),
    ):
        for query in (NEWEST, ANY):
            asked = {**query, "fieldSelector": selector}
            reply = shared.caller().get(path, asked)
            assert_snapshot(shared, path, asked, reply)
            assert reply.names == names, (selector, query)
    assert_same_refusal(shared, path, {"fieldSelector": "spec.size=1"})
    assert_same_refusal(shared, path, {"fieldSelector": "spec.size=1", **ANY})


def test_r1_lists_over_all_namespaces_and_of_one_agree(place: Place, six: Contents) -> None:
    path = collection("configmaps")
    query: Parameters = {"labelSelector": "parity", "resourceVersion": six.version()}
    reply = place.caller().get(path, query)
    assert_snapshot(place, path, query, reply)
    own = [each for each in reply.json()["items"] if each["metadata"]["namespace"] == six.namespace]
    assert [each["metadata"]["name"] for each in own] == NAMES


def test_r1_a_resource_that_does_not_exist_is_not_found(shared: Place, contents: Contents) -> None:
    for path in (contents.path("nopes"), collection("nopes")):
        assert_same_refusal(shared, path, {})
    path = "/apis/nope.example.com/v1/nopes"
    said, truth = shared.caller().get(path), shared.cloud.get(path)
    assert (said.status, said.body) == (truth.status, truth.body)


def test_r1_items_of_lists_have_a_kind_where_they_have_one_upstream(
    shared: Place, still: Contents, widgets: Widgets
) -> None:
    widgets.create(still, f"w-{secrets.token_hex(4)}", site="north")
    for resource in ("configmaps", "pods", widgets.resource):
        path = still.path(resource)
        open_stream(shared, still, resource)
        truth = shared.cloud.get(path).expect()["items"]
        for query in (NEWEST, ANY):
            assert shared.caller().get(path, query).expect()["items"] == truth, (resource, query)
