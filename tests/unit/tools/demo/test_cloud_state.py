"""Well, cut, dead and site cut are told apart by what the API has of a pool's nodes."""

from pool_sidecar.core.controller.node_state import CLOUD_LINK, CUT, DEAD
from tools.demo.pool.cloud_state import Json, NodeSeen, states

UNREACHABLE = "node.kubernetes.io/unreachable"


def _node(ready: str, *taints: str, cloud_link: str = "True", via: str = "") -> NodeSeen:
    conditions: list[Json] = [{"type": CLOUD_LINK, "status": cloud_link}]
    if ready:
        since = "2026-01-01T00:00:00Z"
        conditions.append({"type": "Ready", "status": ready, "lastTransitionTime": since})
    node = {
        "spec": {"taints": [{"key": it, "effect": "NoExecute"} for it in taints]},
        "status": {"conditions": conditions},
    }
    return NodeSeen.of(node, {"status": {"via": via}}, {})


def test_a_node_that_borrows_a_link_is_cut_and_says_via_whom() -> None:
    cut = _node("True", CUT, cloud_link="False", via="n2")
    assert states({"n1": cut, "n2": _node("True")}) == {"n1": "cut, via n2", "n2": "well"}


def test_a_node_that_the_cloud_has_lost_is_dead_only_by_witness() -> None:
    pool = {"n1": _node("Unknown", UNREACHABLE), "n2": _node("True")}
    assert states(pool) == {"n1": "lost", "n2": "well"}
    pool["n1"] = _node("Unknown", UNREACHABLE, DEAD)
    assert states(pool) == {"n1": "dead", "n2": "well"}


def test_a_site_is_cut_where_no_node_of_it_is_heard_also_beside_a_dead_one() -> None:
    pool = {
        "n1": _node("Unknown", UNREACHABLE, DEAD),
        "n2": _node("Unknown", UNREACHABLE),
        "n3": _node("Unknown", UNREACHABLE, cloud_link="False", via="n2"),
    }
    assert states(pool) == {"n1": "dead", "n2": "site cut", "n3": "site cut"}


def test_a_node_that_never_spoke_is_starting() -> None:
    assert states({"n1": _node("")}) == {"n1": "starting"}
    assert NodeSeen.of({}, {}, {}).renewed == 0.0


def test_a_lease_says_when_it_was_renewed() -> None:
    lease = {"spec": {"renewTime": "1970-01-01T00:01:40.500000Z"}}
    assert NodeSeen.of({}, {}, lease).renewed == 100.5
