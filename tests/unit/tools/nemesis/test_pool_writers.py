"""Who may write what of a pool: every foreign write that was taken is found, in the audit log."""

from typing import Any

import pytest

from tools.harness.controlplane.audit import RESPONSE_COMPLETE, RESPONSE_STARTED, AuditEvent
from tools.harness.controlplane.cluster import ADMIN_USER
from tools.harness.pods.pools.controller import USER as CONTROLLER
from tools.nemesis.pool.judge.verdict import Renewal
from tools.nemesis.pool.judge.writers import (
    CANDIDATES,
    NODE_CONTROLLER,
    foreign_writes,
    loud_writes,
    renewals,
    watchers,
)

N1, N2 = "system:node:n1", "system:node:n2"
OURS = "pool-sidecar/1.0 (n1)"


def event(user: str, target: str, **more: Any) -> AuditEvent:
    """`target`: RESOURCE[/SUBRESOURCE] [NAMESPACE/]NAME."""
    kind, _, path = target.partition(" ")
    resource, _, subresource = kind.partition("/")
    namespace, _, name = path.rpartition("/")
    given = {
        "audit_id": "1",
        "stage": RESPONSE_COMPLETE,
        "verb": "patch",
        "user": user,
        "user_agent": OURS,
        "request_uri": f"/{target}",
        "api_group": "",
        "resource": resource,
        "subresource": subresource,
        "namespace": namespace,
        "name": name,
        "status": 200,
        "received_at": 7.0,
        "stage_at": 8.0,
        "request_object": None,
        "response_object": None,
    }
    return AuditEvent(**{**given, **more})


@pytest.mark.parametrize(
    ("target", "allowed", "foreign"),
    [
        ("leases kube-node-lease/n1", [N1], [N2, CONTROLLER, CANDIDATES, ADMIN_USER]),
        ("leases edge-pool/pool-factory-7", [CANDIDATES], [N1, CONTROLLER]),
        ("leases edge-pool/controller", [CONTROLLER], [N1, CANDIDATES]),
        ("nodes/status n1", [N1, NODE_CONTROLLER], [N2, CONTROLLER]),
        ("nodes n1", [CONTROLLER, NODE_CONTROLLER, ADMIN_USER], [N1, N2, CANDIDATES]),
        ("poolmembers/status n1", [N1, CONTROLLER], [N2, CANDIDATES, NODE_CONTROLLER]),
        ("poolmembers n1", [CONTROLLER], [N1, N2, CANDIDATES]),
        ("services shop/web", [N1, N2, ADMIN_USER], []),
    ],
)
def test_each_thing_has_its_writers_and_all_others_are_found(
    target: str, allowed: list[str], foreign: list[str]
) -> None:
    assert foreign_writes(event(it, target) for it in allowed) == []
    assert len(foreign_writes(event(it, target) for it in foreign)) == len(foreign)


def test_what_was_refused_and_what_only_reads_is_no_write() -> None:
    refused = event(N2, "leases kube-node-lease/n1", status=403)
    read = event(N2, "leases kube-node-lease/n1", verb="get")
    assert foreign_writes([refused, read]) == []
    assert renewals([refused, read]) == []


def test_renewals_are_of_nodes_as_the_api_server_received_them() -> None:
    events = [event(N1, "leases kube-node-lease/n1"), event(N1, "leases edge-pool/pool-a")]
    assert renewals(events) == [Renewal("n1", 7.0)]


def test_in_the_calm_our_programs_write_who_leads_and_nothing_else() -> None:
    quiet = [
        event(CANDIDATES, "leases edge-pool/pool-a", user_agent="elector-sidecar/1.0"),
        event(N1, "leases kube-node-lease/n1", user_agent="kubelet"),
        event(N1, "poolmembers n1", verb="watch"),
        event(N1, "subjectaccessreviews ", verb="create", api_group="authorization.k8s.io"),
    ]
    assert loud_writes(quiet) == []
    loud = [
        event(N1, "leases kube-node-lease/n1"),
        event(N1, "poolmembers/status n1"),
        event(CONTROLLER, "nodes n1", user_agent="pool-controller/1.0 (a)"),
    ]
    assert len(loud_writes(loud)) == len(loud)


def test_who_watches_is_told_once_for_each_watch_that_is_open() -> None:
    def watch(
        user: str,
        number: int,
        *stages: str,
        resource: str = "services",
        by: str = "relay-sidecar/1",
    ) -> list[AuditEvent]:
        one = {"verb": "watch", "audit_id": f"{user}-{number}", "user_agent": by}
        return [event(user, resource, **one, stage=it) for it in stages]

    open_, whole = (RESPONSE_STARTED,), (RESPONSE_STARTED, RESPONSE_COMPLETE)
    refused = (RESPONSE_COMPLETE,)
    events = [
        *watch(N2, 1, *open_),
        *watch(N1, 1, *whole),
        *watch(N1, 2, *open_),
        *watch(N1, 3, *open_),
        *watch(N1, 4, *refused),
        *watch(N1, 5, *open_, resource="endpointslices"),
        *watch(N1, 6, *open_, by="kube-proxy/v1.36.3"),
        *watch(ADMIN_USER, 1, *open_),
    ]
    assert watchers(events, "services") == ["n1", "n1", "n2"]
    assert watchers(events, "endpointslices") == ["n1"]
