"""Nodes and PoolMembers as tests write them."""

from pool_sidecar.core.controller.node_state import DEAD_TAINT, STATUS_UNKNOWN, NodeState
from pool_sidecar.core.pool_member import (
    MemberStatus,
    PeerVerdict,
    PoolMember,
    Report,
    Verdict,
)

POOL = "factory-7"


def node(
    name: str,
    ready: str = "True",
    *,
    pool: str = POOL,
    version: int = 1,
    dead: bool = False,
    link: str = "",
    may_lead: bool = False,
) -> NodeState:
    return NodeState(
        name,
        uid=f"uid-{name}",
        resource_version=version,
        pool=pool,
        may_lead=may_lead,
        ready=ready,
        ready_reason=STATUS_UNKNOWN if ready == "Unknown" else "KubeletReady",
        cloud_link=link,
        taints=(DEAD_TAINT,) if dead else (),
    )


def silent(name: str, seconds: int = 40) -> PeerVerdict:
    return PeerVerdict(name, Verdict.SILENT, seconds)


def member(
    name: str,
    *verdicts: PeerVerdict,
    sequence: int = 1,
    every: int = 10,
    pool: str = POOL,
    version: int = 1,
    is_dead: bool = False,
    may_lead: bool = False,
) -> PoolMember:
    """Its report; without a sequence it has none."""
    return PoolMember(
        name,
        uid=f"member-{name}",
        resource_version=version,
        pool=pool,
        may_lead=may_lead,
        is_dead=is_dead,
        owner=f"uid-{name}",
        status=MemberStatus(report=Report(sequence, every, verdicts) if sequence else None),
    )
