"""Which stream can serve whom, and what then remains to be filtered."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from edge_sidecars.apimachinery.objects import Item
from edge_sidecars.apimachinery.scope import ListScope, ResourceName
from edge_sidecars.apimachinery.selection.attrs import Attrs
from edge_sidecars.apimachinery.selection.fields import NAMESPACE, FieldRequirement, FieldSelector
from edge_sidecars.apimachinery.selection.labels import LabelSelector
from tests.unit.lib.apimachinery.selection import PODS, pod, pods, scopes


def scope(
    namespace: str = "", labels: str = "", fields: str = "", *, resource: ResourceName = PODS
) -> ListScope:
    return ListScope(resource, namespace, LabelSelector.parse(labels), FieldSelector.parse(fields))


def test_a_scope_says_where_it_is_and_what_it_selects() -> None:
    deployments = ResourceName("apps", "v1", "deployments")
    one = scope("a", "b==1,c", "metadata.name=x", resource=deployments)
    assert one.path == "/apis/apps/v1/namespaces/a/deployments"
    assert one.params == {"labelSelector": "b=1,c", "fieldSelector": "metadata.name=x"}
    assert scope().path == "/api/v1/pods"
    assert scope().params == {}
    assert str(one) == f"{one.path}?labelSelector=b=1,c&fieldSelector=metadata.name=x"
    assert [str(PODS), str(deployments)] == ["pods.v1.", "deployments.v1.apps"]


def test_names_in_its_path_are_escaped() -> None:
    assert scope("a/../b?").path == "/api/v1/namespaces/a%2F..%2Fb%3F/pods"


def test_equal_scopes_are_one_key() -> None:
    assert {scope("a", "b=1,c"): 1}[scope("a", "c,b in (1)")] == 1


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        (scope(), scope("a")),
        (scope(), scope(labels="b")),
        (scope("a"), scope("a", "b=1", "spec.nodeName=n")),
        (scope(labels="b"), scope("a", "b=1")),
        (scope("a"), scope("a", fields="metadata.name=x")),
        (scope(fields="metadata.name!=x"), scope("a", fields="metadata.name=y")),
        (scope(fields="metadata.namespace!=b"), scope("a")),
    ],
)
def test_a_wider_scope_covers_and_a_narrower_does_not(wide: ListScope, narrow: ListScope) -> None:
    assert wide.covers(wide)
    assert wide.covers(narrow)
    assert not narrow.covers(wide)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (scope("a"), scope("b")),
        (scope("a"), scope("b", fields="metadata.name=x")),
        (scope(labels="a"), scope(labels="b")),
        (scope(), scope(resource=ResourceName("", "v1", "services"))),
        (scope(), scope(resource=ResourceName("", "v1beta1", "pods"))),
        (scope(), scope(resource=ResourceName("metrics.k8s.io", "v1", "pods"))),
    ],
)
def test_what_is_beside_is_not_covered(one: ListScope, other: ListScope) -> None:
    assert not one.covers(other)
    assert not other.covers(one)


def test_a_namespace_may_be_told_by_path_or_field() -> None:
    by_path, by_field = scope("a", "b"), scope("", "b", "metadata.namespace=a")
    assert by_path.covers(by_field)
    assert by_field.covers(by_path)
    assert by_path.residual(by_field) is None


def test_a_pinned_name_is_known() -> None:
    assert scope("a", fields="metadata.name=x,spec.nodeName=n").name == "x"
    assert scope("a", fields="metadata.name!=x").name is None


def test_nothing_is_filtered_where_nothing_is_left_out() -> None:
    assert scope("a", "b").residual(scope("a", "b")) is None
    assert scope("a", "b in (1)").residual(scope("a", "b=1")) is None


def test_name_and_namespace_are_filtered_without_decoding() -> None:
    predicate = scope().residual(scope("one", fields="metadata.name=p"))
    assert predicate is not None
    broken = [Item((namespace, name), 7, b"{") for namespace in ("one", "two") for name in "pq"]
    assert [item.key for item in broken if predicate.matches(item)] == [("one", "p")]


def test_readers_of_one_object_may_share_what_was_decoded() -> None:
    item = pod("p", "one", labels={"a": "1"})
    shown = Attrs(pod("p", "one", labels={"a": "2"}).raw)
    predicate = scope().residual(scope(labels="a=2"))
    assert predicate is not None
    assert not predicate.matches(item)
    assert predicate.matches(item, shown)


@given(wide=scopes, narrow=scopes, item=pods)
def test_a_covering_scope_misses_nothing(wide: ListScope, narrow: ListScope, item: Item) -> None:
    if wide.covers(narrow) and narrow.matches(item):
        assert wide.matches(item)


@given(wide=scopes, narrow=scopes, item=pods)
def test_what_remains_filters_as_the_whole_would(
    wide: ListScope, narrow: ListScope, item: Item
) -> None:
    predicate = wide.residual(narrow)
    if wide.matches(item):
        assert narrow.matches(item) == (predicate is None or predicate.matches(item))


@given(wide=scopes, more=scopes, is_in_path=st.booleans())
def test_more_requirements_are_covered(wide: ListScope, more: ListScope, is_in_path: bool) -> None:
    assume(wide.namespace in ("", more.namespace))
    namespace = more.namespace
    facts = (*wide.fields.requirements, *more.fields.requirements)
    if namespace and not is_in_path:
        facts = (*facts, FieldRequirement(NAMESPACE, True, namespace))
        namespace = ""
    labels = LabelSelector.of((*wide.labels.requirements, *more.labels.requirements))
    assert wide.covers(ListScope(PODS, namespace, labels, FieldSelector.of(facts)))
