"""The /status document of the controller, as of one moment. Owns names and shapes."""

from typing import Any

from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.process import VERSION
from edge_sidecars.runtime.web.listener_metrics import figures
from pool_sidecar.controller.controller import Controller
from pool_sidecar.core.controller.pool_controller import PoolCount


def status(controller: Controller) -> dict[str, Any]:
    """`lack`: why this process would do nothing as the leader; null where it would."""
    now, leader = boottime(), controller.leader
    return {
        "version": VERSION,
        "uptimeSeconds": round(now - controller.began, 1),
        "listeners": figures(),
        "isReady": not controller.lack,
        "lack": controller.lack or None,
        "leader": {
            "isLeader": leader.is_leader,
            "mayAct": controller.may_act(),
            "holder": leader.holder,
            "term": leader.term,
            "remainingSeconds": round(leader.remaining, 1),
        },
        "pools": [_pool(it) for it in controller.core.counts(now)],
        "malformed": controller.core.defects(),
    }


def _pool(count: PoolCount) -> dict[str, Any]:
    undecided = [{"node": it.node.name, "why": it.why} for it in count.undecided]
    return {
        "pool": count.pool,
        "members": count.members,
        "ready": count.ready,
        "dead": count.dead,
        "cut": count.cut,
        "refused": count.refused,
        "notReachable": count.not_reachable,
        "cannotTell": undecided,
        "keepPods": list(count.keeping),
    }
