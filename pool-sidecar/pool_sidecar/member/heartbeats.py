"""Keeps this node's Lease fresh while its link is down, with the node's own credential.

Guarantees: as `core.heartbeat` has them; each write carries the resourceVersion that was just read,
so that one which is late is refused. No other Lease is ever read or written (N2).
"""

import asyncio
import time
from typing import Final, Never

from edge_sidecars.kubeapi import ApiError, Conflict, NotFound, Unreachable
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.formats import rfc3339
from edge_sidecars.runtime.log import fields, logger, sparing
from pool_sidecar.core.heartbeat import MICRO, UnusableLease, seen
from pool_sidecar.member.cloud import Cloud
from pool_sidecar.member.member import Member

# Seconds between two looks whether a heartbeat is due.
EVERY: Final = 0.5


def lease_path(node: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}"


async def keep_lease(member: Member, cloud: Cloud) -> Never:
    while True:
        now = boottime()
        if member.heartbeat.is_due(now) and cloud.is_there:
            member.heartbeat.began(now)
            await _look(member, cloud)
        await asyncio.sleep(EVERY)


async def _look(member: Member, cloud: Cloud) -> None:
    lender = member.pool.via(boottime())
    path = lease_path(member.config.node)
    is_answered = True
    try:
        lease = await cloud.request("GET", path)
        before = seen(lease)
        renewed = member.heartbeat.renewal(
            before,
            wall=time.time_ns() // 1000,
            now=boottime(),
            healthy_at=member.kubelet_at,
        )
        if renewed is not None:
            lease["spec"]["renewTime"] = rfc3339.stamp_of_micros(renewed)
            await cloud.request("PUT", path, lease)
            member.heartbeats += 1
            member.renewal_gaps.observe(max(renewed - before.renewed, 0) / MICRO)
            logger.debug("heartbeat", extra=fields(via=lender or "own link"))
    except Unreachable as error:
        is_answered = False
        _log(error)
    except (Conflict, NotFound) as error:
        # Kubelet was quicker, or has yet to make it.
        logger.debug("no heartbeat", extra=fields(why=error))
    except (ApiError, UnusableLease) as error:
        _log(error)
    else:
        sparing.forget("heartbeat")
        member.heartbeat.succeeded()
        member.pool.borrowing.looked(lender, is_answered=True, now=boottime())
        return
    now = boottime()
    member.heartbeat.failed(now, is_refused=is_answered)
    if is_answered:
        member.pool.borrowing.looked(lender, is_answered=True, now=now)
    else:
        member.pool.borrowing.was_silent(lender, now)
    member.advance(now)
    if not is_answered and member.pool.via(now) not in ("", lender):
        member.heartbeat.lender_changed(now)


def _log(error: Exception) -> None:
    if sparing.allows("heartbeat"):
        logger.warning("the node's Lease is not renewed", extra=fields(why=error))
