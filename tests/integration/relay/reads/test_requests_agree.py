"""Paths and Accept headers as a real kube-apiserver reads them: its audit log tells what it took
a path for, its answers which representation it chose. HYPOTHESIS_PROFILE=nightly asks much more.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator
from http import HTTPStatus

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge_sidecars.apimachinery.request.accept import Form, representation
from edge_sidecars.apimachinery.request.request_info import RequestInfo
from tests.examples import examples
from tests.integration.relay.reads.asking import Answered, KeptCaller
from tests.integration.relay.reads.questions import clauses, targets
from tools.harness.controlplane.audit import AuditEvent
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.wire.caller import Caller

drawn = settings(
    max_examples=examples(200, nightly=40),
    deadline=None,
    # Each example asks a server, so that none is quick in Hypothesis' eyes.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
PROTOBUF = "application/vnd.kubernetes.protobuf"
NOTHING = "as=Nothing;g=meta.k8s.io;v=v1"
TRANSFORM = re.compile(r"; *(as|g|v) *=")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
numbers = itertools.count()


@pytest.fixture(scope="module")
def caller(control_plane: ControlPlane) -> Iterator[KeptCaller]:
    """An administrator with one connection."""
    kept = KeptCaller(Caller(control_plane.server, context=control_plane.tls()))
    yield kept
    kept.close()


@pytest.fixture(scope="module")
def nobody(control_plane: ControlPlane) -> Iterator[KeptCaller]:
    """Somebody who may do nothing: his requests are judged, logged and go no further."""
    namespace = control_plane.create_namespace()
    token = control_plane.new_token(namespace, "default")
    headers = {"Authorization": f"Bearer {token}", "User-Agent": "nobody"}
    context = control_plane.tls(as_admin=False)
    kept = KeptCaller(Caller(control_plane.server, context=context, headers=headers))
    yield kept
    kept.close()


@settings(drawn, max_examples=examples(40, nightly=25))
@given(asked=st.lists(st.tuples(st.sampled_from(METHODS), targets), min_size=1, max_size=20))
def test_a_request_is_for_what_it_is_authorized_by(
    asked: list[tuple[str, str]], control_plane: ControlPlane, nobody: KeptCaller
) -> None:
    since = time.time()
    expected = {}
    for method, target in asked:
        marked = f"{target}&number={next(numbers)}"
        info = RequestInfo.parse(method, marked)
        answered = nobody.ask(method, marked)
        if answered.status == HTTPStatus.INTERNAL_SERVER_ERROR:
            # A verb in the path, and nothing after it: that is an error there, and not logged.
            assert info.is_resource
            assert not info.parts
        else:
            expected[marked] = read(info)
    logged = control_plane.audit(user_agent="nobody", since=since)
    assert {event.request_uri: said(event) for event in logged} == expected


def said(event: AuditEvent) -> tuple[str, ...]:
    return (
        event.verb,
        event.api_group,
        event.resource,
        event.subresource,
        event.namespace,
        event.name,
    )


def read(info: RequestInfo) -> tuple[str, ...]:
    resource = info.resource
    return (info.verb, resource.group, resource.plural, info.subresource, info.namespace, info.name)


@drawn
@given(parts=st.lists(clauses, max_size=4))
def test_the_same_representation_is_chosen(parts: list[str], caller: KeptCaller) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    whole = ",".join(parts)
    found = representation(whole)
    answered = caller.get(path, accept=whole)
    if answered.content_type == "application/json":
        # What the relay passes over, kube-apiserver did not like better.
        assert shown(answered) == (found.form, found.api_version)
    # Where nothing else can be had, it chooses as the relay does.
    answered = caller.get(path, accept=",".join(map(in_json, parts)))
    assert shown(answered) == (found.form, found.api_version)
    if parts and found.form is not Form.OTHER:
        assert found.allows_whole == takes_whole(caller, path, parts)


def takes_whole(caller: KeptCaller, path: str, parts: list[str]) -> bool:
    plain = [each for each in map(in_json, parts) if not TRANSFORM.search(each)]
    answered = caller.get(path, accept=",".join([*plain, f"application/yaml;{NOTHING}"]))
    return shown(answered) == (Form.WHOLE, "")


def in_json(clause: str) -> str:
    """What is asked for in another encoding leads to the resource, but is never served."""
    is_other = clause.partition(";")[0].strip(" ") in ("application/yaml", PROTOBUF)
    return f"{clause};{NOTHING}" if is_other else clause


def shown(answered: Answered) -> tuple[Form, str]:
    if answered.status == HTTPStatus.NOT_ACCEPTABLE:
        return Form.OTHER, ""
    assert answered.status == HTTPStatus.OK, answered.body
    if answered.content_type != "application/json":
        return Form.OTHER, ""
    told = answered.json()
    match told["kind"]:
        case "PartialObjectMetadataList":
            return Form.METADATA, told["apiVersion"]
        case "Table":
            return Form.TABLE, told["apiVersion"]
    return Form.WHOLE, ""
