"""How tests tell which rights nobody used: a verb or resource too many is found."""

import dataclasses

from tests.integration.manifests.confined import unused
from tools.harness.controlplane.audit import AuditEvent

WATCH = AuditEvent(
    audit_id="1",
    stage="ResponseStarted",
    verb="watch",
    user="system:serviceaccount:a:b",
    user_agent="",
    request_uri="",
    api_group="coordination.k8s.io",
    resource="leases",
    subresource="",
    namespace="a",
    name="gm",
    status=200,
    received_at=0.0,
    stage_at=0.0,
    request_object=None,
    response_object=None,
)
GET = dataclasses.replace(WATCH, verb="get")
RULE = {
    "apiGroups": ["coordination.k8s.io"],
    "resources": ["leases"],
    "resourceNames": ["gm"],
    "verbs": ["get", "watch"],
}


def test_rules_in_use_are_not_told() -> None:
    assert unused([RULE], [WATCH, GET]) == []


def test_a_verb_too_many_is_told() -> None:
    assert unused([RULE], [WATCH]) == ["rule 0: get"]


def test_a_resource_too_many_is_told() -> None:
    more = {**RULE, "resources": ["leases", "leases/status"]}
    assert unused([more], [WATCH, GET]) == ["rule 0: leases/status"]


def test_what_another_name_or_subresource_needed_does_not_count() -> None:
    others = [dataclasses.replace(each, name="other") for each in (WATCH, GET)]
    assert unused([RULE], others) == ["rule 0: get", "rule 0: leases", "rule 0: watch"]
    status = dataclasses.replace(GET, subresource="status")
    assert unused([RULE], [WATCH, status]) == ["rule 0: get"]
