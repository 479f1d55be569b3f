"""The pure readers of requests beside a real kube-apiserver: same objects, same refusals.

Each drawn request goes to the API server, and to the cores with all objects of its kind; what they
choose, or refuse, has to be the same to the byte. HYPOTHESIS_PROFILE=nightly asks much more.
"""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge_sidecars.apimachinery.objects import read_page
from edge_sidecars.apimachinery.request.list_options import ListOptions
from edge_sidecars.apimachinery.request.request_info import RequestInfo
from edge_sidecars.apimachinery.resources import check_fields
from edge_sidecars.apimachinery.scope import ListScope, ResourceName
from edge_sidecars.apimachinery.status import Refused
from tests.examples import examples
from tests.integration.relay.reads.asking import Answered, KeptCaller
from tests.integration.relay.reads.assortment import GROUP, Assortment, Kind
from tests.integration.relay.reads.questions import (
    field_selectors,
    label_selectors,
    options,
    target,
)
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.wire.caller import Caller

# Each example asks a server, so that none is quick in Hypothesis' eyes.
HEALTH = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
per_kind = settings(
    max_examples=examples(50, nightly=10), deadline=None, suppress_health_check=HEALTH
)
at_length = settings(
    max_examples=examples(300, nightly=10), deadline=None, suppress_health_check=HEALTH
)

RESOURCES = [
    *(
        ResourceName("", "v1", plural)
        for plural in (
            *("pods", "services", "secrets", "events", "replicationcontrollers", "configmaps"),
            *("nodes", "namespaces", "persistentvolumes"),
        )
    ),
    ResourceName("events.k8s.io", "v1", "events"),
    ResourceName("apps", "v1", "replicasets"),
    ResourceName("batch", "v1", "jobs"),
    ResourceName("resource.k8s.io", "v1", "resourceslices"),
    ResourceName("certificates.k8s.io", "v1", "certificatesigningrequests"),
    ResourceName("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
    ResourceName("apiregistration.k8s.io", "v1", "apiservices"),
    *(
        ResourceName(GROUP, version, plural)
        for version in ("v1", "v1beta1")
        for plural in ("widgets", "gadgets")
    ),
]
CONFIGMAPS = ResourceName("", "v1", "configmaps")


@pytest.fixture(scope="module")
def caller(control_plane: ControlPlane) -> Iterator[KeptCaller]:
    """An administrator with one connection."""
    kept = KeptCaller(Caller(control_plane.server, context=control_plane.tls()))
    yield kept
    kept.close()


@pytest.fixture(scope="module")
def assortment(control_plane: ControlPlane, caller: KeptCaller) -> Iterator[Assortment]:
    made = Assortment(control_plane, caller)
    yield made
    made.remove()


def chosen(kind: Kind, info: RequestInfo) -> tuple[ListOptions, ListScope]:
    """What the request is about. Raises Refused."""
    asked = ListOptions.parse(info.query)
    check_fields(
        kind.resource,
        asked.fields.paths,
        published=kind.published,
        is_namespaced=kind.is_namespaced,
    )
    return asked, ListScope(kind.resource, info.namespace, asked.labels, asked.fields)


def keys(answered: Answered) -> list[tuple[str, str]]:
    assert answered.status == HTTPStatus.OK, answered.body
    return [item.key for item in read_page(answered.body).items]


def assert_refused(answered: Answered, refused: Refused) -> None:
    assert (answered.status, answered.body) == (refused.status.code, refused.status.body())


@pytest.mark.parametrize("resource", RESOURCES, ids=str)
@per_kind
@given(data=st.data())
def test_the_same_objects_are_selected_and_the_same_selectors_refused(
    resource: ResourceName, assortment: Assortment, caller: KeptCaller, data: st.DataObject
) -> None:
    kind = assortment.kind(resource)
    namespaces = ["", *assortment.namespaces] if kind.is_namespaced else [""]
    asked_at = target(
        ListScope(resource, data.draw(st.sampled_from(namespaces))).path,
        labelSelector=data.draw(label_selectors),
        fieldSelector=data.draw(field_selectors(kind)),
    )
    answered = caller.get(asked_at)
    try:
        _, scope = chosen(kind, RequestInfo.parse("GET", asked_at))
    except Refused as refused:
        assert_refused(answered, refused)
        return
    assert keys(answered) == [item.key for item in kind.items if scope.matches(item)]
    assert keys(caller.get(target(scope.path, **scope.params))) == keys(answered)


@at_length
@given(query=options)
def test_the_same_options_are_refused(
    query: str, assortment: Assortment, caller: KeptCaller
) -> None:
    kind = assortment.kind(CONFIGMAPS)
    asked_at = f"{ListScope(CONFIGMAPS, assortment.namespaces[0]).path}?{query}"
    info = RequestInfo.parse("GET", asked_at)
    answered = caller.begin(asked_at) if info.verb == "watch" else caller.get(asked_at)
    try:
        asked, scope = chosen(kind, info)
    except Refused as refused:
        assert_refused(answered, refused)
        return
    assert asked.is_watch == (info.verb == "watch")
    if answered.status == HTTPStatus.BAD_REQUEST:
        # What a continue token means, only the storage knows.
        assert asked.continue_token
        assert "continue" in answered.json()["message"]
    elif answered.status == HTTPStatus.GONE:
        # etcd is compacted every five minutes.
        assert asked.resource_version == 1
    elif asked.is_watch or asked.resource_version or asked.limit > 0:
        assert answered.status == HTTPStatus.OK
    else:
        assert keys(answered) == [item.key for item in kind.items if scope.matches(item)]
