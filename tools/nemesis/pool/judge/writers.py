"""Who wrote, and who watches, what of a pool, by the API server's audit log. Pure.

    Lease in kube-node-lease          that node
    Lease pool-* in edge-pool         the candidates
    nodes/X/status                    that node, node-lifecycle-controller
    nodes/X                           the pools' controller, node-lifecycle-controller, the nemesis
    poolmembers/X/status              that node; its conditions: the pools' controller
    poolmembers/X                     the pools' controller
Requests that were refused are none: whatever was tried, it changed nothing.
"""

from collections.abc import Iterable, Iterator
from http import HTTPStatus

from tools.harness.controlplane.audit import RESPONSE_COMPLETE, RESPONSE_STARTED, AuditEvent
from tools.harness.controlplane.cluster import ADMIN_USER
from tools.harness.pods.pools.controller import NAMESPACE
from tools.harness.pods.pools.controller import USER as CONTROLLER
from tools.nemesis.pool.judge.verdict import Renewal
from tools.nemesis.pool.objects import CANDIDATE

NODE_LEASES = "kube-node-lease"
NODE_CONTROLLER = "system:serviceaccount:kube-system:node-controller"
CANDIDATES = f"system:serviceaccount:{NAMESPACE}:{CANDIDATE}"
NODE = "system:node:"
RELAY = "relay-sidecar"
OURS = ("pool-", RELAY, "elector-sidecar")
_VERBS = ("create", "update", "patch", "delete", "deletecollection")


def written(events: Iterable[AuditEvent]) -> Iterator[AuditEvent]:
    """The writes that the API server took."""
    for it in events:
        if it.verb in _VERBS and it.status is not None and it.status < HTTPStatus.BAD_REQUEST:
            yield it


def foreign_writes(events: Iterable[AuditEvent]) -> list[str]:
    """Invariant 1: those by another one than may write this."""
    found = []
    for it in written(events):
        allowed = _may_write(it)
        if allowed is not None and it.user not in allowed:
            found.append(f"writers: {it.user} wrote {it.request_uri} ({it.verb})")
    return found


def renewals(events: Iterable[AuditEvent]) -> list[Renewal]:
    """Of nodes' Leases."""
    return [
        Renewal(it.name, it.received_at)
        for it in written(events)
        if (it.resource, it.namespace) == ("leases", NODE_LEASES)
    ]


def loud_writes(events: Iterable[AuditEvent]) -> list[str]:
    """Invariant 7: writes of our programs but those of Leases that say who leads."""
    return [
        f"calm: {it.user_agent} wrote {it.request_uri} ({it.verb})"
        for it in written(events)
        if it.user_agent.startswith(OURS)
        and (it.resource, it.namespace) != ("leases", NAMESPACE)
        and "authorization.k8s.io" not in it.api_group
        and "authentication.k8s.io" not in it.api_group
    ]


def watchers(events: Iterable[AuditEvent], resource: str) -> list[str]:
    """Invariant 6: the nodes whose relays watch all of it at the end; one for each watch. `events`
    are of one life of the API server: of those that are open as it dies, it tells no end.

    A watch of a client's own is none: a relay passes on what begins before its window, as after its
    restart, and that goes on for the minutes that the client asked for."""
    open_by_id: dict[str, str] = {}
    for it in events:
        is_of_a_relay = it.user.startswith(NODE) and it.user_agent.startswith(RELAY)
        if it.verb != "watch" or it.resource != resource or not is_of_a_relay:
            continue
        if it.stage == RESPONSE_STARTED:
            open_by_id[it.audit_id] = it.user.removeprefix(NODE)
        elif it.stage == RESPONSE_COMPLETE:
            open_by_id.pop(it.audit_id, None)
    return sorted(open_by_id.values())


def _may_write(it: AuditEvent) -> set[str] | None:
    """None for what is not of the pool."""
    node = f"{NODE}{it.name}"
    if it.resource == "leases" and it.namespace == NODE_LEASES:
        return {node}
    if it.resource == "leases" and it.namespace == NAMESPACE:
        return {CANDIDATES} if it.name.startswith("pool-") else {CONTROLLER}
    if it.resource == "nodes":
        if it.subresource == "status":
            return {node, NODE_CONTROLLER}
        return {CONTROLLER, NODE_CONTROLLER, ADMIN_USER}
    if it.resource == "poolmembers":
        return {node, CONTROLLER} if it.subresource == "status" else {CONTROLLER}
    return None
