"""From method and path to verb, resource and name, as kube-apiserver authorizes by them."""

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.apimachinery.request.request_info import RequestInfo
from edge_sidecars.apimachinery.scope import ResourceName

PODS = ResourceName("", "v1", "pods")


def said(info: RequestInfo) -> tuple[str, str, str, str, str]:
    return (info.verb, info.resource.plural, info.namespace, info.name, info.subresource)


@pytest.mark.parametrize(
    ("method", "target", "verb", "plural", "namespace", "name", "subresource"),
    [
        # The cases of k8s.io/apiserver's requestinfo_test.go.
        ("GET", "/api/v1/namespaces", "list", "namespaces", "", "", ""),
        ("GET", "/api/v1/namespaces/other", "get", "namespaces", "other", "other", ""),
        ("GET", "/api/v1/namespaces/other/pods", "list", "pods", "other", "", ""),
        ("GET", "/api/v1/namespaces/other/pods/foo", "get", "pods", "other", "foo", ""),
        ("HEAD", "/api/v1/namespaces/other/pods/foo", "get", "pods", "other", "foo", ""),
        ("GET", "/api/v1/pods", "list", "pods", "", "", ""),
        ("HEAD", "/api/v1/pods", "list", "pods", "", "", ""),
        ("GET", "/api/v1/proxy/namespaces/o/pods/foo/a", "proxy", "pods", "o", "foo", ""),
        ("GET", "/api/v1/watch/pods", "watch", "pods", "", "", ""),
        ("GET", "/api/v1/watch/namespaces/other/pods", "watch", "pods", "other", "", ""),
        ("GET", "/api/v1/pods?watch=true", "watch", "pods", "", "", ""),
        ("GET", "/api/v1/pods?watch=false", "list", "pods", "", "", ""),
        ("GET", "/api/v1/namespaces/other/pods?watch=1", "watch", "pods", "other", "", ""),
        ("GET", "/api/v1/namespaces/other/pods?watch=0", "list", "pods", "other", "", ""),
        ("GET", "/api/v1/namespaces/o/pods/foo/status", "get", "pods", "o", "foo", "status"),
        ("GET", "/api/v1/namespaces/o/pods/foo/proxy/x", "get", "pods", "o", "foo", "proxy"),
        ("PUT", "/api/v1/namespaces/o/finalize", "update", "namespaces", "o", "o", "finalize"),
        ("PUT", "/api/v1/namespaces/o/status", "update", "namespaces", "o", "o", "status"),
        ("PATCH", "/api/v1/namespaces/other/pods/foo", "patch", "pods", "other", "foo", ""),
        ("DELETE", "/api/v1/namespaces/other/pods/foo", "delete", "pods", "other", "foo", ""),
        ("POST", "/api/v1/namespaces/other/pods", "create", "pods", "other", "", ""),
        ("DELETE", "/api/v1/nodes", "deletecollection", "nodes", "", "", ""),
        ("DELETE", "/api/v1/namespaces", "deletecollection", "namespaces", "", "", ""),
        ("OPTIONS", "/api/v1/pods", "", "pods", "", "", ""),
        # Beyond them.
        ("GET", "/api/v1/pods?watch", "watch", "pods", "", "", ""),
        ("GET", "/api/v1/namespaces/o/namespaces", "list", "namespaces", "o", "", ""),
        ("GET", "/api/v1/pods/", "list", "pods", "", "", ""),
        ("GET", "/api/v1//pods", "get", "", "", "pods", ""),
        ("GET", "/api/v1/watch", "watch", "", "", "", ""),
    ],
)
def test_paths_of_resources_are_read(
    method: str, target: str, verb: str, plural: str, namespace: str, name: str, subresource: str
) -> None:
    info = RequestInfo.parse(method, target)
    assert info.is_resource
    assert said(info) == (verb, plural, namespace, name, subresource)


@pytest.mark.parametrize(
    "target",
    ["/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/version", "/healthz/a/b/c"],
)
def test_other_paths_are_of_no_resource(target: str) -> None:
    info = RequestInfo.parse("GET", target)
    assert not info.is_resource
    assert not info.is_canonical
    assert (info.verb, info.path) == ("get", target)


def test_groups_and_versions_are_told() -> None:
    info = RequestInfo.parse("GET", "/apis/apps/v1/namespaces/a/deployments/b/scale/c")
    assert info.resource == ResourceName("apps", "v1", "deployments")
    assert info.parts == ("deployments", "b", "scale", "c")
    assert RequestInfo.parse("GET", "/api/v1/pods").resource == PODS


@pytest.mark.parametrize("verb", ["list", "watch"])
@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("fieldSelector=metadata.name%3Dfoo", "foo"),
        ("fieldSelector=metadata.name==foo,spec.nodeName=n", "foo"),
        ("fieldSelector=metadata.name!=foo", ""),
        ("fieldSelector=metadata.name=", ""),
        ("fieldSelector=metadata.name=a/b", ""),
        ("fieldSelector=metadata.name=a%25b", ""),
        ("fieldSelector=metadata.name=..", ""),
        ("fieldSelector=metadata.name=b,metadata.name=a", "a"),
        # Nothing of a query counts where a part of it cannot be read.
        ("fieldSelector=metadata.name=foo&labelSelector=!!", ""),
        ("fieldSelector=metadata.name=foo&limit=x", ""),
        ("fieldSelector=metadata.name=foo&fieldSelector=metadata.name=bar", "foo"),
    ],
)
def test_a_pinned_name_is_the_name_of_a_list_or_watch(verb: str, query: str, name: str) -> None:
    target = f"/api/v1/pods?{query}" + ("&watch=1" if verb == "watch" else "")
    info = RequestInfo.parse("GET", target)
    assert (info.verb, info.name) == (verb, name)


def test_the_name_in_the_path_is_the_name_whatever_is_selected() -> None:
    info = RequestInfo.parse("GET", "/api/v1/nodes/a?fieldSelector=metadata.name%3Db&watch=1")
    assert (info.verb, info.name) == ("get", "a")


@pytest.mark.parametrize(
    "target",
    [
        "/api/v1/pods",
        "/api/v1/pods?limit=5",
        "/api/v1/namespaces/a/pods/b/log",
        "/api/v1/namespaces/a/status",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
        "/api/v1/namespaces/x/pods/a%2Db",
        "/api/v1/%70ods",
    ],
)
def test_the_one_way_to_write_a_path_is_canonical(target: str) -> None:
    assert RequestInfo.parse("GET", target).is_canonical


@pytest.mark.parametrize(
    "target",
    [
        "/api/v1/pods/",
        "//api/v1/pods",
        "/api/v1//pods",
        "/api/v1/namespaces//pods",
        "/api/v1/namespaces/a%2Fb/pods",
        "/api/v1/namespaces/a/pods%2Fb",
        "/api/v1/namespaces/a/pods/%2E%2E",
        "/api/v1/namespaces/a/pods/b%252Dc",
        "/api/v1/pods/%C3%A9",
        "/api/v1/namespaces/../pods",
        "/apis/./v1/pods",
        "/api/v1/pods/..",
        "/api/v1/pods/a#b",
        "/api/v1/pods/é",
        "/apis//v1/pods",
        "/api/v1/namespaces/a/namespaces/b",
        "/api/v1/watch/pods",
        "/api/v1/proxy/pods/a",
        "/api/v1/watch",
    ],
)
def test_no_other_way_is(target: str) -> None:
    assert not RequestInfo.parse("GET", target).is_canonical


def test_bytes_that_are_no_text_are_replaced() -> None:
    raw = b"/api/v1/pods?labelSelector=\xff%fe".decode("utf-8", "surrogateescape")
    info = RequestInfo.parse("GET", raw)
    assert info.query["labelSelector"] == ("\ufffd\ufffd",)
    assert info.is_canonical


_PIECES = ("/api", "/apis", "/v1", "/namespaces", "/watch", "/pods", "/a", "/", "%2e", "..", "?")


@given(target=st.lists(st.sampled_from(_PIECES), max_size=9).map("".join) | st.text())
def test_any_target_is_read_and_what_is_canonical_has_all_its_parts(target: str) -> None:
    info = RequestInfo.parse("GET", target)
    if info.is_canonical:
        assert info.is_resource
        assert info.resource.plural
        assert unquote(target.partition("?")[0]).endswith("/" + "/".join(info.parts))
